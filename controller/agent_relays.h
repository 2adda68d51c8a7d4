// File: controller/agent_relays.h
//
// Relays of agents, from the side of the controller: appoints them, offers them to the agents of
// their domain, opens what comes through them, and replaces those that are gone.
//
//   AgentRelays relays(dependencies, options);
//   relays.OnAttached(stream, hello);            // an agent, over a stream of its own
//   relays.OnRelayed(stream, frames);            // of the members of a relay
//   relays.Tell(number, frame);                  // to a member
//   relays.OnGone(stream);
//
// A member proves itself as every agent does, over a stream of its own; there it gets a session
// with a key (RelayOffer), and its first sealed frame through the relay makes the session its way:
// for the AgentRegistry it is one more stream with a number. Frames that are not sealed, or not the
// next one of the session, end the session, and the member comes back over a stream of its own.
// So a relay can keep back what its members say, and read it; it can say nothing for them.
//
// A relay goes with its stream. One that its members cannot reach, though its own stream stands,
// is dismissed when more of them have said so within ten seconds than it still has. Nobody else is
// asked, and nobody counts twice.
//
// Thread-safety: core executor only. Cost: a map look-up and one HMAC a frame; appointing looks at
// agents without a relay only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "asterism/v1/agent.pb.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/frame_seal.h"
#include "controller/agent_registry.h"
#include "controller/configuration.h"
#include "controller/relay_metrics.h"
#include "topology/cluster.h"

namespace asterism::controller {

class AgentRelays {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& core;
    AgentRegistry& agents;
    RelayMetrics& metrics;
    std::function<std::shared_ptr<const topology::Cluster>()> cluster;
    // A number for the registry that no stream has had.
    std::function<uint64_t()> next_number;
    std::function<v1::ControllerFrame()> welcome;
    // To an agent over its own stream.
    std::function<void(uint64_t stream, v1::ControllerFrame frame)> tell;
    // What a member says, as if it came over a stream with that number.
    std::function<absl::Status(uint64_t number, const v1::AgentFrame& frame)> on_frame;
  };

  AgentRelays(Dependencies dependencies, RelayConfiguration options);

  void OnAttached(uint64_t stream, const v1::AgentHello& hello);
  void OnGone(uint64_t stream);
  // Frames about relays, of an agent that is attached. An error: the frame makes no sense.
  absl::Status OnState(uint64_t stream, const v1::RelayState& state);
  void OnLost(uint64_t stream, const v1::RelayLost& lost);
  absl::Status OnRelayed(uint64_t stream, const v1::SealedFrames& batch);
  // Numbers of members; others are ignored.
  void Tell(uint64_t number, const v1::ControllerFrame& frame);

  size_t members() const { return by_number_.size(); }

 private:
  struct Relay {
    std::string address;  // empty: it has not answered yet
    base::SteadyTime asked;
    std::set<uint64_t> sessions;
    std::set<std::string> nodes;       // whose agents were offered it
    std::set<std::string> complaints;  // of them, since the first one
    base::SteadyTime first_complaint;
  };
  struct Agent {
    v1::AgentHello hello;
    uint64_t session = 0;          // that it was offered; 0: none
    base::SteadyTime not_before;   // of the next offer
    std::unique_ptr<Relay> relay;  // null: it is none
  };
  struct Session {
    uint64_t relay = 0;   // stream
    uint64_t agent = 0;   // stream on which it was offered; 0: it has joined
    uint64_t number = 0;  // in the registry; 0: it has not joined yet
    base::SteadyTime offered;
    v1::AgentHello hello;
    base::FrameSeal up;
    base::FrameSeal down;
    uint64_t received = 0;
    uint64_t sent = 0;
  };
  using Sessions = std::map<uint64_t, Session>;

  void PlanSoon();
  void Plan();
  void ForgetLate();
  bool Wanted(const topology::Cluster& cluster) const;
  void Appoint(uint64_t stream);
  void Offer(uint64_t stream, uint64_t relay);
  // False: the session is over.
  bool Receive(Session& session, const v1::SealedFrame& sealed);
  bool Join(Session& session, const v1::AgentFrame& frame);
  void TellMember(Session& session, uint64_t id, const v1::ControllerFrame& frame);
  void EndSession(Sessions::iterator session);
  void EndRelay(Agent& agent, const char* change);
  void Count();

  const Dependencies dependencies_;
  const RelayConfiguration options_;
  std::map<uint64_t, Agent> agents_;  // over streams of their own
  Sessions sessions_;
  std::map<uint64_t, uint64_t> by_number_;                    // sessions that have joined
  std::map<std::string, uint64_t, std::less<>> by_node_;      // the same
  std::map<std::string, uint64_t, std::less<>> relay_nodes_;  // stream of each relay
  base::OwnedTimer plan_timer_;
};

}  // namespace asterism::controller
