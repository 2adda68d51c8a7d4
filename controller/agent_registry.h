// File: controller/agent_registry.h
//
// What the agents of the nodes have told: which of them are attached, which device which pod holds,
// what launchers say of their pods. Every process may be attached to; only the leader is.
//
//   AgentRegistry registry({clock, registry, reports, node_of_pod, on_report, tell}, resources);
//   registry.Attach(stream, hello);  registry.OnDevices(stream, report);  registry.Detach(stream);
//   registry.ForgetPod(node, "research/llama-3f2a1-r0-e1");    // it has ended
//   registry.Holders().at("research/llama-3f2a1-r0-e1")    // ids of its devices
//
// An agent speaks for its own node: a report about a pod of another node is kept, and used only if
// the pod turns out to be on the agent's node (operators::WorkerReport.node). Devices that kubelet
// could not tell stay as they were known.
//
// kubelets before Kubernetes 1.34 tell also that pods hold devices that have ended (their
// PodResources API lists them). Such a pod holds nothing: has_ended is asked for each that is told,
// and ForgetPod says it when it comes later.
//
// What an agent measures becomes a report for the topology (measured_node.h); where a measurement
// is lost, all of it is asked for once. With the devices it tells which GPUs of the node are near
// each other and taken (node_islands.h).
//
// Bounds: 4,096 devices a node; of an agent that is gone, devices and what it measured are kept
// until its node is. A measurement beyond its bounds is dropped with a line in the log: the other
// frames of its agent are worth more than the end of the stream.
//
// Thread-safety: core executor, but for Holders(). Cost: O(devices of the node) a report, on change
// only; Holders is O(devices of all nodes) and meant for people.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "asterism/v1/agent.pb.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "controller/measured_node.h"
#include "controller/node_islands.h"
#include "operator/worker_reports.h"

namespace asterism::controller {

// Devices by holder: "namespace/pod" -> ids, sorted.
using DeviceHolders = std::map<std::string, std::vector<std::string>, std::less<>>;

// Something about a node that people should know; becomes an Event.
struct NodeNote {
  std::string node;
  bool warning = false;
  std::string reason;
  std::string message;
};

class AgentRegistry {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::MetricRegistry& registry;
    operators::WorkerReports& reports;
    std::function<void(std::string_view pod_uid)> on_report;
    std::function<void(const NodeNote&)> tell;
    // Later reports have higher generations, whatever agents count.
    std::function<void(topology::NodeReport)> on_measured;
    std::function<void(const std::string& node)> on_heard;
    std::function<void(const std::string& node, scheduler::GpuIslands islands)> on_islands;
    // Whether a pod of the node has ended, as the API server says; false where it is not known.
    std::function<bool(std::string_view node, std::string_view pod)> has_ended;
  };

  // `gpu_resources`: whose devices are GPUs.
  AgentRegistry(Dependencies dependencies, std::vector<std::string> gpu_resources);

  // A second agent of a node takes the place of the first.
  void Attach(uint64_t stream, const v1::AgentHello& hello);
  void Detach(uint64_t stream);
  // Frames of a stream that has been replaced are dropped. An error: the frame makes no sense.
  absl::Status OnDevices(uint64_t stream, const v1::DeviceReport& report);
  absl::Status OnPod(uint64_t stream, const v1::PodReport& report);
  // True: one was lost, and the agent is to tell all parts.
  bool OnMeasurement(uint64_t stream, const v1::NodeMeasurement& measurement);
  void OnBeat(uint64_t stream);
  // Before each frame of any kind: the agent lives.
  void Hear(uint64_t stream);
  // The node is gone from the API server; what is known of it goes with its stream at the latest.
  void ForgetNode(std::string_view node);
  // "namespace/name" has ended, and holds nothing any more.
  void ForgetPod(std::string_view node, std::string_view pod);
  // Another process leads: what was told goes there now.
  void Clear();

  // Not replaced by another of the same node.
  bool IsAttached(uint64_t stream) const { return node_of_stream_.contains(stream); }
  bool HasAgent(std::string_view node) const;
  size_t attached() const { return node_of_stream_.size(); }
  DeviceHolders Holders() const;

 private:
  struct Held {
    std::string pod;  // "namespace/pod"
    std::string id;
  };
  using HoldersOfNode = std::vector<Held>;

  struct Node {
    uint64_t stream = 0;  // 0: none is attached
    std::string boot_id;
    std::set<std::string> unhealthy;         // ids
    std::unique_ptr<MeasuredNode> measured;  // null: nothing was
    NodeIslands islands;
    bool asked = false;  // for all parts, and they did not come yet
    bool gone = false;   // from the API server
  };

  Node* NodeOf(uint64_t stream);
  void TellHealth(const std::string& name, Node& node, std::set<std::string> unhealthy);
  void PutHolders(const std::string& node, HoldersOfNode holders);
  void TellIslands(const std::string& node);
  void CountUnhealthy();

  const Dependencies dependencies_;
  const std::vector<std::string> gpu_resources_;
  std::map<std::string, Node, std::less<>> nodes_;
  std::map<uint64_t, std::string> node_of_stream_;
  uint64_t measurements_ = 0;  // since the start of the process
  mutable absl::Mutex holders_mutex_;
  std::map<std::string, std::shared_ptr<const HoldersOfNode>, std::less<>> holders_
      ABSL_GUARDED_BY(holders_mutex_);  // by node; those that hold none are absent
  base::Gauge& attached_gauge_;
  base::Gauge& unhealthy_gauge_;
  base::CounterFamily& frames_;
};

}  // namespace asterism::controller
