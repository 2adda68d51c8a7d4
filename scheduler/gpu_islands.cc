#include "scheduler/gpu_islands.h"

#include <algorithm>
#include <bit>

namespace asterism::scheduler {

int64_t WholePods(const GpuIslands& islands, int64_t gpus, int64_t free_gpus) {
  if (!islands.split() || gpus <= 1) {
    return kAnyIsland;
  }
  int64_t largest = 0;
  int64_t free_in_masks = 0;
  int64_t pods = 0;
  for (const uint64_t island : islands.islands) {
    const int64_t free = std::popcount(island & ~islands.taken);
    largest = std::max<int64_t>(largest, std::popcount(island));
    free_in_masks += free;
    pods += free / gpus;
  }
  if (largest < gpus) {
    return kAnyIsland;
  }
  const int64_t promised = std::max<int64_t>(free_in_masks - std::max<int64_t>(free_gpus, 0), 0);
  return std::max<int64_t>(pods - (promised + gpus - 1) / gpus, 0);
}

}  // namespace asterism::scheduler
