// File: scheduler/unit_capacity.h
//
// How many blocks of a gang each domain can take, from the nodes up, exactly. Internal to
// placement.
//
//   capacity.Load(tree, shape, slots, kept);
//   if (capacity.Fits(level, domain)) ...       // the whole rest of the gang inside this domain
//
// For a domain of level l:
//   full(l, d)  = whole blocks of level l that fit
//   tail(l, d)  = whole blocks that fit beside the tail of level l; -1: the tail does not fit
// Kept pods anchor the blocks they belong to: the missing pods of an anchored block must go into
// its domain. That demand is taken off before anything else is counted.
//
// A cap on the pods in one domain of a level bounds both.
//
// Thread-safety: none; buffers are kept between loads. Cost: O(domains + pods where some are kept).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang_shape.h"
#include "scheduler/placement_tree.h"

namespace asterism::scheduler {

class UnitCapacity {
 public:
  static constexpr uint32_t kFree = 0xffffffff;  // a pod or block that is not anchored

  // `slots`: room for further pods, by node. `kept`: node index by pod or kFree; empty when no pod
  // is kept. `caps`: most pods in one domain, by level, or empty. All must outlive the use of this
  // object.
  void Load(const PlacementTree& tree, const GangShape& shape, std::span<const int64_t> slots,
            std::span<const uint32_t> kept, std::span<const int64_t> caps);

  // False where the kept pods already break a rule, or the rest of an anchored block has no room.
  bool feasible() const { return feasible_; }
  bool has_kept() const { return kept_pods_ > 0; }
  int64_t full(size_t level, uint32_t domain) const { return full_view_[level][domain]; }
  int64_t tail(size_t level, uint32_t domain) const { return tail_[level][domain]; }
  // Blocks that the domain must take, beside what is chosen from above, in blocks of `level` - 1.
  int64_t demand(size_t level, uint32_t domain) const {
    return has_kept() ? demand_[level][domain] : 0;
  }
  bool demands_tail(size_t level, uint32_t domain) const {
    return has_kept() && demands_tail_[level][domain] != 0;
  }
  int64_t kept_in(size_t level, uint32_t domain) const {
    return has_kept() ? kept_count_[level][domain] : 0;
  }
  // Where a block must stay, or kFree.
  uint32_t anchor(size_t level, int64_t block) const {
    return has_kept() ? anchor_[level][static_cast<size_t>(block)] : kFree;
  }
  // Blocks of a level that are not anchored.
  int64_t free_full(size_t level) const { return free_full_[level]; }
  bool free_tail(size_t level) const { return free_tail_[level]; }

  bool Fits(size_t level, uint32_t domain) const {
    return feasible_ && kept_in(level, domain) == kept_pods_ &&
           (free_tail_[level] ? tail_[level][domain] : full_view_[level][domain]) >=
               free_full_[level];
  }
  bool FitsCluster() const { return Fits(tree_->root_level(), 0); }

 private:
  void AnchorBlocks(std::span<const uint32_t> kept);
  void CountDemands();
  void CountNodes(std::span<const int64_t> slots);
  void CountLevel(size_t level);
  void CountCommitted(std::span<const uint32_t> kept);
  void ApplyCap(size_t level, std::span<const int64_t> caps);

  const PlacementTree* tree_ = nullptr;
  const GangShape* shape_ = nullptr;
  bool feasible_ = false;
  int64_t kept_pods_ = 0;
  std::array<int64_t, kTreeLevelsMax> free_full_{};
  std::array<bool, kTreeLevelsMax> free_tail_{};
  // full_, or the slots of the nodes themselves where blocks are pods and nothing is kept.
  std::array<std::span<const int64_t>, kTreeLevelsMax> full_view_;
  std::array<std::vector<int64_t>, kTreeLevelsMax> full_;
  std::array<std::vector<int64_t>, kTreeLevelsMax> tail_;
  // Only loaded while pods are kept.
  std::array<std::vector<uint32_t>, kTreeLevelsMax> anchor_;
  std::array<std::vector<int64_t>, kTreeLevelsMax> demand_;
  std::array<std::vector<uint8_t>, kTreeLevelsMax> demands_tail_;
  std::array<std::vector<int64_t>, kTreeLevelsMax> kept_count_;
  std::vector<int64_t> kept_in_block_;  // of level 0
  // Kept pods, and those that must join them: loaded where there are caps too.
  std::array<std::vector<int64_t>, kTreeLevelsMax> committed_;
};

}  // namespace asterism::scheduler
