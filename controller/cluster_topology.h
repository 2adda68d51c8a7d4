// File: controller/cluster_topology.h
//
// The leader's side of the object ClusterTopology `cluster`: its status for people, events on nodes
// for what is newly wrong, and the annotation by which an operator lets a held change pass.
//
//   ClusterTopologyWriter writer(dependencies, options);
//   writer.Start();
//   writer.Look(state, view);     // each few seconds
//
// The status is written when it says something new, at most each kStatusPeriod; while nothing
// changes nothing is written. What its predecessor has written tells which anomalies are not new.
//
// A held change has an id. `kubectl annotate ctopo cluster asterism.dev/confirm-change=ID` lets
// just that one pass; the object is read only while something is held.
//
// Thread-safety: none; lives on the core executor. Cost: O(nodes x levels) a Look that finds news.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "controller/agent_registry.h"
#include "controller/topology_state.h"
#include "kube/client.h"
#include "nlohmann/json.hpp"
#include "scheduler/ledger.h"

namespace asterism::controller {

inline constexpr kube::ResourceType kClusterTopologies{
    "asterism.dev", "v1alpha1", "clustertopologies", "ClusterTopology", false, /*protobuf=*/false};
inline constexpr std::string_view kConfirmChange = "asterism.dev/confirm-change";
inline constexpr absl::Duration kStatusPeriod = absl::Seconds(10);
inline constexpr size_t kAnomaliesMax = 50;
// Of one look; the rest stands in the status and in `kubectl asterism doctor`.
inline constexpr size_t kAnomalyEventsMax = 20;

// Without `lastSeen`, which would never rest. `gpu_resources`: what counts GPUs.
nlohmann::json TopologyStatus(const TopologyState& state, const scheduler::LedgerView& view,
                              const std::vector<std::string>& gpu_resources);
// "nvlink-link-down: gpu-0417: 2 of 144 NVLinks are down, says its agent"
std::string AnomalyText(const topology::Finding& finding);

class ClusterTopologyWriter {
 public:
  struct Dependencies {
    const base::Clock& clock;
    kube::Client& client;
    std::function<bool(std::string_view node)> has_node;
    std::function<void(const NodeNote&)> tell;
    std::function<void()> confirm;
    std::function<bool()> may_write;
  };

  ClusterTopologyWriter(Dependencies dependencies, std::vector<std::string> gpu_resources);

  void Start();
  void Look(const TopologyState& state, const scheduler::LedgerView& view);

 private:
  void OnRead(const absl::StatusOr<kube::Reply>& reply);
  void TellNews(const TopologyState& state);
  void WriteStatus(const TopologyState& state, const scheduler::LedgerView& view);
  void LookForConfirmation(const TopologyState& state);

  const Dependencies dependencies_;
  const std::vector<std::string> gpu_resources_;
  bool read_ = false;    // what the predecessor wrote is known
  bool busy_ = false;    // a request is on its way
  bool asking_ = false;  // whether the held change is confirmed
  bool exists_ = false;
  nlohmann::json written_;  // without lastSeen
  base::SteadyTime next_write_;
  std::set<std::string> known_anomalies_;   // kind and objects
  std::set<std::string> former_anomalies_;  // until agents have had time to tell theirs again
  base::SteadyTime former_until_;
  std::string held_told_;
  base::Alive alive_;
};

}  // namespace asterism::controller
