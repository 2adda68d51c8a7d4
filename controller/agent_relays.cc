#include "controller/agent_relays.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controller/relay_plan.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

// After a change, so that those who come together are dealt with together.
constexpr absl::Duration kPlanSettle = absl::Milliseconds(50);
// What waits for time to pass is looked at this often.
constexpr absl::Duration kPlanPeriod = absl::Seconds(1);
constexpr absl::Duration kRelayAnswerLimit = absl::Seconds(5);
constexpr absl::Duration kJoinLimit = absl::Seconds(15);
// An agent that cannot reach its relay is not offered one for this long.
constexpr absl::Duration kOfferPause = absl::Seconds(60);
constexpr absl::Duration kComplaintWindow = absl::Seconds(10);
// Where no level is named: fewer nodes a relay would be too many relays.
constexpr size_t kLevelNodesMin = 16;
constexpr size_t kAddressMax = 64;

// "10.0.0.7:9444" or "[fd00::7]:9444": an address, so that nobody looks up names for an agent.
bool IsAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (text.size() > kAddressMax || colon == std::string::npos) {
    return false;
  }
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  in6_addr parsed = {};
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
  return inet_pton(bracketed ? AF_INET6 : AF_INET, host.c_str(), &parsed) == 1 &&
         error == std::errc() && rest == end && port > 0 && port <= 65535;
}

bool IsForMembers(const v1::AgentFrame& frame) {
  return !frame.has_hello() && !frame.has_relay_state() && !frame.has_relay_lost() &&
         !frame.has_relayed();
}

}  // namespace

AgentRelays::AgentRelays(Dependencies dependencies, RelayConfiguration options)
    : dependencies_(std::move(dependencies)),
      options_(std::move(options)),
      plan_timer_(dependencies_.core) {}

void AgentRelays::OnAttached(uint64_t stream, const v1::AgentHello& hello) {
  // It has come back from its relay, or is another agent of the same node.
  if (const auto former = by_node_.find(hello.node()); former != by_node_.end()) {
    EndSession(sessions_.find(former->second));
  }
  if (const auto former = relay_nodes_.find(hello.node()); former != relay_nodes_.end()) {
    EndRelay(agents_.at(former->second), "gone");
  }
  agents_[stream].hello = hello;
  Count();
  PlanSoon();
}

void AgentRelays::OnGone(uint64_t stream) {
  const auto agent = agents_.find(stream);
  if (agent == agents_.end()) {
    return;
  }
  if (agent->second.relay != nullptr) {
    EndRelay(agent->second, "gone");
  }
  if (agent->second.session != 0) {
    EndSession(sessions_.find(agent->second.session));
  }
  agents_.erase(agent);
  Count();
  PlanSoon();
}

absl::Status AgentRelays::OnState(uint64_t stream, const v1::RelayState& state) {
  const auto agent = agents_.find(stream);
  if (agent == agents_.end() || agent->second.relay == nullptr) {
    return absl::OkStatus();  // it has been dismissed meanwhile
  }
  const std::string& node = agent->second.hello.node();
  if (state.address().empty()) {
    base::LogWarning("relay_refused", {{"node", node}, {"error", state.problem().substr(0, 256)}});
    agent->second.hello.set_may_relay(false);
    EndRelay(agent->second, "refused");
  } else if (!IsAddress(state.address())) {
    return absl::InvalidArgumentError("relay_state: address is not an IP address with a port");
  } else {
    base::LogInfo("relay_ready", {{"node", node}, {"address", state.address()}});
    agent->second.relay->address = state.address();
  }
  PlanSoon();
  return absl::OkStatus();
}

void AgentRelays::OnLost(uint64_t stream, const v1::RelayLost& lost) {
  const auto agent = agents_.find(stream);
  if (agent == agents_.end()) {
    return;
  }
  const auto named = relay_nodes_.find(lost.relay());
  if (named == relay_nodes_.end()) {
    return;  // it is known to be gone, and another one may have been offered since
  }
  const auto session = sessions_.find(agent->second.session);
  if (session != sessions_.end() && session->second.relay == named->second) {
    EndSession(session);
  }
  PlanSoon();
  const base::SteadyTime now = dependencies_.clock.SteadyNow();
  agent->second.not_before = now + kOfferPause;
  Agent& relay = agents_.at(named->second);
  if (!relay.relay->nodes.contains(agent->second.hello.node())) {
    return;
  }
  if (now - relay.relay->first_complaint > kComplaintWindow) {
    relay.relay->first_complaint = now;
    relay.relay->complaints.clear();
  }
  relay.relay->complaints.insert(agent->second.hello.node());
  if (relay.relay->complaints.size() <= relay.relay->sessions.size()) {
    return;
  }
  base::LogWarning("relay_dismissed",
                   {{"node", relay.hello.node()}, {"why", lost.why().substr(0, 256)}});
  v1::ControllerFrame frame;
  frame.mutable_relay_task()->set_members_max(0);
  dependencies_.tell(named->second, std::move(frame));
  relay.hello.set_may_relay(false);
  EndRelay(relay, "dismissed");
  // They need not wait for another one.
  for (auto& [number, each] : agents_) {
    each.not_before = {};
  }
}

absl::Status AgentRelays::OnRelayed(uint64_t stream, const v1::SealedFrames& batch) {
  v1::ControllerFrame answer;
  for (const v1::SealedFrame& sealed : batch.frames()) {
    const auto session = sessions_.find(sealed.session());
    const bool known = session != sessions_.end() && session->second.relay == stream;
    if (known && Receive(session->second, sealed)) {
      continue;
    }
    dependencies_.metrics.refused.Add();
    answer.mutable_relayed()->add_ended(sealed.session());
    if (known) {
      base::LogWarning("relayed_frame_refused", {{"node", session->second.hello.node()}});
      EndSession(session);
    }
  }
  for (const uint64_t id : batch.ended()) {
    const auto session = sessions_.find(id);
    if (session != sessions_.end() && session->second.relay == stream) {
      EndSession(session);
    }
  }
  if (answer.has_relayed()) {
    dependencies_.tell(stream, std::move(answer));
  }
  return absl::OkStatus();
}

bool AgentRelays::Receive(Session& session, const v1::SealedFrame& sealed) {
  v1::AgentFrame frame;
  if (sealed.number() != session.received + 1 ||
      !session.up.Proves(sealed.number(), sealed.frame(), sealed.seal()) ||
      !frame.ParseFromString(sealed.frame())) {
    return false;
  }
  ++session.received;
  if (session.number == 0) {
    if (!Join(session, frame)) {
      return false;
    }
    TellMember(session, sealed.session(), dependencies_.welcome());
    return true;
  }
  return IsForMembers(frame) && dependencies_.agents.IsAttached(session.number) &&
         dependencies_.on_frame(session.number, frame).ok();
}

// What the agent is was proved on the stream on which the session was offered.
bool AgentRelays::Join(Session& session, const v1::AgentFrame& frame) {
  if (!frame.has_hello() || frame.hello().node() != session.hello.node()) {
    return false;
  }
  const uint64_t id = std::exchange(agents_.at(session.agent).session, 0);
  agents_.erase(std::exchange(session.agent, 0));
  session.number = dependencies_.next_number();
  by_number_[session.number] = id;
  by_node_[session.hello.node()] = id;
  dependencies_.agents.Attach(session.number, session.hello);
  Count();
  return true;
}

void AgentRelays::Tell(uint64_t number, const v1::ControllerFrame& frame) {
  if (const auto found = by_number_.find(number); found != by_number_.end()) {
    TellMember(sessions_.at(found->second), found->second, frame);
  }
}

void AgentRelays::TellMember(Session& session, uint64_t id, const v1::ControllerFrame& frame) {
  v1::ControllerFrame outer;
  v1::SealedFrame& sealed = *outer.mutable_relayed()->add_frames();
  sealed.set_session(id);
  sealed.set_number(++session.sent);
  sealed.set_frame(frame.SerializeAsString());
  sealed.set_seal(session.down.Of(session.sent, sealed.frame()));
  dependencies_.tell(session.relay, std::move(outer));
}

void AgentRelays::EndSession(Sessions::iterator session) {
  Session& ended = session->second;
  if (const auto agent = agents_.find(ended.agent); agent != agents_.end()) {
    agent->second.session = 0;
  }
  if (const auto relay = agents_.find(ended.relay);
      relay != agents_.end() && relay->second.relay != nullptr) {
    relay->second.relay->sessions.erase(session->first);
  }
  if (ended.number != 0) {
    by_number_.erase(ended.number);
    by_node_.erase(ended.hello.node());
    dependencies_.agents.Detach(ended.number);
  }
  sessions_.erase(session);
  Count();
}

void AgentRelays::EndRelay(Agent& agent, const char* change) {
  const std::set<uint64_t> sessions = std::move(agent.relay->sessions);
  agent.relay.reset();
  relay_nodes_.erase(agent.hello.node());
  for (const uint64_t session : sessions) {
    EndSession(sessions_.find(session));
  }
  dependencies_.metrics.changes.With({change}).Add();
  Count();
}

void AgentRelays::PlanSoon() {
  if (options_.mode != RelayMode::kOff) {
    plan_timer_.Start(kPlanSettle, [this] { Plan(); });
  }
}

bool AgentRelays::Wanted(const topology::Cluster& cluster) const {
  return options_.mode == RelayMode::kOn ||
         std::max(cluster.node_count(), dependencies_.agents.attached()) >
             static_cast<size_t>(options_.above_nodes);
}

void AgentRelays::Plan() {
  if (agents_.empty()) {
    return;
  }
  plan_timer_.Start(kPlanPeriod, [this] { Plan(); });
  ForgetLate();
  const std::shared_ptr<const topology::Cluster> cluster = dependencies_.cluster();
  if (!Wanted(*cluster)) {
    return;
  }
  const size_t level = RelayLevel(*cluster, options_.level, kLevelNodesMin);
  const base::SteadyTime now = dependencies_.clock.SteadyNow();
  std::vector<DirectAgent> agents;
  std::vector<KnownRelay> relays;
  for (const auto& [stream, agent] : agents_) {
    const RelayPlace at =
        PlaceOf(*cluster, level, agent.hello.node(), static_cast<uint32_t>(stream));
    if (agent.relay != nullptr) {
      relays.push_back({.at = at,
                        .stream = stream,
                        .members = agent.relay->sessions.size(),
                        .ready = !agent.relay->address.empty()});
    } else if (agent.session == 0 && dependencies_.agents.IsAttached(stream)) {
      agents.push_back({.at = at,
                        .stream = stream,
                        .may_relay = agent.hello.may_relay(),
                        .may_join = agent.hello.may_join() && agent.not_before <= now});
    }
  }
  const RelayPlan plan =
      PlanRelays(std::move(agents), std::move(relays), static_cast<size_t>(options_.members_max));
  for (const uint64_t stream : plan.appointed) {
    Appoint(stream);
  }
  for (const RelayPlan::Offer& offer : plan.offers) {
    Offer(offer.agent, offer.relay);
  }
  Count();
}

// Relays that do not answer, and offers that nobody has taken.
void AgentRelays::ForgetLate() {
  const base::SteadyTime now = dependencies_.clock.SteadyNow();
  for (auto& [stream, agent] : agents_) {
    if (agent.relay != nullptr && agent.relay->address.empty() &&
        now - agent.relay->asked > kRelayAnswerLimit) {
      agent.hello.set_may_relay(false);
      EndRelay(agent, "refused");
    }
    if (agent.session != 0) {
      const auto session = sessions_.find(agent.session);
      if (now - session->second.offered > kJoinLimit) {
        agent.not_before = now + kOfferPause;
        EndSession(session);
      }
    }
  }
}

void AgentRelays::Appoint(uint64_t stream) {
  Agent& agent = agents_.at(stream);
  agent.relay = std::make_unique<Relay>();
  agent.relay->asked = dependencies_.clock.SteadyNow();
  relay_nodes_[agent.hello.node()] = stream;
  dependencies_.metrics.changes.With({"appointed"}).Add();
  v1::ControllerFrame frame;
  frame.mutable_relay_task()->set_members_max(static_cast<uint32_t>(options_.members_max));
  dependencies_.tell(stream, std::move(frame));
}

void AgentRelays::Offer(uint64_t stream, uint64_t relay) {
  Agent& agent = agents_.at(stream);
  Agent& through = agents_.at(relay);
  const uint64_t id = base::NewSealSession();
  const std::string key = base::NewSealKey();
  sessions_.emplace(id, Session{.relay = relay,
                                .agent = stream,
                                .offered = dependencies_.clock.SteadyNow(),
                                .hello = agent.hello,
                                .up = base::FrameSeal(key, id, base::SealDirection::kUp),
                                .down = base::FrameSeal(key, id, base::SealDirection::kDown)});
  agent.session = id;
  through.relay->sessions.insert(id);
  through.relay->nodes.insert(agent.hello.node());
  v1::ControllerFrame frame;
  v1::RelayOffer& offer = *frame.mutable_relay_offer();
  offer.set_relay(through.hello.node());
  offer.set_address(through.relay->address);
  offer.set_session(id);
  offer.set_key(key);
  dependencies_.tell(stream, std::move(frame));
}

void AgentRelays::Count() {
  dependencies_.metrics.relays.Set(static_cast<double>(relay_nodes_.size()));
  dependencies_.metrics.members.Set(static_cast<double>(by_number_.size()));
}

}  // namespace asterism::controller
