#include "kube/leader_elector.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

using nlohmann::json;
using testing::FakeApiServer;

// Passes calls on unless the candidate is cut off from the server; answers to calls that were made
// before may be lost too.
class Link final : public Client {
 public:
  Link(base::Executor& executor, Client& server) : executor_(executor), server_(server) {}

  void Get(const ResourceType& type, ObjectName name, Lane lane, ReplyCallback done) override {
    if (Open(done)) {
      server_.Get(type, std::move(name), lane, std::move(done));
    }
  }
  void Create(const ResourceType& type, std::string namespace_name, std::string body,
              CreateOptions options, Lane lane, ReplyCallback done) override {
    if (Open(done)) {
      server_.Create(type, std::move(namespace_name), std::move(body), options, lane,
                     std::move(done));
    }
  }
  void Update(const ResourceType& type, ObjectName name, std::string body, Lane lane,
              ReplyCallback done) override {
    if (Open(done)) {
      server_.Update(type, std::move(name), std::move(body), lane, std::move(done));
    }
  }
  void Patch(const ResourceType&, ObjectName, std::string, PatchOptions, ReplyCallback) override {}
  void Delete(const ResourceType&, ObjectName, DeleteOptions, ReplyCallback) override {}

  bool cut = false;

 private:
  bool Open(ReplyCallback& done) {
    if (cut) {
      executor_.PostAfter(absl::Seconds(5), [done = std::move(done)]() mutable {
        done(absl::DeadlineExceededError("no answer"));
      });
    }
    return !cut;
  }

  base::Executor& executor_;
  Client& server_;
};

struct Candidate {
  Candidate(base::SimClock& clock, base::SimExecutor& executor, Client& server, std::string name,
            uint64_t seed)
      : link(executor, server),
        elector(std::make_unique<LeaderElector>(
            clock, executor, base::Rng(seed), link,
            LeaderElectorOptions{.namespace_name = "system", .name = "lead", .identity = name},
            LeaderEvents{.on_started =
                             [this] {
                               ++started;
                               leading = true;
                             },
                         .on_stopped =
                             [this] {
                               ++stopped;
                               leading = false;
                             }})) {}

  Link link;
  int started = 0;
  int stopped = 0;
  bool leading = false;
  std::unique_ptr<LeaderElector> elector;
};

class LeaderElectorTest : public ::testing::Test {
 protected:
  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  FakeApiServer server_{clock_, executor_, {}};
  Candidate a_{clock_, executor_, server_, "a", 1};
  Candidate b_{clock_, executor_, server_, "b", 2};

  json LeaseSpec() const { return (*server_.Find(kLeases, {"system", "lead"}))["spec"]; }
};

TEST_F(LeaderElectorTest, OneOfTwoLeadsAndRenews) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  b_.elector->Start();
  executor_.RunFor(absl::Minutes(10));
  EXPECT_TRUE(a_.elector->IsLeader());
  EXPECT_FALSE(b_.elector->IsLeader());
  EXPECT_EQ(b_.elector->leader(), "a");
  EXPECT_EQ(a_.started, 1);
  EXPECT_EQ(a_.stopped, 0);
  EXPECT_EQ(a_.elector->slow_paths(), 1u);  // renewals need no read
  EXPECT_EQ(LeaseSpec()["leaseTransitions"], 0);
}

TEST_F(LeaderElectorTest, AKilledLeaderIsReplacedWithinItsLease) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  b_.elector->Start();
  executor_.RunFor(absl::Minutes(1));
  a_.elector.reset();
  executor_.RunFor(absl::Seconds(12));
  EXPECT_FALSE(b_.elector->IsLeader());
  executor_.RunFor(absl::Seconds(6));
  EXPECT_TRUE(b_.elector->IsLeader());
  EXPECT_EQ(LeaseSpec()["holderIdentity"], "b");
  EXPECT_EQ(LeaseSpec()["leaseTransitions"], 1);
}

// 1.9 s would be recorded as 1, and a standby would not wait for the renew deadline of 1.8.
TEST_F(LeaderElectorTest, TheLeaseDurationMustBeWholeSeconds) {
  for (const absl::Duration lease : {absl::Milliseconds(1900), absl::Milliseconds(500)}) {
    EXPECT_DEATH(LeaderElector(clock_, executor_, base::Rng(1), server_,
                               {.namespace_name = "system",
                                .name = "lead",
                                .identity = "a",
                                .lease_duration = lease,
                                .renew_deadline = lease - absl::Milliseconds(100),
                                .retry_period = absl::Milliseconds(100)},
                               {}),
                 "whole seconds");
  }
}

TEST_F(LeaderElectorTest, ACleanStopHandsOverAtOnce) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  b_.elector->Start();
  executor_.RunFor(absl::Minutes(1));
  bool released = false;
  a_.elector->Stop([&] { released = true; });
  EXPECT_EQ(a_.stopped, 1);  // before anything is written
  executor_.RunFor(absl::Seconds(4));
  EXPECT_TRUE(released);
  EXPECT_TRUE(b_.elector->IsLeader());
}

TEST_F(LeaderElectorTest, ALeaderWithoutServerStopsBeforeAnotherCanLead) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  b_.elector->Start();
  executor_.RunFor(absl::Minutes(1));
  a_.link.cut = true;
  executor_.RunFor(absl::Seconds(10));
  EXPECT_EQ(a_.stopped, 1);
  EXPECT_FALSE(b_.leading);
  executor_.RunFor(absl::Seconds(10));
  EXPECT_TRUE(b_.leading);
  a_.link.cut = false;
  executor_.RunFor(absl::Minutes(1));
  EXPECT_FALSE(a_.leading);
  EXPECT_EQ(a_.elector->leader(), "b");
}

TEST_F(LeaderElectorTest, NobodyLeadsWhileTheServerIsAway) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  b_.elector->Start();
  server_.SetDown(true);
  executor_.RunFor(absl::Minutes(1));
  EXPECT_FALSE(a_.leading);
  EXPECT_FALSE(b_.leading);
  server_.SetDown(false);
  executor_.RunFor(absl::Seconds(20));
  EXPECT_TRUE(a_.leading != b_.leading);
}

TEST_F(LeaderElectorTest, APausedLeaderKnowsAtOnceThatItsTimeIsOver) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  ASSERT_TRUE(a_.elector->IsLeader());
  clock_.Advance(absl::Seconds(11));  // nothing ran, not even a timer
  EXPECT_FALSE(a_.elector->IsLeader());
  executor_.RunUntilIdle();
  EXPECT_EQ(a_.stopped, 1);
}

TEST_F(LeaderElectorTest, WallClocksOfOthersDoNotMatter) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  b_.elector->Start();
  clock_.StepWall(absl::Hours(-5));
  executor_.RunFor(absl::Minutes(1));
  clock_.StepWall(absl::Hours(10));
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(a_.started, 1);
  EXPECT_EQ(a_.stopped, 0);
  EXPECT_EQ(b_.started, 0);
}

TEST_F(LeaderElectorTest, AnUnknownOutcomeOfARenewalIsReadBack) {
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(1));
  server_.InjectFault({.verb = "update", .http_code = 504, .commit = true});
  executor_.RunFor(absl::Seconds(30));
  EXPECT_TRUE(a_.elector->IsLeader());
  EXPECT_EQ(a_.stopped, 0);
}

TEST_F(LeaderElectorTest, KeepsLabelsOfTheLease) {
  server_.Put(kLeases,
              {{"metadata", {{"namespace", "system"}, {"name", "lead"}, {"labels", {{"k", "v"}}}}},
               {"spec", json::object()}});
  a_.elector->Start();
  executor_.RunFor(absl::Seconds(10));
  EXPECT_TRUE(a_.elector->IsLeader());
  EXPECT_EQ((*server_.Find(kLeases, {"system", "lead"}))["metadata"]["labels"]["k"], "v");
}

// Never two leaders, whatever is cut and whoever restarts; and one again when all is well.
TEST(LeaderElector, NeverTwoLeaders) {
  EXPECT_TRUE(rc::check("at most one leader", [] {
    base::SimClock clock;
    base::SimExecutor executor(clock);
    FakeApiServer server(clock, executor, {});
    std::vector<std::unique_ptr<Candidate>> candidates;
    const auto make = [&](size_t i) {
      auto candidate = std::make_unique<Candidate>(clock, executor, server, fmt::format("c{}", i),
                                                   *rc::gen::arbitrary<uint64_t>());
      candidate->elector->Start();
      return candidate;
    };
    for (size_t i = 0; i < 3; ++i) {
      candidates.push_back(make(i));
    }
    const auto check = [&](absl::Duration duration) {
      for (absl::Duration passed; passed < duration; passed += absl::Milliseconds(250)) {
        executor.RunFor(absl::Milliseconds(250));
        int leaders = 0;
        for (const auto& candidate : candidates) {
          leaders += candidate->leading ? 1 : 0;
        }
        RC_ASSERT(leaders <= 1);
      }
    };
    const int steps = *rc::gen::inRange(0, 20);
    for (int step = 0; step < steps; ++step) {
      const size_t i = *rc::gen::inRange<size_t>(0, 3);
      switch (*rc::gen::inRange(0, 6)) {
        case 0:
          candidates[i]->link.cut = *rc::gen::arbitrary<bool>();
          break;
        case 1:
          candidates[i] = make(10 * static_cast<size_t>(step + 1) + i);
          break;
        case 2:
          candidates[i]->elector->Stop({});
          break;
        case 3:
          candidates[i]->elector->Start();
          break;
        case 4:
          server.InjectFault({.count = *rc::gen::inRange(1, 5),
                              .http_code = *rc::gen::element(0, 409, 429, 500, 504),
                              .commit = *rc::gen::arbitrary<bool>(),
                              .no_answer = *rc::gen::arbitrary<bool>()});
          break;
        default:
          break;
      }
      check(absl::Seconds(*rc::gen::inRange(1, 12)));
    }
    server.ClearFaults();
    for (const auto& candidate : candidates) {
      candidate->link.cut = false;
      candidate->elector->Start();
    }
    check(absl::Minutes(1));
    int leaders = 0;
    for (const auto& candidate : candidates) {
      leaders += candidate->elector->IsLeader() ? 1 : 0;
    }
    RC_ASSERT(leaders == 1);
  }));
}

}  // namespace
}  // namespace asterism::kube
