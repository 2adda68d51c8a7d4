#include "topology/declared_tree.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace asterism::topology {
namespace {

class TreeChecker {
 public:
  explicit TreeChecker(const DeclaredTree& tree) : tree_(tree), parents_(tree.switches.size()) {}

  TreeCheck Check() {
    Index();
    LinkChildren();
    CheckNodes();
    FindCycle();
    for (size_t i = 0; i < tree_.switches.size(); ++i) {
      check_.multi_parent += parents_[i].size() > 1 ? 1 : 0;
      if (parents_[i].empty()) {
        check_.roots.push_back(tree_.switches[i].name);
      }
    }
    return std::move(check_);
  }

 private:
  void Refuse(uint32_t line, std::string text) {
    check_.reasons.push_back({line, std::move(text)});
  }

  void Index() {
    for (size_t i = 0; i < tree_.switches.size(); ++i) {
      const DeclaredSwitch& each = tree_.switches[i];
      if (const auto [it, added] = by_name_.emplace(each.name, i); !added) {
        Refuse(each.line, fmt::format("switch {} is already there (line {})", each.name,
                                      tree_.switches[it->second].line));
      }
    }
  }

  void LinkChildren() {
    for (size_t i = 0; i < tree_.switches.size(); ++i) {
      const DeclaredSwitch& each = tree_.switches[i];
      for (const std::string& child : each.children) {
        const auto it = by_name_.find(child);
        if (it == by_name_.end()) {
          Refuse(each.line, fmt::format("undefined child {}", child));
        } else {
          parents_[it->second].push_back(i);
        }
      }
    }
    for (size_t i = 0; i < tree_.switches.size(); ++i) {
      const DeclaredSwitch& each = tree_.switches[i];
      if (each.nodes.empty() && each.children.empty()) {
        Refuse(each.line, fmt::format("leaf {} is empty{}", each.name,
                                      parents_[i].empty() ? " and has no parent" : ""));
      }
    }
  }

  void CheckNodes() {
    base::StringMap<size_t> leaf_of;
    for (size_t i = 0; i < tree_.switches.size(); ++i) {
      const DeclaredSwitch& each = tree_.switches[i];
      check_.leaf_count += each.nodes.empty() ? 0 : 1;
      for (const std::string& node : each.nodes) {
        if (const auto [it, added] = leaf_of.emplace(node, i); !added) {
          Refuse(each.line, fmt::format("node {} on two leafs ({}, {})", node,
                                        tree_.switches[it->second].name, each.name));
        }
      }
    }
    check_.node_count = leaf_of.size();
  }

  // Switches are taken away once all their children are; what stays has a cycle below it or is one.
  void FindCycle() {
    std::vector<size_t> waiting_for(tree_.switches.size(), 0);
    std::vector<size_t> height(tree_.switches.size(), 1);
    for (const std::vector<size_t>& parents : parents_) {
      for (const size_t parent : parents) {
        ++waiting_for[parent];
      }
    }
    std::vector<size_t> ready;
    for (size_t i = 0; i < tree_.switches.size(); ++i) {
      if (waiting_for[i] == 0) {
        ready.push_back(i);
      }
    }
    for (size_t next = 0; next < ready.size(); ++next) {
      for (const size_t parent : parents_[ready[next]]) {
        height[parent] = std::max(height[parent], height[ready[next]] + 1);
        if (--waiting_for[parent] == 0) {
          ready.push_back(parent);
        }
      }
      check_.levels = std::max(check_.levels, height[ready[next]]);
    }
    check_.cycle = ready.size() < tree_.switches.size();
    if (check_.cycle) {
      check_.levels = 0;
      NameCycle(waiting_for);
    }
  }

  // Walks from a switch that is left to a child that is left until one comes back.
  void NameCycle(const std::vector<size_t>& waiting_for) {
    size_t at = 0;
    while (waiting_for[at] == 0) {
      ++at;
    }
    std::vector<size_t> way;
    std::vector<bool> seen(tree_.switches.size(), false);
    while (!seen[at]) {
      seen[at] = true;
      way.push_back(at);
      for (const std::string& child : tree_.switches[at].children) {
        const auto it = by_name_.find(child);
        if (it != by_name_.end() && waiting_for[it->second] > 0) {
          at = it->second;
          break;
        }
      }
    }
    std::string names;
    for (auto it = std::find(way.begin(), way.end(), at); it != way.end(); ++it) {
      names += " " + tree_.switches[*it].name;
    }
    Refuse(tree_.switches[at].line, "cycle" + names);
  }

  const DeclaredTree& tree_;
  base::StringMap<size_t> by_name_;
  std::vector<std::vector<size_t>> parents_;
  TreeCheck check_;
};

}  // namespace

TreeCheck CheckTree(const DeclaredTree& tree) {
  return TreeChecker(tree).Check();
}

std::vector<TreeProblem> CheckBlocks(const DeclaredTree& tree) {
  std::vector<TreeProblem> problems;
  if (!tree.block_sizes.empty()) {
    const uint32_t base = *std::min_element(tree.block_sizes.begin(), tree.block_sizes.end());
    for (const uint32_t size : tree.block_sizes) {
      const uint32_t factor = base == 0 ? 0 : size / base;
      if (base == 0 || size % base != 0 || (factor & (factor - 1)) != 0) {
        problems.push_back(
            {0, fmt::format("block size {} is not the base size {} times a power of two", size,
                            base)});
      }
    }
  }
  base::StringMap<size_t> block_of;
  for (size_t i = 0; i < tree.blocks.size(); ++i) {
    for (const std::string& node : tree.blocks[i].nodes) {
      if (const auto [it, added] = block_of.emplace(node, i); !added) {
        problems.push_back(
            {tree.blocks[i].line, fmt::format("node {} in two blocks ({}, {})", node,
                                              tree.blocks[it->second].name, tree.blocks[i].name)});
      }
    }
  }
  return problems;
}

DeclaredFacts FactsOfTree(const DeclaredTree& tree) {
  base::StringMap<const DeclaredSwitch*> parent;
  for (const DeclaredSwitch& each : tree.switches) {
    for (const std::string& child : each.children) {
      parent.emplace(child, &each);
    }
  }
  DeclaredFacts facts;
  size_t deepest = 0;
  for (const DeclaredSwitch& leaf : tree.switches) {
    std::vector<std::string> path = {leaf.name};
    for (auto it = parent.find(leaf.name); it != parent.end() && path.size() < kLevelsMax;
         it = parent.find(it->second->name)) {
      path.push_back(it->second->name);
    }
    // A single root is the cluster itself.
    for (const std::string& node : leaf.nodes) {
      facts.nodes.push_back({node, path});
    }
    deepest = leaf.nodes.empty() ? deepest : std::max(deepest, path.size());
  }
  std::set<std::string> tops;
  for (const NodeFacts& node : facts.nodes) {
    tops.insert(node.domains.size() == deepest ? node.domains.back() : "");
  }
  if (tops.size() == 1 && deepest > 1 && tops.count("") == 0) {
    --deepest;
  }
  deepest = std::min(deepest, kLevelsMax - 2);
  facts.levels.emplace_back("node");
  for (size_t level = 1; level <= deepest; ++level) {
    facts.levels.push_back(level == 1 ? "leaf" : fmt::format("tier-{}", level));
  }
  facts.levels.emplace_back("cluster");
  for (NodeFacts& node : facts.nodes) {
    node.domains.resize(deepest);
  }
  return facts;
}

DeclaredFacts FactsOfBlocks(const DeclaredTree& tree) {
  DeclaredFacts facts;
  facts.levels = {"node", "block", "cluster"};
  for (const DeclaredBlock& block : tree.blocks) {
    for (const std::string& node : block.nodes) {
      facts.nodes.push_back({node, {block.name}});
    }
  }
  return facts;
}

}  // namespace asterism::topology
