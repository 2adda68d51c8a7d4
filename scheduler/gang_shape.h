// File: scheduler/gang_shape.h
//
// Turns the rules of a gang into nested blocks of ranks, one block size a level. Internal to
// placement.
//
//   GangShape shape = ShapeOf(pods, rules, levels);
//   shape.block[1]     // this many consecutive pods must share a domain of level 1
//
// At a level, several rules and those of inner levels together bind whole runs of ranks: the common
// block is their least common multiple. Where that exceeds the gang, the gang is one single block,
// which the code treats as a "tail": the last block of a level, smaller than the others. So at each
// level a gang is `full` whole blocks and at most one tail of `tail_pods` pods, and
//   one block of level l = ratio[l] blocks of level l-1
//   the tail of level l  = tail_blocks[l] blocks of level l-1, and the tail of level l-1
//
// Thread-safety: a value. Cost: O(levels x rules).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "scheduler/placement.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

inline constexpr size_t kTreeLevelsMax = topology::kLevelsMax;

struct GangShape {
  static constexpr int64_t kWholeGang = 0;  // a value of `block`: no full blocks, only a tail

  int64_t pods = 0;
  size_t levels = 0;
  std::array<int64_t, kTreeLevelsMax> block{};
  std::array<int64_t, kTreeLevelsMax> full{};
  std::array<int64_t, kTreeLevelsMax> tail_pods{};
  std::array<int64_t, kTreeLevelsMax> ratio{};        // 0 where the level has no full blocks
  std::array<int64_t, kTreeLevelsMax> tail_blocks{};  // not counting the inner tail

  bool has_tail(size_t level) const { return tail_pods[level] > 0; }
  // Full blocks and the tail.
  int64_t blocks(size_t level) const { return full[level] + (has_tail(level) ? 1 : 0); }
  // The block of `level` that holds this pod.
  int64_t BlockOfPod(size_t level, int64_t pod) const {
    return block[level] == kWholeGang ? 0 : pod / block[level];
  }
  int64_t FirstPod(size_t level, int64_t index) const { return index * block[level]; }
  int64_t PodsOf(size_t level, int64_t index) const {
    return index < full[level] ? block[level] : tail_pods[level];
  }
  // The block of `level` that holds this block of the level below it.
  int64_t Parent(size_t level, int64_t child) const {
    return BlockOfPod(level, FirstPod(level - 1, child));
  }
};

// `pods` >= 1. Rules of levels outside the tree are ignored.
GangShape ShapeOf(int64_t pods, std::span<const LevelRule> rules, size_t levels);

}  // namespace asterism::scheduler
