#include "scheduler/level_use.h"

#include <algorithm>

namespace asterism::scheduler {

void LevelMeter::Measure(const topology::Cluster& cluster, std::span<const NodeId> nodes,
                         std::vector<LevelUse>& levels) {
  levels.assign(cluster.level_count(), LevelUse());
  runs_.resize(nodes.size());
  std::transform(nodes.begin(), nodes.end(), runs_.begin(),
                 [](NodeId node) { return static_cast<uint32_t>(node.index()); });
  for (size_t level = 0; level < levels.size(); ++level) {
    if (level > 0) {
      const std::span<const uint32_t> parents = cluster.Parents(level - 1);
      for (uint32_t& domain : runs_) {
        domain = parents[domain];
      }
    }
    // What is consecutive stays together further out: each level has fewer runs to look at.
    runs_.erase(std::unique(runs_.begin(), runs_.end()), runs_.end());
    LevelUse& use = levels[level];
    use.level = level;
    seen_.assign(cluster.domain_count(level), 0);
    for (const uint32_t domain : runs_) {
      use.domains += seen_[domain] == 0 ? 1 : 0;
      seen_[domain] = 1;
    }
    // A ring: the last rank comes before the first.
    const auto runs = static_cast<int64_t>(runs_.size());
    use.ring_cuts = runs < 2 ? 0 : runs - (runs_.front() == runs_.back() ? 1 : 0);
    use.ring_cuts_minimum = use.domains > 1 ? use.domains : 0;
  }
}

std::vector<LevelUse> MeasureLevels(const topology::Cluster& cluster,
                                    const std::vector<NodeId>& nodes) {
  std::vector<LevelUse> levels;
  LevelMeter().Measure(cluster, nodes, levels);
  return levels;
}

}  // namespace asterism::scheduler
