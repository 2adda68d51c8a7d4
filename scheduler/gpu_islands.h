// File: scheduler/gpu_islands.h
//
// Which GPUs of one node are near each other, and which of them are taken: for pods that want a
// part of a node. GPUs of one island reach each other over NVLink, or, in a node without it, stay
// on one NUMA node; a node behind one NVSwitch is one island, and its GPUs are alike.
//
//   GpuIslands islands{.islands = {0x0f, 0xf0}, .taken = 0x03};
//   WholePods(islands, 4, /*free_gpus=*/6)    // 1: the pod fits into 0xf0
//
// A bit is a GPU, in an order that only the node's teller knows. `taken` are those that a pod holds
// as far as kubelet told, and those that it does not offer. GPUs that are promised to pods which
// have no device yet are in nobody's mask; the ledger's count knows them.
//
// Thread-safety: pure. Cost: O(islands).
#pragma once

#include <cstdint>
#include <vector>

namespace asterism::scheduler {

inline constexpr size_t kIslandGpusMax = 64;  // of a node; a larger one is one island

struct GpuIslands {
  // Disjoint masks. Fewer than two: the GPUs of the node are alike.
  std::vector<uint64_t> islands;
  uint64_t taken = 0;

  bool operator==(const GpuIslands&) const = default;

  bool split() const { return islands.size() > 1; }
};

// Pods of `gpus` GPUs each that find room inside one island each, in a node of which the ledger has
// `free_gpus` left. GPUs that are promised but not in the mask count as if each `gpus` of them
// spoilt one place. kAnyIsland where the node is not split, or no island is so large.
inline constexpr int64_t kAnyIsland = INT64_MAX;
int64_t WholePods(const GpuIslands& islands, int64_t gpus, int64_t free_gpus);

}  // namespace asterism::scheduler
