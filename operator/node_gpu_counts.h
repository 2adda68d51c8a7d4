// File: operator/node_gpu_counts.h
//
// How many nodes have how many GPUs, kept up to date node by node.
//
//   counts.Add(8);  counts.Add(8);  counts.Remove(8);
//   NodeGpus gpus = counts.gpus();   // commonest 8, largest 8
//
// Of two counts that equally many nodes have, the larger is the commonest.
//
// Thread-safety: none. Cost: O(log distinct counts) a change; gpus O(1).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "operator/gang_shape.h"

namespace asterism::operators {

class NodeGpuCounts {
 public:
  // A node with no GPUs is not counted.
  void Add(int64_t gpus) { Change(gpus, 1); }
  // Of a node that was added.
  void Remove(int64_t gpus) { Change(gpus, -1); }
  NodeGpus gpus() const;

 private:
  void Change(int64_t gpus, int64_t nodes);

  std::map<int64_t, int64_t> nodes_by_count_;
  std::set<std::pair<int64_t, int64_t>> by_nodes_;  // {nodes, GPUs of each}
};

}  // namespace asterism::operators
