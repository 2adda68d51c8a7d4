// File: test/scheduler/placement_oracle.h
//
// Placement by brute force: tries every assignment of pods to nodes. For clusters of some six nodes
// and gangs of some five pods.
//
//   PlacementOracle oracle(request, ledger);
//   std::optional<OracleAnswer> best = oracle.Best();
//   EXPECT_EQ(oracle.KeyOf(placed.nodes), best->key);
//
// It knows the rules of placement.h and the documented order of preference, and shares no code with
// the engine. Thread-safety: none. Cost: nodes to the power of pods.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/ledger.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {

struct OracleAnswer {
  std::string product;
  std::vector<uint8_t> held;  // by preferred rule, sorted by level
  std::vector<int64_t> key;   // smaller is better
};

class PlacementOracle {
 public:
  PlacementOracle(const PlacementRequest& request, const Ledger& ledger)
      : request_(request), ledger_(ledger), cluster_(ledger.cluster()) {
    for (const LevelRule& rule : request.rules) {
      (rule.required ? required_ : preferred_).push_back(rule);
    }
    const auto by_level = [](const LevelRule& left, const LevelRule& right) {
      return left.level < right.level;
    };
    std::stable_sort(preferred_.begin(), preferred_.end(), by_level);
    kept_.assign(static_cast<size_t>(request.pods), NodeId());
    for (size_t pod = 0; pod < request.kept.size() && pod < kept_.size(); ++pod) {
      if (!request.kept[pod].empty()) {
        kept_[pod] = cluster_.FindNode(request.kept[pod]);
      }
    }
  }

  // Whether the gang fits when nobody holds anything.
  bool FitsEmpty() {
    for (const std::string& product : Products(/*empty=*/true)) {
      LoadSlots(product, required_, /*empty=*/true);
      const std::vector<NodeId> kept = kept_;
      kept_.assign(kept_.size(), NodeId());
      const bool fits = Any(required_);
      kept_ = kept;
      if (fits) {
        return true;
      }
    }
    return false;
  }

  std::optional<OracleAnswer> Best() {
    std::optional<OracleAnswer> best;
    std::vector<int64_t> best_choice;
    for (const std::string& product : Products(/*empty=*/false)) {
      OracleAnswer answer;
      answer.product = product;
      if (!ChooseRules(product, answer.held)) {
        continue;
      }
      LoadForRules(product, answer.held);
      const std::optional<std::vector<int64_t>> tight = BestKey(/*standard=*/true);
      // held first (more is better), then tightest level and its room
      std::vector<int64_t> choice;
      for (const uint8_t held : answer.held) {
        choice.push_back(-int64_t{held});
      }
      choice.push_back((*tight)[0]);
      choice.push_back((*tight)[1]);
      if (!best.has_value() || choice < best_choice) {
        best_choice = choice;
        answer.key = *BestKey(/*standard=*/false);
        best = answer;
      }
    }
    return best;
  }

  // The most domains of a level that any valid placement uses.
  int64_t MostDomains(size_t level, const OracleAnswer& answer) {
    LoadForRules(answer.product, answer.held);
    int64_t most = 0;
    std::vector<NodeId> nodes;
    std::vector<int64_t> left = slots_;
    Enumerate(rules_, nodes, left, [&](const std::vector<NodeId>& found) {
      most = std::max(most, CountDomains(level, found));
      return true;
    });
    return most;
  }
  int64_t CountDomains(size_t level, const std::vector<NodeId>& nodes) const {
    std::set<size_t> used;
    for (const NodeId node : nodes) {
      used.insert(DomainOf(level, node));
    }
    return static_cast<int64_t>(used.size());
  }
  size_t RootLevel() const { return std::max<size_t>(cluster_.level_count(), 2) - 1; }

  // Of a placement that was made for the product and rules of `answer`.
  std::vector<int64_t> KeyOf(const std::vector<NodeId>& nodes, const OracleAnswer& answer) {
    LoadForRules(answer.product, answer.held);
    return Key(nodes, /*standard=*/false);
  }

  // Empty, or what is wrong with the placement.
  std::string Violation(const std::vector<NodeId>& nodes, const OracleAnswer& answer) {
    LoadForRules(answer.product, answer.held);
    if (nodes.size() != kept_.size()) {
      return "wrong number of pods";
    }
    std::vector<int64_t> left = slots_;
    for (size_t pod = 0; pod < nodes.size(); ++pod) {
      if (kept_[pod].valid()) {
        if (nodes[pod] != kept_[pod]) {
          return "a kept pod moved";
        }
      } else if (--left[nodes[pod].index()] < 0) {
        return "a node has no room for its pods";
      }
      if (!RulesHold(nodes, pod, rules_)) {
        return "a rule is broken";
      }
    }
    return "";
  }

 private:
  std::vector<std::string> Products(bool empty) const {
    std::vector<std::string> products;
    for (const NodeId node : kept_) {
      if (node.valid() && !empty) {
        return {ledger_.node_state(node).product};
      }
    }
    if (!request_.products.empty()) {
      for (const std::string& product : request_.products) {
        if (std::find(products.begin(), products.end(), product) == products.end()) {
          products.push_back(product);
        }
      }
      return products;
    }
    std::set<std::string> all;
    for (size_t i = 0; i < cluster_.node_count(); ++i) {
      all.insert(ledger_.node_state(NodeId(i)).product);
    }
    return {all.begin(), all.end()};
  }

  int64_t Gpus() const { return request_.request[request_.gpu_slot]; }

  void LoadSlots(const std::string& product, const std::vector<LevelRule>& rules, bool empty) {
    rules_ = rules;
    slots_.assign(cluster_.node_count(), 0);
    room_.assign(cluster_.node_count(), 0);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const NodeId node(i);
      const NodeState& state = ledger_.node_state(node);
      const bool class_allowed =
          request_.node_classes.size() == 0 || (state.node_class < request_.node_classes.size() &&
                                                request_.node_classes.Test(state.node_class));
      if (state.product != product || !class_allowed) {
        continue;
      }
      if (!empty && (!state.usable || std::find(request_.excluded.begin(), request_.excluded.end(),
                                                state.name) != request_.excluded.end())) {
        continue;
      }
      bool named = true;
      for (const LevelRule& rule : rules) {
        named = named && cluster_.named(rule.level, cluster_.DomainOf(rule.level, node));
      }
      if (!named) {
        continue;
      }
      ResourceVector free = empty ? state.allocatable : ledger_.Free(node);
      if (!empty) {
        free.Add(ledger_.HeldBy(request_.gang_uid, node));
        for (const NodeId kept : kept_) {
          if (kept == node) {
            free.Subtract(request_.request);
          }
        }
      }
      slots_[i] = free.TimesFits(request_.request, 1000);
      room_[i] = std::max<int64_t>(free[request_.gpu_slot], 0);
    }
  }

  void LoadForRules(const std::string& product, const std::vector<uint8_t>& held) {
    std::vector<LevelRule> rules = required_;
    first_.clear();
    for (size_t i = 0; i < held.size(); ++i) {
      if (held[i] != 0) {
        rules.push_back(preferred_[i]);
      } else {
        first_.push_back(preferred_[i].level);
      }
    }
    if (request_.policy == PlacementPolicy::kPack) {
      first_.push_back(0);
    }
    LoadSlots(product, rules, /*empty=*/false);
  }

  bool ChooseRules(const std::string& product, std::vector<uint8_t>& held) {
    held.assign(preferred_.size(), 0);
    LoadForRules(product, held);
    if (!Any(rules_)) {
      return false;
    }
    for (size_t i = 0; i < held.size(); ++i) {
      held[i] = 1;
      LoadForRules(product, held);
      held[i] = Any(rules_) ? 1 : 0;
    }
    return true;
  }

  bool RulesHold(const std::vector<NodeId>& nodes, size_t pod,
                 const std::vector<LevelRule>& rules) const {
    for (const LevelRule& rule : rules) {
      const size_t first =
          pod / static_cast<size_t>(rule.block_pods) * static_cast<size_t>(rule.block_pods);
      if (cluster_.DomainOf(rule.level, nodes[first]) !=
          cluster_.DomainOf(rule.level, nodes[pod])) {
        return false;
      }
    }
    for (const ApartRule& rule : request_.apart) {
      int64_t together = 0;
      for (size_t other = 0; other <= pod; ++other) {
        together += DomainOf(rule.level, nodes[other]) == DomainOf(rule.level, nodes[pod]) ? 1 : 0;
      }
      if (together > rule.pods_max) {
        return false;
      }
    }
    return true;
  }

  // Calls visit for each valid assignment until it returns false.
  bool Enumerate(const std::vector<LevelRule>& rules, std::vector<NodeId>& nodes,
                 std::vector<int64_t>& left,
                 const std::function<bool(const std::vector<NodeId>&)>& visit) {
    const size_t pod = nodes.size();
    if (pod == kept_.size()) {
      return visit(nodes);
    }
    for (size_t i = 0; i < left.size(); ++i) {
      const bool kept = kept_[pod].valid();
      if (kept ? kept_[pod] != NodeId(i) : left[i] == 0) {
        continue;
      }
      nodes.push_back(NodeId(i));
      left[i] -= kept ? 0 : 1;
      const bool go_on = !RulesHold(nodes, pod, rules) || Enumerate(rules, nodes, left, visit);
      left[i] += kept ? 0 : 1;
      nodes.pop_back();
      if (!go_on) {
        return false;
      }
    }
    return true;
  }

  bool Any(const std::vector<LevelRule>& rules) {
    std::vector<NodeId> nodes;
    std::vector<int64_t> left = slots_;
    return !Enumerate(rules, nodes, left, [](const std::vector<NodeId>&) { return false; });
  }

  std::optional<std::vector<int64_t>> BestKey(bool standard) {
    std::optional<std::vector<int64_t>> best;
    std::vector<NodeId> nodes;
    std::vector<int64_t> left = slots_;
    Enumerate(rules_, nodes, left, [&](const std::vector<NodeId>& found) {
      std::vector<int64_t> key = Key(found, standard);
      if (!best.has_value() || key < *best) {
        best = std::move(key);
      }
      return true;
    });
    return best;
  }

  // Where the cluster has one level, the root is none of its levels.
  size_t DomainOf(size_t level, NodeId node) const {
    return level < cluster_.level_count() ? cluster_.DomainOf(level, node).index() : 0;
  }
  int64_t RoomOf(size_t level, size_t domain) const {
    int64_t room = 0;
    for (size_t i = 0; i < room_.size(); ++i) {
      room += DomainOf(level, NodeId(i)) == domain ? room_[i] : 0;
    }
    return room;
  }

  // Domains of a level that are opened: used, but not by a pod that stays.
  std::set<size_t> Opened(size_t level, const std::vector<NodeId>& nodes) const {
    std::set<size_t> opened;
    for (const NodeId node : nodes) {
      opened.insert(DomainOf(level, node));
    }
    for (const NodeId node : kept_) {
      if (node.valid()) {
        opened.erase(DomainOf(level, node));
      }
    }
    return opened;
  }

  std::vector<int64_t> Key(const std::vector<NodeId>& nodes, bool standard) const {
    std::vector<int64_t> key;
    size_t top = RootLevel();
    if (standard || first_.empty()) {
      top = 0;
      while (std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) {
        return DomainOf(top, node) != DomainOf(top, nodes[0]);
      })) {
        ++top;
      }
      key.push_back(static_cast<int64_t>(top));
      for (size_t level = top; level <= RootLevel(); ++level) {
        key.push_back(RoomOf(level, DomainOf(level, nodes[0])));
      }
      key.push_back(static_cast<int64_t>(DomainOf(top, nodes[0])));
    }
    std::vector<size_t> order;
    const auto add = [&](size_t level) {
      if (level < top && std::find(order.begin(), order.end(), level) == order.end()) {
        order.push_back(level);
      }
    };
    if (!standard) {
      std::for_each(first_.begin(), first_.end(), add);
    }
    for (size_t level = top; level-- > 0;) {
      add(level);
    }
    int64_t waste = 0;
    for (const size_t level : order) {
      const std::set<size_t> opened = Opened(level, nodes);
      key.push_back(static_cast<int64_t>(opened.size()));
      for (const size_t domain : opened) {
        waste += RoomOf(level, domain);
      }
    }
    key.push_back(waste);
    return key;
  }

  const PlacementRequest& request_;
  const Ledger& ledger_;
  const topology::Cluster& cluster_;
  std::vector<LevelRule> required_;
  std::vector<LevelRule> preferred_;
  std::vector<NodeId> kept_;
  // Of the product and rules tried now.
  std::vector<LevelRule> rules_;
  std::vector<size_t> first_;
  std::vector<int64_t> slots_;
  std::vector<int64_t> room_;
};

}  // namespace asterism::scheduler
