// File: controller/relay_metrics.h
//
// How agents reach this process: over streams of their own, and through relays.
//
//   RelayMetrics metrics(registry);
//   metrics.relays.Set(200);
//   metrics.changes.With({"appointed"}).Add();
//
// Thread-safety: that of base/metrics.h. Cost: none to speak of.
#pragma once

#include "base/metrics.h"

namespace asterism::controller {

struct RelayMetrics {
  explicit RelayMetrics(base::MetricRegistry& registry)
      : streams(registry
                    .AddGauge("asterism_agent_streams",
                              "Streams of agents to this process, those of relays included.")
                    .With({})),
        relays(registry
                   .AddGauge("asterism_agent_relays",
                             "Agents through which others speak to this process.")
                   .With({})),
        members(registry
                    .AddGauge("asterism_agent_relay_members",
                              "Agents that speak to this process through a relay.")
                    .With({})),
        changes(registry.AddCounter("asterism_agent_relay_changes_total",
                                    "Relays that came and went: appointed, gone with their stream, "
                                    "dismissed since their members cannot reach them, refused by "
                                    "the agent.",
                                    {"change"})),
        refused(registry
                    .AddCounter("asterism_agent_relayed_frames_refused_total",
                                "Frames of relays that are not what the member has said next: "
                                "forged, told twice or out of order, or of no member.")
                    .With({})) {}

  base::Gauge& streams;
  base::Gauge& relays;
  base::Gauge& members;
  base::CounterFamily& changes;
  base::Counter& refused;
};

}  // namespace asterism::controller
