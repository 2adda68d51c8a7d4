#include "operator/node_gpu_counts.h"

#include "base/check.h"

namespace asterism::operators {

void NodeGpuCounts::Change(int64_t gpus, int64_t nodes) {
  if (gpus <= 0) {
    return;
  }
  const auto slot = nodes_by_count_.try_emplace(gpus, 0).first;
  by_nodes_.erase({slot->second, gpus});
  slot->second += nodes;
  CHECK_THAT(slot->second >= 0, "a node is taken out that was not counted");
  if (slot->second == 0) {
    nodes_by_count_.erase(slot);
  } else {
    by_nodes_.emplace(slot->second, gpus);
  }
}

NodeGpus NodeGpuCounts::gpus() const {
  if (by_nodes_.empty()) {
    return {};
  }
  return {.commonest = by_nodes_.rbegin()->second, .largest = nodes_by_count_.rbegin()->first};
}

}  // namespace asterism::operators
