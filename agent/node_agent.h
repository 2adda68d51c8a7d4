// File: agent/node_agent.h
//
// What the agent knows of its node, and to whom it tells it: devices from kubelet, launchers at the
// pod port and what the probes measure, up to the controller.
//
//   NodeAgent agent({clock, executor, rng}, options);
//   RETURN_IF_ERROR(agent.Start());
//
// A pod's report is kept while its launcher is connected and for ten minutes after, at most 2,000
// of them, so that a controller that comes back learns how a pod ended while it was away.
//
// Thread-safety: Start and the destructor belong to the owner, who has stopped the executor before
// it destroys the agent. Cost: two calls to kubelet every ten seconds, 1 % of a core, 30 MiB.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/controller_link.h"
#include "agent/device_memory.h"
#include "agent/device_plugin.h"
#include "agent/pod_port.h"
#include "agent/pod_resources.h"
#include "agent/probe/node_measurer.h"
#include "agent/probe/probe_set.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/rng.h"

namespace asterism::agent {

inline constexpr char kPortResource[] = "asterism.dev/port";
// Where a container finds the socket.
inline constexpr char kPortFolderInPod[] = "/run/asterism";

struct NodeAgentOptions {
  ControllerLinkOptions link;
  std::string kubelet_root = "/var/lib/kubelet";
  std::string proc = "/proc";
  std::string port_folder = "/run/asterism";  // on the host, and the same path in the agent
  std::string state_folder = "/var/lib/asterism";
  std::string health_file;                               // empty: none is written
  std::set<std::string> resources = {"nvidia.com/gpu"};  // that count GPUs
  // Containers that may have the port at once: more than a node has pods, so that one that asks for
  // many keeps no other from it easily.
  int ports = 1024;
  absl::Duration read_period = absl::Seconds(10);
  ProbeSetOptions probes;
};

class NodeAgent {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& executor;
    base::Rng rng;
  };

  NodeAgent(Dependencies dependencies, NodeAgentOptions options);
  ~NodeAgent();

  absl::Status Start();

 private:
  struct KnownPod {
    bool connected = false;
    base::SteadyTime last;
  };

  // Empty: all is well; else what is not.
  std::vector<std::string> Complaints() const;
  void TellHealth();
  void ReadDevices();
  void OnDevices(absl::StatusOr<std::vector<HeldDevice>> devices);
  void OnReport(const WorkerReport& report);
  void ForgetOld();

  const base::Clock& clock_;
  base::Executor& executor_;
  const NodeAgentOptions options_;
  ControllerLink link_;
  DeviceMemory memory_;
  std::unique_ptr<DevicePlugin> port_plugin_;
  std::unique_ptr<PodPort> port_;
  std::unique_ptr<NodeMeasurer> measurer_;
  std::map<std::string, KnownPod> pods_;  // by UID
  std::string problem_;
  bool reading_ = false;
  base::OwnedTimer read_timer_;
  // Waits for kubelet, which may hang.
  base::ThreadExecutor reader_{"kubelet"};
  PodResources resources_;  // on the reader
};

}  // namespace asterism::agent
