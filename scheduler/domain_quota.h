// File: scheduler/domain_quota.h
//
// How many blocks of a gang each domain takes: the answer of the domain search. Internal to
// placement.
//
//   quota.Clear(tree);
//   quota.Set(1, domain, 3, /*tail=*/false);   // three blocks of level 1
//
// Blocks that stay where they are do not count. `tail`: the domain also takes the tail of its
// level. Thread-safety: none; buffers are kept. Cost: Clear O(domains), Set O(1).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/gang_shape.h"
#include "scheduler/placement_tree.h"

namespace asterism::scheduler {

class DomainQuota {
 public:
  void Clear(const PlacementTree& tree) {
    for (size_t level = 0; level < tree.levels(); ++level) {
      blocks_[level].assign(tree.domain_count(level), 0);
      tail_[level].assign(tree.domain_count(level), 0);
    }
  }
  void Set(size_t level, uint32_t domain, int64_t blocks, bool tail) {
    blocks_[level][domain] = blocks;
    tail_[level][domain] = tail ? 1 : 0;
  }
  void TakeOne(size_t level, uint32_t domain) { --blocks_[level][domain]; }
  int64_t blocks(size_t level, uint32_t domain) const { return blocks_[level][domain]; }
  bool tail(size_t level, uint32_t domain) const { return tail_[level][domain] != 0; }

 private:
  std::array<std::vector<int64_t>, kTreeLevelsMax> blocks_;
  std::array<std::vector<uint8_t>, kTreeLevelsMax> tail_;
};

}  // namespace asterism::scheduler
