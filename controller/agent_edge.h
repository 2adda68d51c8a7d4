// File: controller/agent_edge.h
//
// The gRPC service asterism.v1.Agents: one stream for each agent. Lets in who shows the agents'
// client certificate and the token of their ServiceAccount, which the API server has bound to the
// node that the agent speaks for.
//
//   AgentEdge edge({clock, core, client, plane, agents}, {.certificate_needed = true, ...});
//   std::unique_ptr<grpc::Service> service = edge.MakeService(retired);
//   edge.Stop();                                            // after the server
//
// A stream ends when this process leads no more, when another agent of the node attaches, or after
// a frame that makes no sense. A frame is read when the one before has been dealt with, so a fast
// agent waits and nothing piles up.
//
// In a large cluster most agents speak through the streams of a few, see controller/agent_relays.h.
//
// Agents have room of their own: who shows no certificate of theirs is sent away before anything is
// read, those who are not attached yet share streams_waiting_max, and their tokens are asked about
// apart from those of other callers. An agent that does not read is cut off a second after its
// stream has ended.
//
// Bounds: streams_max streams; a hello within ten seconds; 256 answers that an agent has not read.
//
// Thread-safety: MakeService from any thread; construct it before the core has work for it, destroy
// it after the server has stopped and the core runs no more. Cost: one thread; two hops to the core
// a frame.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "controller/agent_registry.h"
#include "controller/agent_relays.h"
#include "controller/caller_identity.h"
#include "controller/certificate_plan.h"
#include "controller/configuration.h"
#include "controller/control_plane.h"
#include "controller/relay_metrics.h"
#include "kube/client.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace asterism::controller {

inline constexpr char kAgentsService[] = "asterism.v1.Agents";

struct AgentEdgeOptions {
  bool certificate_needed = true;  // false: plain text
  std::string user;                // system:serviceaccount:NAMESPACE:NAME
  absl::Duration hello_limit = absl::Seconds(10);
  absl::Duration look_period = absl::Seconds(1);  // whether this process still leads
  size_t streams_max = 16'384;                    // that are attached; see StreamsMax
  size_t streams_waiting_max = 256;               // that are not attached yet
  CallerIdentityOptions identity;
  RelayConfiguration relays;
};

// A stream costs 116 KB: with relays there are never as many as without, also while all agents come
// back at once and wait for each other.
size_t StreamsMax(const RelayConfiguration& relays);

class AgentEdge {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& core;
    kube::Client& client;
    ControlPlane& plane;
    AgentRegistry& agents;
    base::MetricRegistry& registry;
  };

  AgentEdge(Dependencies dependencies, AgentEdgeOptions options);
  ~AgentEdge();

  // Ends the thread. After the server, before the plane.
  void Stop() { timers_.Stop(); }
  std::unique_ptr<grpc::Service> MakeService(std::shared_ptr<const std::atomic<bool>> retired);

 private:
  class Service;
  class Stream;

  // On the core.
  void OnHello(const std::shared_ptr<Stream>& stream, const v1::AgentHello& hello);
  void OnFrame(const std::shared_ptr<Stream>& stream, const v1::AgentFrame& frame);
  absl::Status OnFrameOf(uint64_t number, const v1::AgentFrame& frame);
  absl::Status OnOwnFrame(uint64_t stream, const v1::AgentFrame& frame);
  void Tell(uint64_t number, v1::ControllerFrame frame);
  v1::ControllerFrame Welcome() const;
  void OnGone(const std::shared_ptr<Stream>& stream);
  void Admit(const std::shared_ptr<Stream>& stream, const v1::AgentHello& hello,
             const absl::StatusOr<std::shared_ptr<const Caller>>& caller);
  absl::Status CheckNode(const std::string& node, const Caller& caller) const;
  void Look();

  const Dependencies dependencies_;
  const AgentEdgeOptions options_;
  CallerIdentity identity_;
  RelayMetrics metrics_;
  AgentRelays relays_;
  std::atomic<size_t> waiting_ = 0;
  uint64_t last_number_ = 0;
  std::map<uint64_t, std::shared_ptr<Stream>> streams_;  // that are attached
  base::OwnedTimer look_timer_;
  base::ThreadExecutor timers_{"agent-time"};
  base::Alive alive_;
};

}  // namespace asterism::controller
