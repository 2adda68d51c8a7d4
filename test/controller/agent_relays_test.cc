// Relays from the side of the controller, without a network: the test is agents, relays, and
// whoever would like to be one.
#include "controller/agent_relays.h"

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The end of a session that is the member's.
struct MemberEnd {
  explicit MemberEnd(const v1::RelayOffer& offer)
      : session(offer.session()),
        up(offer.key(), offer.session(), base::SealDirection::kUp),
        down(offer.key(), offer.session(), base::SealDirection::kDown) {}

  v1::SealedFrame Seal(const v1::AgentFrame& frame) {
    v1::SealedFrame sealed;
    sealed.set_session(session);
    sealed.set_number(++sent);
    sealed.set_frame(frame.SerializeAsString());
    sealed.set_seal(up.Of(sent, sealed.frame()));
    return sealed;
  }

  uint64_t session;
  base::FrameSeal up;
  base::FrameSeal down;
  uint64_t sent = 0;
};

v1::AgentFrame HelloOf(const std::string& node) {
  v1::AgentFrame frame;
  frame.mutable_hello()->set_node(node);
  return frame;
}

v1::AgentFrame PodFrame(const std::string& uid) {
  v1::AgentFrame frame;
  frame.mutable_pod()->set_pod_uid(uid);
  return frame;
}

class AgentRelaysTest : public ::testing::Test {
 protected:
  AgentRelaysTest() {
    std::vector<topology::NodeFacts> facts;
    for (int i = 0; i < 8; ++i) {
      facts.push_back(
          {.name = fmt::format("node-{}", i), .domains = {fmt::format("sn-{}", i / 4)}});
    }
    cluster_ = std::make_shared<const topology::Cluster>(
        *topology::BuildCluster({"node", "supernode", "cluster"}, std::move(facts)));
    Make({.mode = RelayMode::kOn, .level = "supernode", .members_max = 3});
  }

  void Make(const RelayConfiguration& configuration) {
    relays_ = std::make_unique<AgentRelays>(
        AgentRelays::Dependencies{
            .clock = clock_,
            .core = core_,
            .agents = agents_,
            .metrics = metrics_,
            .cluster = [this] { return cluster_; },
            .next_number = [this] { return ++last_; },
            .welcome =
                [] {
                  v1::ControllerFrame frame;
                  frame.mutable_welcome()->set_controller("test");
                  return frame;
                },
            .tell = [this](uint64_t stream,
                           const v1::ControllerFrame& frame) { told_[stream].push_back(frame); },
            .on_frame = [this](uint64_t number, const v1::AgentFrame& frame) -> absl::Status {
              agents_.Hear(number);
              return frame.has_pod() ? agents_.OnPod(number, frame.pod()) : absl::OkStatus();
            }},
        configuration);
  }

  // As the edge does it for a stream of an agent that has proved itself.
  uint64_t Attach(int node, bool may_relay = true) {
    v1::AgentHello hello;
    hello.set_node(fmt::format("node-{}", node));
    hello.set_boot_id("boot");
    hello.set_may_relay(may_relay);
    hello.set_may_join(true);
    const uint64_t stream = ++last_;
    agents_.Attach(stream, hello);
    relays_->OnAttached(stream, hello);
    return stream;
  }
  void Leave(uint64_t stream) {
    agents_.Detach(stream);
    relays_->OnGone(stream);
  }
  void Settle() { core_.RunFor(absl::Milliseconds(100)); }
  v1::ControllerFrame LastTold(uint64_t stream) {
    return told_[stream].empty() ? v1::ControllerFrame() : told_[stream].back();
  }
  // The streams that were appointed and have not been asked by the test yet.
  bool IsAsked(uint64_t stream) { return LastTold(stream).relay_task().members_max() > 0; }
  absl::Status Answer(uint64_t stream, const std::string& address = "10.0.0.1:9444") {
    v1::RelayState state;
    state.set_address(address);
    return relays_->OnState(stream, state);
  }
  absl::Status Say(uint64_t relay, const v1::SealedFrame& sealed) {
    v1::SealedFrames batch;
    *batch.add_frames() = sealed;
    return relays_->OnRelayed(relay, batch);
  }
  // Whether it was told that the session is over.
  bool SentAway(uint64_t relay, uint64_t session) {
    const v1::ControllerFrame last = LastTold(relay);
    return last.relayed().ended_size() == 1 && last.relayed().ended(0) == session;
  }
  std::string Speaker(const std::string& uid) {
    for (int node = 0; node < 8; ++node) {
      if (reports_.Find(uid, fmt::format("node-{}", node)) != nullptr) {
        return fmt::format("node-{}", node);
      }
    }
    return "nobody";
  }
  double members() const { return metrics_.members.value(); }
  uint64_t Changes(const std::string& change) { return metrics_.changes.With({change}).value(); }

  // Nodes 0 to 3: the relay's stream is the first, the others speak through it.
  struct Group {
    uint64_t relay = 0;
    std::vector<uint64_t> streams;  // of the members, where they were offered
    std::vector<MemberEnd> ends;
  };
  Group MakeGroup() {
    Group group;
    group.relay = Attach(0);
    group.streams = {Attach(1, false), Attach(2, false), Attach(3, false)};
    Settle();
    EXPECT_TRUE(IsAsked(group.relay));
    EXPECT_TRUE(Answer(group.relay).ok());
    Settle();
    for (int i = 0; i < 3; ++i) {
      const v1::ControllerFrame told = LastTold(group.streams[static_cast<size_t>(i)]);
      EXPECT_TRUE(told.has_relay_offer());
      group.ends.emplace_back(told.relay_offer());
    }
    return group;
  }
  Group MakeJoinedGroup() {
    Group group = MakeGroup();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(Say(group.relay, group.ends[static_cast<size_t>(i)].Seal(
                                       HelloOf(fmt::format("node-{}", i + 1))))
                      .ok());
      Leave(group.streams[static_cast<size_t>(i)]);
    }
    EXPECT_EQ(members(), 3);
    return group;
  }

  base::SimClock clock_;
  base::SimExecutor core_{clock_};
  base::MetricRegistry registry_;
  RelayMetrics metrics_{registry_};
  operators::WorkerReports reports_;
  std::vector<std::string> heard_;
  AgentRegistry agents_{{.clock = clock_,
                         .registry = registry_,
                         .reports = reports_,
                         .on_report = [](std::string_view) {},
                         .tell = [](const NodeNote&) {},
                         .on_measured = [](topology::NodeReport) {},
                         .on_heard = [this](const std::string& node) { heard_.push_back(node); },
                         .on_islands = [](const std::string&, const scheduler::GpuIslands&) {}},
                        {"nvidia.com/gpu"}};
  std::shared_ptr<const topology::Cluster> cluster_;
  std::map<uint64_t, std::vector<v1::ControllerFrame>> told_;
  uint64_t last_ = 0;
  std::unique_ptr<AgentRelays> relays_;
};

TEST_F(AgentRelaysTest, MembersOfADomainSpeakThroughOneRelay) {
  Group group = MakeJoinedGroup();
  EXPECT_EQ(metrics_.relays.value(), 1);
  EXPECT_EQ(agents_.attached(), 4U);
  // The welcome is sealed for the member alone.
  const v1::SealedFrame welcome = told_[group.relay][1].relayed().frames(0);
  EXPECT_EQ(welcome.session(), group.ends[0].session);
  EXPECT_TRUE(group.ends[0].down.Proves(1, welcome.frame(), welcome.seal()));
  ASSERT_TRUE(Say(group.relay, group.ends[1].Seal(PodFrame("pod-of-2"))).ok());
  EXPECT_EQ(Speaker("pod-of-2"), "node-2");
}

TEST_F(AgentRelaysTest, ABatchOfBeatsIsHeardOfEachMember) {
  Group group = MakeJoinedGroup();
  heard_.clear();
  v1::AgentFrame beat;
  beat.mutable_beat();
  v1::SealedFrames batch;
  for (MemberEnd& end : group.ends) {
    *batch.add_frames() = end.Seal(beat);
  }
  ASSERT_TRUE(relays_->OnRelayed(group.relay, batch).ok());
  EXPECT_THAT(heard_, ElementsAre("node-1", "node-2", "node-3"));
}

TEST_F(AgentRelaysTest, ARelayCanSayNothingForAMember) {
  Group group = MakeJoinedGroup();
  MemberEnd& member = group.ends[0];
  const v1::SealedFrame said = member.Seal(PodFrame("said"));
  ASSERT_TRUE(Say(group.relay, said).ok());
  struct Forgery {
    const char* what;
    v1::SealedFrame frame;
  };
  v1::SealedFrame changed = member.Seal(PodFrame("true"));
  changed.set_frame(PodFrame("forged").SerializeAsString());
  v1::SealedFrame bare = changed;
  bare.clear_seal();
  v1::SealedFrame renumbered = said;
  renumbered.set_number(said.number() + 1);
  // One of another member, under this one's name.
  v1::SealedFrame of_another = group.ends[1].Seal(PodFrame("forged"));
  of_another.set_session(member.session);
  of_another.set_number(said.number() + 1);
  for (const Forgery& forgery :
       {Forgery{"changed", changed}, Forgery{"without a seal", bare}, Forgery{"told twice", said},
        Forgery{"renumbered", renumbered}, Forgery{"of another member", of_another}}) {
    SCOPED_TRACE(forgery.what);
    ASSERT_TRUE(Say(group.relay, forgery.frame).ok());
    EXPECT_TRUE(SentAway(group.relay, member.session));
    EXPECT_EQ(Speaker("forged"), "nobody");
    EXPECT_EQ(members(), 2);  // the first ends the session, and the others find none
  }
  EXPECT_EQ(metrics_.refused.value(), 5U);
}

TEST_F(AgentRelaysTest, AFrameThatWasKeptBackEndsTheSessionWithTheNext) {
  Group group = MakeJoinedGroup();
  group.ends[0].Seal(PodFrame("kept back"));
  ASSERT_TRUE(Say(group.relay, group.ends[0].Seal(PodFrame("next"))).ok());
  EXPECT_TRUE(SentAway(group.relay, group.ends[0].session));
  EXPECT_EQ(Speaker("next"), "nobody");
}

TEST_F(AgentRelaysTest, ASessionIsGoodAtItsRelayForItsNodeAndForWhatMembersSayOnly) {
  Group group = MakeGroup();
  // Another agent than the relay brings it.
  const uint64_t other = Attach(4);
  ASSERT_TRUE(Say(other, group.ends[0].Seal(HelloOf("node-1"))).ok());
  EXPECT_TRUE(SentAway(other, group.ends[0].session));
  // Nobody knows this one.
  v1::SealedFrame unknown;
  unknown.set_session(12345);
  ASSERT_TRUE(Say(group.relay, unknown).ok());
  EXPECT_TRUE(SentAway(group.relay, 12345));
  // The member says that it is another node; and says no hello at all.
  ASSERT_TRUE(Say(group.relay, group.ends[1].Seal(HelloOf("node-7"))).ok());
  EXPECT_TRUE(SentAway(group.relay, group.ends[1].session));
  ASSERT_TRUE(Say(group.relay, group.ends[2].Seal(PodFrame("early"))).ok());
  EXPECT_TRUE(SentAway(group.relay, group.ends[2].session));
  EXPECT_EQ(Speaker("early"), "nobody");
  EXPECT_EQ(members(), 0);
}

TEST_F(AgentRelaysTest, AMemberIsNoRelay) {
  Group group = MakeJoinedGroup();
  v1::AgentFrame nested;
  nested.mutable_relayed()->add_ended(group.ends[1].session);
  ASSERT_TRUE(Say(group.relay, group.ends[0].Seal(nested)).ok());
  EXPECT_TRUE(SentAway(group.relay, group.ends[0].session));
  v1::SealedFrames batch;
  batch.add_ended(group.ends[1].session);
  ASSERT_TRUE(relays_->OnRelayed(Attach(5), batch).ok());
  EXPECT_EQ(members(), 2);
}

TEST_F(AgentRelaysTest, AMemberThatGoesIsSilentAtOnce) {
  Group group = MakeJoinedGroup();
  v1::SealedFrames batch;
  batch.add_ended(group.ends[0].session);
  ASSERT_TRUE(relays_->OnRelayed(group.relay, batch).ok());
  EXPECT_EQ(members(), 2);
  EXPECT_EQ(agents_.attached(), 3U);
}

TEST_F(AgentRelaysTest, ARelayThatDiesIsReplacedByOneOfItsMembers) {
  Group group = MakeJoinedGroup();
  Leave(group.relay);
  EXPECT_EQ(members(), 0);
  EXPECT_EQ(agents_.attached(), 0U);
  const base::SteadyTime died = clock_.SteadyNow();
  const std::vector<uint64_t> back = {Attach(1), Attach(2), Attach(3)};
  for (const uint64_t stream : back) {
    v1::RelayLost lost;
    lost.set_relay("node-0");
    relays_->OnLost(stream, lost);
  }
  Settle();
  uint64_t next = 0;
  for (const uint64_t stream : back) {
    next = IsAsked(stream) ? stream : next;
  }
  ASSERT_NE(next, 0U);
  ASSERT_TRUE(Answer(next).ok());
  Settle();
  int offers = 0;
  for (const uint64_t stream : back) {
    offers += LastTold(stream).has_relay_offer() ? 1 : 0;
  }
  EXPECT_EQ(offers, 2);
  EXPECT_LT(clock_.SteadyNow() - died, absl::Milliseconds(300));
  EXPECT_EQ(Changes("appointed"), 2U);
  EXPECT_EQ(Changes("gone"), 1U);
}

// What it lost before is told late, when the next relay has been offered to it already.
TEST_F(AgentRelaysTest, AWordAboutALostRelayTakesNoOfferOfAnotherBack) {
  Group group = MakeJoinedGroup();
  Leave(group.relay);
  const uint64_t next = Attach(1);
  const uint64_t member = Attach(2, false);
  Settle();
  ASSERT_TRUE(Answer(next).ok());
  Settle();
  ASSERT_TRUE(LastTold(member).has_relay_offer());
  MemberEnd end(LastTold(member).relay_offer());
  v1::RelayLost lost;
  lost.set_relay("node-0");
  relays_->OnLost(member, lost);
  ASSERT_TRUE(Say(next, end.Seal(HelloOf("node-2"))).ok());
  EXPECT_EQ(members(), 1);
  EXPECT_EQ(metrics_.refused.value(), 0U);
}

TEST_F(AgentRelaysTest, ARelayThatMostMembersCannotReachIsDismissed) {
  Group group = MakeJoinedGroup();
  v1::RelayLost lost;
  lost.set_relay("node-0");
  relays_->OnLost(Attach(1), lost);  // one of three: it may be that one's fault
  Settle();
  EXPECT_EQ(members(), 2);
  EXPECT_EQ(Changes("dismissed"), 0U);
  const uint64_t second = Attach(2);
  relays_->OnLost(second, lost);
  EXPECT_EQ(Changes("dismissed"), 1U);
  EXPECT_TRUE(LastTold(group.relay).has_relay_task());
  EXPECT_EQ(LastTold(group.relay).relay_task().members_max(), 0U);
  EXPECT_EQ(members(), 0);
  Settle();
  EXPECT_FALSE(IsAsked(group.relay));
}

TEST_F(AgentRelaysTest, OneAgentAloneDismissesNoRelayOfOthers) {
  Group group = MakeJoinedGroup();
  v1::RelayLost lost;
  lost.set_relay("node-0");
  const uint64_t member = Attach(1);
  const uint64_t stranger = Attach(5);
  for (int i = 0; i < 10; ++i) {
    relays_->OnLost(member, lost);
    relays_->OnLost(stranger, lost);
  }
  EXPECT_EQ(Changes("dismissed"), 0U);
  EXPECT_EQ(members(), 2);
}

TEST_F(AgentRelaysTest, OneThatCannotReachItsRelayStaysDirectForAWhile) {
  Group group = MakeGroup();
  v1::RelayLost lost;
  lost.set_relay("node-0");
  relays_->OnLost(group.streams[0], lost);
  told_.clear();
  core_.RunFor(absl::Seconds(8));
  EXPECT_THAT(told_[group.streams[0]], IsEmpty());
  core_.RunFor(absl::Seconds(60));
  EXPECT_TRUE(LastTold(group.streams[0]).has_relay_offer());
}

TEST_F(AgentRelaysTest, AnOfferThatNobodyTakesEnds) {
  Group group = MakeGroup();
  core_.RunFor(absl::Seconds(17));
  ASSERT_TRUE(Say(group.relay, group.ends[0].Seal(HelloOf("node-1"))).ok());
  EXPECT_TRUE(SentAway(group.relay, group.ends[0].session));
}

TEST_F(AgentRelaysTest, WhoCannotListenOrDoesNotAnswerIsNoRelay) {
  const uint64_t one = Attach(0);
  const uint64_t other = Attach(1);
  Settle();
  const uint64_t first = IsAsked(one) ? one : other;
  const uint64_t second = first == one ? other : one;
  v1::RelayState state;
  state.set_problem("the port is taken");
  ASSERT_TRUE(relays_->OnState(first, state).ok());
  Settle();
  ASSERT_TRUE(IsAsked(second));
  core_.RunFor(absl::Seconds(7));
  EXPECT_EQ(Changes("refused"), 2U);
  EXPECT_EQ(metrics_.relays.value(), 0);
}

TEST_F(AgentRelaysTest, AnAddressIsAnIpAddressWithAPort) {
  const uint64_t relay = Attach(0);
  Attach(1, false);
  Settle();
  for (const char* wrong : {"controller.example:9444", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0",
                            "10.0.0.1:65536", "10.0.0.1:9444x", "fd00::7:9444", "[10.0.0.1]:1"}) {
    EXPECT_FALSE(Answer(relay, wrong).ok()) << wrong;
  }
  EXPECT_TRUE(Answer(relay, "[fd00::7]:9444").ok());
}

TEST_F(AgentRelaysTest, ThereAreNoneInASmallClusterUnlessAskedFor) {
  Make({.mode = RelayMode::kAuto, .above_nodes = 8});
  Attach(0);
  Attach(1);
  core_.RunFor(absl::Seconds(3));
  EXPECT_EQ(Changes("appointed"), 0U);
  Make({.mode = RelayMode::kAuto, .above_nodes = 7});
  Attach(0);
  Attach(1);
  core_.RunFor(absl::Seconds(3));
  EXPECT_GT(Changes("appointed"), 0U);
  const uint64_t before = Changes("appointed");
  Make({.mode = RelayMode::kOff});
  Attach(0);
  Attach(1);
  core_.RunFor(absl::Seconds(3));
  EXPECT_EQ(Changes("appointed"), before);
}

TEST_F(AgentRelaysTest, WhatWasAskedOfAMemberGoesThroughItsRelay) {
  Group group = MakeJoinedGroup();
  v1::ControllerFrame wanted;
  wanted.mutable_measurement_wanted();
  told_.clear();
  for (uint64_t number = 1; number <= last_; ++number) {
    relays_->Tell(number, wanted);  // only numbers of members mean something
  }
  std::vector<uint64_t> sessions;
  for (const v1::ControllerFrame& frame : told_[group.relay]) {
    sessions.push_back(frame.relayed().frames(0).session());
  }
  EXPECT_THAT(sessions, UnorderedElementsAre(group.ends[0].session, group.ends[1].session,
                                             group.ends[2].session));
}

}  // namespace
}  // namespace asterism::controller
