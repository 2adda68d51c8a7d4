// File: scheduler/domain_search.h
//
// Chooses which domains a gang uses, and how many of its blocks each one takes. Internal to
// placement.
//
//   search.Load(tree, shape, capacity, room);
//   if (search.FindTightest() && search.Distribute(policy)) {
//     search.quota().blocks(1, domain) ...
//   }
//
// Tightest: the innermost level at which one domain holds the whole gang; there the domain with
// least room, and among equals the one whose parent has least room, and so on.
// Inside it as few children as possible, level by level from the outside: exactly (ExactSearch), or
// where that is too much work by a heuristic (fewest_children.h), which keeps the outermost of
// these levels at its minimum. kSpread: the whole cluster, as many children as possible at each
// level, as evenly as possible. Domains in which pods of the gang stay cost nothing more, so they
// are used first.
//
// Thread-safety: none; buffers are kept. Cost: O(domains), and a sort of the children of each
// domain that is used in part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/domain_quota.h"
#include "scheduler/exact_search.h"
#include "scheduler/fewest_children.h"
#include "scheduler/gang_shape.h"
#include "scheduler/placement.h"
#include "scheduler/placement_tree.h"
#include "scheduler/unit_capacity.h"

namespace asterism::scheduler {

class DomainSearch {
 public:
  // All must outlive the use of this object. `room`: by node, what best fit compares.
  void Load(const PlacementTree& tree, const GangShape& shape, const UnitCapacity& capacity,
            std::span<const int64_t> room);

  // Finds the tightest domain that holds the gang. False when not even the cluster does.
  bool FindTightest();
  size_t tightest_level() const { return tightest_level_; }
  int64_t tightest_room() const { return room_[tightest_level_][tightest_]; }

  // After FindTightest said true. False: capacity and room disagree, which is a fault of ours; the
  // quota is not to be used.
  [[nodiscard]] bool Distribute(PlacementPolicy policy);
  // Over the whole cluster: fewest domains at the levels of `first`, in this order, then at the
  // others from the outermost. False when that is too much work.
  bool DistributeBy(std::span<const size_t> first);
  DomainQuota& quota() { return quota_; }
  ExactSearch& exact() { return exact_; }

 private:
  bool RoomIsLess(size_t level, uint32_t left, uint32_t right) const;
  // What the children of a domain take together.
  struct Share {
    int64_t units = 0;
    bool tail = false;
  };
  Share LoadOf(size_t level, uint32_t domain) const;
  void GiveAllTo(size_t level, uint32_t domain);
  bool Split(size_t level, uint32_t domain, PlacementPolicy policy);
  void LoadChildren(size_t level, uint32_t domain, bool with_tail);
  bool TakeAll(size_t level, int64_t units, bool with_tail);
  bool FillFewest(size_t level, int64_t units, bool with_tail);
  bool FillEvenly(size_t level, int64_t units, bool with_tail);

  const PlacementTree* tree_ = nullptr;
  const GangShape* shape_ = nullptr;
  const UnitCapacity* capacity_ = nullptr;
  size_t tightest_level_ = 0;
  uint32_t tightest_ = 0;
  DomainRooms room_;
  DomainQuota quota_;
  ExactSearch exact_;
  std::vector<ChildShare> children_;  // of the domain that is split now
};

}  // namespace asterism::scheduler
