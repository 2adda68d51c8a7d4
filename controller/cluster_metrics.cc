#include "controller/cluster_metrics.h"

#include <algorithm>
#include <map>

#include "controller/domain_use.h"

namespace asterism::controller {
namespace {

using Values = std::map<std::vector<std::string>, double>;

const char* StateOf(const DomainUse& use) {
  if (use.gpus.total == 0 || use.unusable_nodes == use.nodes) {
    return "unusable";
  }
  if (use.gpus.free == use.gpus.total) {
    return "free";
  }
  return use.gpus.free > 0 ? "partial" : "full";
}

}  // namespace

ClusterMetrics::ClusterMetrics(base::MetricRegistry& registry)
    : gpus_(registry.AddGauge("asterism_gpus",
                              "GPUs by state: free; held; spare: kept for a gang that may lose "
                              "a pod; faulty: on a node that nobody may use. Zero on a standby.",
                              {"state"})),
      domains_(registry.AddGauge("asterism_domains",
                                 "Domains of a level by state: free: all GPUs are; partial: some "
                                 "are; full: none is; unusable: no node is usable.",
                                 {"level", "state"})),
      largest_free_(registry.AddGauge("asterism_largest_free_gpus",
                                      "Free GPUs of the domain of a level that has most of them: "
                                      "the largest gang that fits into one.",
                                      {"level"})),
      fragmentation_(registry.AddGauge("asterism_fragmentation_ratio",
                                       "Share of the free GPUs that lie in domains of which a "
                                       "part is taken; 0 to 1.",
                                       {"level"})) {}

void ClusterMetrics::Update(const scheduler::LedgerView& view,
                            const std::vector<std::string>& gpu_resources, bool leading) {
  Values gpus;
  Values domains;
  Values largest;
  Values fragmentation;
  const DomainUses uses = leading ? MeasureDomains(view, gpu_resources) : DomainUses();
  for (size_t level = 0; level < uses.size(); ++level) {
    const std::string& name = view.cluster->level_name(level);
    for (const char* state : {"free", "partial", "full", "unusable"}) {
      domains[{name, state}] = 0;
    }
    DomainGpus sum;
    int64_t most = 0;
    int64_t in_free_domains = 0;
    for (const DomainUse& use : uses[level]) {
      const std::string state = StateOf(use);
      ++domains[{name, state}];
      in_free_domains += state == "free" ? use.gpus.free : 0;
      most = std::max(most, use.gpus.free);
      sum.Add(use.gpus);
    }
    largest[{name}] = static_cast<double>(most);
    fragmentation[{name}] =
        sum.free == 0 ? 0
                      : 1 - static_cast<double>(in_free_domains) / static_cast<double>(sum.free);
    // Each level has every node, so each gives the same sums.
    gpus = {{{"free"}, static_cast<double>(sum.free)},
            {{"held"}, static_cast<double>(sum.held)},
            {{"spare"}, static_cast<double>(sum.spare)},
            {{"faulty"}, static_cast<double>(sum.faulty)}};
  }
  base::SetAll(gpus_, gpus);
  base::SetAll(domains_, domains);
  base::SetAll(largest_free_, largest);
  base::SetAll(fragmentation_, fragmentation);
}

}  // namespace asterism::controller
