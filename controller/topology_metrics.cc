#include "controller/topology_metrics.h"

#include <map>
#include <string>
#include <vector>

namespace asterism::controller {
namespace {

using Values = std::map<std::vector<std::string>, double>;

const char* HealthName(topology::NodeHealth health) {
  switch (health) {
    case topology::NodeHealth::kHealthy:
      return "healthy";
    case topology::NodeHealth::kDegraded:
      return "degraded";
    case topology::NodeHealth::kUnhealthy:
      return "unhealthy";
    case topology::NodeHealth::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace

TopologyMetrics::TopologyMetrics(base::MetricRegistry& registry)
    : nodes_(registry.AddGauge(
          "asterism_topology_nodes",
          "GPU nodes. At the innermost level by measured health: healthy, degraded, unhealthy, "
          "unknown. At the levels above by who says in which domain they are: nvlink, fabric, "
          "label, declared, remembered (a former leader), by-name (a guess), nobody.",
          {"level", "state"})),
      anomalies_(registry.AddGauge("asterism_topology_anomalies",
                                   "What `kubectl asterism doctor` finds, by kind.", {"kind"})),
      source_age_(registry.AddGauge("asterism_topology_source_age_seconds",
                                    "Since a source was heard: the agent that spoke last, each "
                                    "dump of a fabric.",
                                    {"source"})),
      generation_(registry
                      .AddGauge("asterism_topology_generation",
                                "Rises with each change of the merged topology.")
                      .With({})),
      held_(registry
                .AddGauge("asterism_topology_change_held",
                          "1 while a change of many nodes is held back.")
                .With({})),
      rebuild_(registry
                   .AddHistogram("asterism_topology_rebuild_seconds",
                                 "Merging the sources into a new model of the cluster.")
                   .With({})) {}

void TopologyMetrics::Update(const TopologyState& state, bool leading) {
  Values nodes;
  Values anomalies;
  Values ages;
  const topology::TopologySnapshot& snapshot = *state.snapshot;
  if (leading) {
    const std::string& innermost = snapshot.cluster->level_name(0);
    for (const char* health : {"healthy", "degraded", "unhealthy", "unknown"}) {
      nodes[{innermost, health}] = 0;
    }
    for (const topology::NodeCondition& condition : *snapshot.conditions) {
      ++nodes[{innermost, HealthName(condition.health)}];
    }
    for (size_t level = 1; level + 1 < snapshot.cluster->level_count(); ++level) {
      const auto counts = CountOrigins(snapshot, level);
      for (size_t origin = 0; origin < counts.size(); ++origin) {
        const auto name = topology::PlaceOriginName(static_cast<topology::PlaceOrigin>(origin));
        nodes[{snapshot.cluster->level_name(level),
               name.empty() ? std::string("nobody") : std::string(name)}] =
            static_cast<double>(counts[origin]);
      }
    }
    for (const topology::Finding& finding : *snapshot.findings) {
      ++anomalies[{std::string(topology::FindingName(finding.kind))}];
    }
    for (const topology::SourceState& source : state.sources) {
      if (source.last_seen > absl::UnixEpoch()) {
        ages[{source.name}] = absl::ToDoubleSeconds(state.time - source.last_seen);
      }
    }
  }
  base::SetAll(nodes_, nodes);
  base::SetAll(anomalies_, anomalies);
  base::SetAll(source_age_, ages);
  generation_.Set(leading ? static_cast<double>(snapshot.generation) : 0);
  held_.Set(leading && snapshot.change_held ? 1 : 0);
}

}  // namespace asterism::controller
