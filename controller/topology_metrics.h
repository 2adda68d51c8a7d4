// File: controller/topology_metrics.h
//
// Metrics of the topology: where nodes are known from, their health by measurement, what is wrong,
// how old sources are, how long a rebuild takes.
//
//   TopologyMetrics metrics(registry);
//   metrics.Update(state, leading);         // each few seconds
//   metrics.rebuild().Observe(took);
//
// Agents and dumps speak to the leader: a standby shows zeros, so that sums over the replicas are
// right.
//
// Thread-safety: as base::MetricRegistry. Cost: O(nodes x levels).
#pragma once

#include "base/metrics.h"
#include "controller/topology_state.h"

namespace asterism::controller {

class TopologyMetrics {
 public:
  explicit TopologyMetrics(base::MetricRegistry& registry);

  void Update(const TopologyState& state, bool leading);
  base::Histogram& rebuild() { return rebuild_; }

 private:
  base::GaugeFamily& nodes_;
  base::GaugeFamily& anomalies_;
  base::GaugeFamily& source_age_;
  base::Gauge& generation_;
  base::Gauge& held_;
  base::Histogram& rebuild_;
};

}  // namespace asterism::controller
