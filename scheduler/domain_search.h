// File: scheduler/domain_search.h
//
// Chooses which domains a gang uses, and how many of its blocks each one takes. Internal to
// placement.
//
//   search.Load(tree, shape, capacity, room);
//   if (search.Distribute(policy)) { search.quota(1, domain) ... }
//
// kAuto: the tightest domain that holds the gang, the one with least room among equals; inside it
// as few children as possible at each level, the largest first, the last one by best fit.
// kSpread: the whole cluster, as many children as possible at each level, as evenly as possible.
// Domains in which pods of the gang stay cost nothing more, so they are used first.
//
// Thread-safety: none; buffers are kept. Cost: O(domains), and a sort of the children of each
// domain that is used in part.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

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

  // After FindTightest said true.
  void Distribute(PlacementPolicy policy);
  // What was chosen: free blocks of `level` in the domain, and whether its tail is there too.
  int64_t quota(size_t level, uint32_t domain) const { return quota_[level][domain]; }
  bool quota_tail(size_t level, uint32_t domain) const { return quota_tail_[level][domain] != 0; }

 private:
  struct Child {
    uint32_t domain = 0;
    int64_t full = 0;
    int64_t tail = 0;
    int64_t room = 0;
    bool open = false;  // pods of the gang are there already
  };

  bool RoomIsLess(size_t level, uint32_t left, uint32_t right) const;
  void Split(size_t level, uint32_t domain, PlacementPolicy policy);
  void LoadChildren(size_t level, uint32_t domain, bool with_tail);
  void FillFewest(size_t level, int64_t units, bool with_tail);
  void FillEvenly(size_t level, int64_t units, bool with_tail);
  void Give(size_t level, const Child& child, int64_t units, bool with_tail);

  const PlacementTree* tree_ = nullptr;
  const GangShape* shape_ = nullptr;
  const UnitCapacity* capacity_ = nullptr;
  size_t tightest_level_ = 0;
  uint32_t tightest_ = 0;
  std::array<std::vector<int64_t>, kTreeLevelsMax> room_;
  std::array<std::vector<int64_t>, kTreeLevelsMax> quota_;
  std::array<std::vector<uint8_t>, kTreeLevelsMax> quota_tail_;
  std::vector<Child> children_;  // of the domain that is split now
};

}  // namespace asterism::scheduler
