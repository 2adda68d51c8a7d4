#include "scheduler/gang_shape.h"

#include <algorithm>
#include <numeric>

namespace asterism::scheduler {
namespace {

// The least common multiple, or kWholeGang when it is more than the gang has pods.
int64_t CommonBlock(int64_t left, int64_t right, int64_t pods) {
  if (left == GangShape::kWholeGang || right > pods) {
    return GangShape::kWholeGang;
  }
  const int64_t factor = right / std::gcd(left, right);
  return factor > pods / left ? GangShape::kWholeGang : left * factor;
}

}  // namespace

GangShape ShapeOf(int64_t pods, std::span<const LevelRule> rules, size_t levels) {
  GangShape shape;
  shape.pods = pods;
  shape.levels = levels;
  int64_t block = 1;
  for (size_t level = 0; level < levels; ++level) {
    const int64_t inner = block;
    for (const LevelRule& rule : rules) {
      if (rule.level == level) {
        block = CommonBlock(block, std::max<int64_t>(rule.block_pods, 1), pods);
      }
    }
    const bool whole = block == GangShape::kWholeGang;
    shape.block[level] = block;
    shape.full[level] = whole ? 0 : pods / block;
    shape.tail_pods[level] = whole ? pods : pods % block;
    if (level > 0) {
      shape.ratio[level] = whole ? 0 : block / inner;
      shape.tail_blocks[level] =
          inner == GangShape::kWholeGang ? 0 : shape.tail_pods[level] / inner;
    }
  }
  return shape;
}

}  // namespace asterism::scheduler
