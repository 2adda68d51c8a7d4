#include "planner/collective.h"

#include <algorithm>

namespace asterism::planner {

Link LinkOf(const ClusterSpec& cluster, const RankGroup& group, const TimeConstants& constants) {
  const size_t level =
      std::min(cluster.LevelOf(group.ranks * group.stride), cluster.levels.size() - 1);
  const double inner = cluster.levels.front().gigabytes_per_second * 1e9 * constants.inner_share;
  double rate = inner;
  if (level > 0) {
    const int64_t in_domain = cluster.levels[level - 1].gpus / group.stride;
    const int64_t members = std::clamp<int64_t>(in_domain, 1, group.ranks);
    rate =
        std::min(inner, static_cast<double>(members) * cluster.levels[level].gigabytes_per_second *
                            1e9 * constants.network_share);
  }
  return {.bytes_per_second = rate,
          .call_seconds = (constants.call_us + cluster.levels[level].latency_us) * 1e-6};
}

double RingReduceBytes(int64_t ranks, double tensor_bytes) {
  return 2 * RingGatherBytes(ranks, tensor_bytes);
}

double RingGatherBytes(int64_t ranks, double tensor_bytes) {
  return tensor_bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

}  // namespace asterism::planner
