#include "topology/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "topology/natural_order.h"

namespace asterism::topology {
namespace {

constexpr size_t kNameLengthMax = 253;  // of a node, and of a domain value
constexpr size_t kNodesMax = 1'000'000;

bool IsLevelName(std::string_view name) {
  const auto allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
  };
  return !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), allowed);
}

absl::Status CheckLevels(const std::vector<std::string>& names) {
  if (names.empty() || names.size() > kLevelsMax) {
    return absl::InvalidArgumentError(fmt::format(
        "levels: a cluster has 1 to {} levels, not {}: list them from the node outwards",
        kLevelsMax, names.size()));
  }
  base::StringMap<size_t> seen;
  for (size_t level = 0; level < names.size(); ++level) {
    if (!IsLevelName(names[level])) {
      return absl::InvalidArgumentError(
          fmt::format("levels[{}]: \"{}\" is not a level name: use 1 to 32 of a-z, 0-9 and -",
                      level, names[level].substr(0, 64)));
    }
    if (const auto [it, added] = seen.emplace(names[level], level); !added) {
      return absl::InvalidArgumentError(
          fmt::format("levels[{}]: \"{}\" is already levels[{}]: give each level its own name",
                      level, names[level], it->second));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNode(const std::vector<std::string>& levels, const NodeFacts& node) {
  if (node.name.empty() || node.name.size() > kNameLengthMax) {
    return absl::InvalidArgumentError(fmt::format("node \"{}\": a node name has 1 to {} characters",
                                                  node.name.substr(0, 64), kNameLengthMax));
  }
  const size_t wanted = levels.size() > 2 ? levels.size() - 2 : 0;
  if (node.domains.size() != wanted) {
    return absl::InvalidArgumentError(fmt::format(
        "node \"{}\" has {} domain values, needs {}: one for each level between \"{}\" and "
        "\"{}\", empty where not known",
        node.name, node.domains.size(), wanted, levels.front(), levels.back()));
  }
  for (size_t i = 0; i < node.domains.size(); ++i) {
    if (node.domains[i].size() > kNameLengthMax) {
      return absl::InvalidArgumentError(
          fmt::format("node \"{}\": its value for level \"{}\" has {} characters: use at most {}",
                      node.name, levels[i + 1], node.domains[i].size(), kNameLengthMax));
    }
  }
  return absl::OkStatus();
}

// From the outermost level inwards; a domain without a value stands behind the named ones and holds
// one node only, so there the node's name decides.
bool InTopologyOrder(const NodeFacts& left, const NodeFacts& right) {
  for (size_t i = left.domains.size(); i-- > 0;) {
    const std::string& left_value = left.domains[i];
    const std::string& right_value = right.domains[i];
    if (left_value.empty() && right_value.empty()) {
      break;
    }
    if (left_value.empty() != right_value.empty()) {
      return right_value.empty();
    }
    if (const int order = NaturalCompare(left_value, right_value); order != 0) {
      return order < 0;
    }
  }
  return NaturalLess(left.name, right.name);
}

}  // namespace

class ClusterBuilder {
 public:
  // `nodes` are checked and in topology order.
  static Cluster Build(std::vector<std::string> level_names, const std::vector<NodeFacts>& nodes) {
    Cluster cluster;
    const size_t levels = level_names.size();
    cluster.level_names_ = std::move(level_names);
    cluster.levels_.resize(levels);
    cluster.node_names_.reserve(nodes.size());
    cluster.node_by_name_.reserve(nodes.size());
    for (const NodeFacts& node : nodes) {
      cluster.node_by_name_.emplace(node.name, static_cast<uint32_t>(cluster.node_names_.size()));
      cluster.node_names_.push_back(node.name);
    }
    if (levels > 1) {
      AddWholeCluster(cluster);
    }
    for (size_t level = levels - 1; level-- > 1;) {
      AddLevel(cluster, level, nodes);
    }
    AddNodes(cluster);
    for (size_t level = 1; level < levels; ++level) {
      LinkLevels(cluster.levels_[level - 1], cluster.levels_[level]);
    }
    return cluster;
  }

 private:
  static void AddWholeCluster(Cluster& cluster) {
    const size_t level = cluster.level_count() - 1;
    const uint32_t count = static_cast<uint32_t>(cluster.node_count());
    cluster.levels_[level].domains.push_back({cluster.level_names_[level], 0, count, true});
    cluster.levels_[level].domain_of_node.assign(count, 0);
  }

  static void AddNodes(Cluster& cluster) {
    Cluster::Level& level = cluster.levels_[0];
    level.domains.reserve(cluster.node_count());
    level.domain_of_node.reserve(cluster.node_count());
    for (uint32_t node = 0; node < cluster.node_count(); ++node) {
      level.domains.push_back({cluster.node_names_[node], node, node + 1, true});
      level.domain_of_node.push_back(node);
    }
  }

  // The level above is there already: a domain never reaches over the end of its parent.
  static void AddLevel(Cluster& cluster, size_t level, const std::vector<NodeFacts>& nodes) {
    Cluster::Level& target = cluster.levels_[level];
    const std::vector<uint32_t>& parent_of_node = cluster.levels_[level + 1].domain_of_node;
    std::vector<const std::string*> values;  // by domain
    for (uint32_t node = 0; node < nodes.size(); ++node) {
      const std::string& value = nodes[node].domains[level - 1];
      const bool joins = node > 0 && !value.empty() && value == *values.back() &&
                         parent_of_node[node] == parent_of_node[node - 1];
      if (!joins) {
        target.domains.push_back({"", node, node, !value.empty()});
        values.push_back(&value);
      }
      target.domains.back().end = node + 1;
      target.domain_of_node.push_back(static_cast<uint32_t>(target.domains.size() - 1));
    }
    NameDomains(cluster, level, values);
  }

  static void LinkLevels(Cluster::Level& inner, Cluster::Level& outer) {
    uint32_t child = 0;
    for (uint32_t index = 0; index < outer.domains.size(); ++index) {
      outer.first_child.push_back(child);
      while (child < inner.domains.size() &&
             inner.domains[child].begin < outer.domains[index].end) {
        inner.parent.push_back(index);
        ++child;
      }
    }
    outer.first_child.push_back(child);
  }

  static void NameDomains(Cluster& cluster, size_t level,
                          const std::vector<const std::string*>& values) {
    Cluster::Level& target = cluster.levels_[level];
    const Cluster::Level& above = cluster.levels_[level + 1];
    base::StringMap<size_t> uses;
    for (const std::string* value : values) {
      ++uses[*value];
    }
    base::StringMap<size_t> given;
    for (size_t i = 0; i < target.domains.size(); ++i) {
      Cluster::Domain& domain = target.domains[i];
      if (!domain.named) {
        domain.name = "unnamed-" + cluster.node_names_[domain.begin];
      } else if (uses[*values[i]] > 1) {
        const Cluster::Domain& parent = above.domains[above.domain_of_node[domain.begin]];
        domain.name = parent.name + "/" + *values[i];
      } else {
        domain.name = *values[i];
      }
      // A source may use a value that looks like a composed name; the later one steps aside.
      const std::string wanted = domain.name;
      for (size_t twin = 2; !given.emplace(domain.name, i).second; ++twin) {
        domain.name = fmt::format("{}~{}", wanted, twin);
      }
    }
  }
};

std::optional<size_t> Cluster::FindLevel(std::string_view name) const {
  const auto it = std::find(level_names_.begin(), level_names_.end(), name);
  if (it == level_names_.end()) {
    return std::nullopt;
  }
  return static_cast<size_t>(it - level_names_.begin());
}

NodeId Cluster::FindNode(std::string_view name) const {
  const auto it = node_by_name_.find(name);
  return it == node_by_name_.end() ? NodeId() : NodeId(it->second);
}

NodeRange Cluster::NodesOf(size_t level, DomainId domain) const {
  const Domain& found = levels_[level].domains[domain.index()];
  return NodeRange{NodeId(found.begin), NodeId(found.end)};
}

bool Cluster::named(size_t level, DomainId domain) const {
  return levels_[level].domains[domain.index()].named;
}

const std::string& Cluster::domain_name(size_t level, DomainId domain) const {
  return levels_[level].domains[domain.index()].name;
}

absl::StatusOr<Cluster> BuildCluster(std::vector<std::string> level_names,
                                     std::vector<NodeFacts> nodes) {
  RETURN_IF_ERROR(CheckLevels(level_names));
  if (nodes.size() > kNodesMax) {
    return absl::InvalidArgumentError(fmt::format(
        "{} nodes are more than the {} that one cluster may have", nodes.size(), kNodesMax));
  }
  for (const NodeFacts& node : nodes) {
    RETURN_IF_ERROR(CheckNode(level_names, node));
  }
  // Who lists nodes again lists them in the order that came out before.
  if (!std::is_sorted(nodes.begin(), nodes.end(), InTopologyOrder)) {
    std::sort(nodes.begin(), nodes.end(), InTopologyOrder);
  }
  absl::flat_hash_set<std::string_view> seen;
  seen.reserve(nodes.size());
  for (const NodeFacts& node : nodes) {
    if (!seen.insert(node.name).second) {
      return absl::InvalidArgumentError(fmt::format(
          "node \"{}\" is listed twice: give each node once, with all its domains", node.name));
    }
  }
  return ClusterBuilder::Build(std::move(level_names), nodes);
}

}  // namespace asterism::topology
