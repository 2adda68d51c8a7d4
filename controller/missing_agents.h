// File: controller/missing_agents.h
//
// Which GPU nodes should have an agent and have none: counted for the metric and named in the log.
//
//   MissingAgents missing(clock, registry, {.enabled = true, .selector = ...});
//   missing.Look(nodes, feed, agents, leading);        // each few seconds
//
// A node counts that is Ready, belongs to the model and to the nodes that agents are started on,
// and has had no stream for `grace`: an agent that starts anew, or looks for the next leader, is
// not missing. Agents speak to the leader: a standby counts none.
//
// Thread-safety: core executor. Cost: Look O(nodes).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "controller/agent_registry.h"
#include "kube/informer.h"
#include "kube/node.h"
#include "operator/cluster_feed.h"
#include "operator/template_fit.h"

namespace asterism::controller {

struct MissingAgentsOptions {
  bool enabled = true;  // false: nobody is missed
  // Of the nodes that agents are started on; empty: all.
  std::vector<operators::NodeRequirement> selector;
  absl::Duration grace = absl::Minutes(2);
  absl::Duration tell_period = absl::Minutes(1);  // lines in the log are no more frequent
};

class MissingAgents {
 public:
  MissingAgents(const base::Clock& clock, base::MetricRegistry& registry,
                MissingAgentsOptions options);

  void Look(const kube::Store<kube::Node>& nodes, const operators::ClusterFeed& feed,
            const AgentRegistry& agents, bool leading);
  // Sorted, as of the last look.
  const std::vector<std::string>& nodes() const { return missing_; }

 private:
  bool ShouldHaveOne(const kube::Node& node, const operators::ClusterFeed& feed) const;
  void Tell();

  const base::Clock& clock_;
  const MissingAgentsOptions options_;
  operators::TemplateFit fit_;
  std::map<std::string, base::SteadyTime> since_;  // nodes without, from the look that found it
  std::vector<std::string> missing_;
  std::vector<std::string> told_;
  std::optional<base::SteadyTime> told_at_;
  base::Gauge& gauge_;
};

}  // namespace asterism::controller
