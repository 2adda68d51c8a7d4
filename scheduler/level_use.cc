#include <vector>

#include "scheduler/placement.h"

namespace asterism::scheduler {

std::vector<LevelUse> MeasureLevels(const topology::Cluster& cluster,
                                    const std::vector<NodeId>& nodes) {
  std::vector<LevelUse> levels(cluster.level_count());
  std::vector<uint8_t> seen;
  for (size_t level = 0; level < levels.size(); ++level) {
    LevelUse& use = levels[level];
    use.level = level;
    seen.assign(cluster.domain_count(level), 0);
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      const topology::DomainId here = cluster.DomainOf(level, nodes[rank]);
      const topology::DomainId next = cluster.DomainOf(level, nodes[(rank + 1) % nodes.size()]);
      if (seen[here.index()] == 0) {
        seen[here.index()] = 1;
        ++use.domains;
      }
      if (here != next) {
        ++use.ring_cuts;
      }
    }
    use.ring_cuts_minimum = use.domains > 1 ? use.domains : 0;
  }
  return levels;
}

}  // namespace asterism::scheduler
