#include "planner/cluster_spec.h"

#include "fmt/format.h"

namespace asterism::planner {

size_t ClusterSpec::LevelOf(int64_t gpus) const {
  size_t level = 0;
  while (level < levels.size() && levels[level].gpus < gpus) {
    ++level;
  }
  return level;
}

absl::Status CheckCluster(const ClusterSpec& cluster) {
  if (cluster.levels.empty() || cluster.levels.size() > kClusterLevelsMax) {
    return absl::InvalidArgumentError(fmt::format("levels: there are {}: give 1 to {}",
                                                  cluster.levels.size(), kClusterLevelsMax));
  }
  if (!(cluster.gpu.memory_bytes > 0) || !(cluster.gpu.bf16_flops_per_second > 0)) {
    return absl::InvalidArgumentError(
        "gpu: memory and bf16 rate must be above 0: use a GPU of the table or give both");
  }
  int64_t inner = 0;
  for (const ClusterLevel& level : cluster.levels) {
    if (level.gpus <= inner) {
      return absl::InvalidArgumentError(
          fmt::format("levels.{}.gpus: {} is not more than the level inside it ({}): order levels "
                      "from inner to outer",
                      level.name, level.gpus, inner));
    }
    if (!(level.gigabytes_per_second > 0) || !(level.latency_us >= 0)) {
      return absl::InvalidArgumentError(
          fmt::format("levels.{}: bandwidth {} and latency {} must be above 0 and not below 0: "
                      "give GB/s and microseconds",
                      level.name, level.gigabytes_per_second, level.latency_us));
    }
    inner = level.gpus;
  }
  return absl::OkStatus();
}

}  // namespace asterism::planner
