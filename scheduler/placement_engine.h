// File: scheduler/placement_engine.h
//
// One attempt to place a gang, and the buffers for it. Internal to placement: Place() asks it for a
// placement, the reasons ask it "would it fit if".
//
//   engine.Prepare(request, ledger, Capacity::kFree);
//   if (engine.Choose() && engine.Assign(placed)) ...
//
// Products are tried one by one, since a gang has one; the best is the one that keeps the most
// valuable preferred rules, then crosses the fewest levels, then leaves the least room.
// Preferred rules are kept in the order of the traffic that they save; where that is not known or
// equal from the innermost level outwards, where the traffic of a gang is heaviest. Each is kept if
// it can hold together with those kept before it. So what is given up first is the outermost, or
// what costs least. A gang that gave one up still uses as few domains of that level as it
// can, even where that costs more of the outer ones. kPack does the same for nodes.
//
// Degraded nodes are used where the gang, with its required rules, does not fit without them, and
// no more of them than it needs: the first so many, in their order. A rule that is only preferred
// is given up before that.
//
// Of nodes with several islands of GPUs only the room inside islands is used where the gang, with
// its required rules, fits so: what is inside a pod talks most. A preferred rule is given up before
// that, too.
//
// Thread-safety: none; keep one a thread. Cost: O(nodes x levels) for each product and rule set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/domain_search.h"
#include "scheduler/gang_shape.h"
#include "scheduler/level_use.h"
#include "scheduler/node_slots.h"
#include "scheduler/placement.h"
#include "scheduler/placement_tree.h"
#include "scheduler/rank_order.h"
#include "scheduler/spare_choice.h"
#include "scheduler/unit_capacity.h"

namespace asterism::scheduler {

enum class Capacity {
  kFree,      // what is free now
  kRepaired,  // what is free, on nodes that are not usable too
  kEmpty,     // as if nobody held anything; kept pods and excluded nodes do not count
};

class PlacementEngine {
 public:
  // Both must outlive the use of this object. The request is valid (CheckRequest in placement.cc).
  // `ended`: gangs that count as gone, for kFree.
  void Prepare(const PlacementRequest& request, const Ledger& ledger, Capacity capacity,
               std::span<const ExpectedEnd> ended = {});

  // Decides product, rules and domains. False: does not fit.
  bool Choose();
  // After Choose said true. False: no split was found all the same, which is a fault of ours. It
  // may find places for fewer spares than were asked for.
  [[nodiscard]] bool Assign(Placed& placed);

  // Whether `pods` pods fit with the required rules, in some product or in this one.
  bool FitsRequired(int64_t pods);
  bool Fits(uint32_t product, int64_t pods, std::span<const LevelRule> rules);

  // Products the gang may have, the preferred first: indices into ledger.product_names().
  const std::vector<uint32_t>& products() const { return products_; }
  // Sorted by level; the preferred ones by what they save first.
  const std::vector<LevelRule>& required_rules() const { return required_; }
  const std::vector<LevelRule>& preferred_rules() const { return preferred_; }
  const PlacementTree& tree() const { return tree_; }
  // Of the product and rules of the last Fits.
  std::span<const int64_t> slots() const { return slots_.slots(); }
  std::span<const int64_t> room() const { return slots_.room(); }
  int64_t SlotsIn(size_t level, uint32_t domain) const;
  int64_t free_pods() const { return free_pods_; }
  // For its work limit.
  ExactSearch& exact() { return search_.exact(); }

 private:
  struct Candidate {
    uint32_t product = 0;
    std::vector<LevelRule> rules;
    std::vector<uint8_t> held;  // by preferred rule
    size_t tightest_level = 0;
    int64_t room = 0;
  };

  void LoadKept();
  void LoadProducts();
  void OpenDegraded();
  bool ChooseProduct();
  bool ChooseRules(Candidate& candidate);
  bool FindDomain(Candidate& candidate);
  bool Distribute();
  bool KeepRoomiest(size_t level);
  static bool IsBetter(const Candidate& candidate, const Candidate& best);

  const PlacementRequest* request_ = nullptr;
  const Ledger* ledger_ = nullptr;
  int64_t free_pods_ = 0;
  std::vector<uint32_t> kept_;  // by pod, or empty
  std::vector<uint32_t> products_;
  std::vector<LevelRule> required_;
  std::vector<LevelRule> preferred_;
  std::vector<int64_t> caps_;  // by level, or empty

  PlacementTree tree_;
  NodeSlots slots_;
  GangShape shape_;
  UnitCapacity capacity_;
  DomainSearch search_;
  RankOrder order_;
  LevelMeter meter_;
  SpareChoice spares_;
  Candidate candidate_;
  Candidate best_;
  std::vector<size_t> first_levels_;
  std::vector<int64_t> sorted_;
};

}  // namespace asterism::scheduler
