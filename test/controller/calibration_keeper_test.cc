#include "controller/calibration_keeper.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "fake_cluster.h"
#include "gmock/gmock.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kControllerNamespace[] = "asterism-system";
constexpr char kKey[] = "H100.MegatronLM";
constexpr kube::ResourceType kMaps = operators::kCalibrationMaps;

operators::CalibrationValue ValueOf(int64_t version) {
  operators::CalibrationValue value{
      .kept = {.version = version, .constants = planner::ShippedConstantsOf("H100"), .points = {}},
      .time = absl::FromUnixSeconds(1'800'000'000)};
  value.kept.constants.half_tokens *= 1 + 0.01 * static_cast<double>(version);
  return value;
}

// A process with its keeper.
struct KeeperProcess {
  KeeperProcess(const base::Clock& clock, base::Executor& executor,
                kube::testing::FakeApiServer& server)
      : keeper({.clock = clock,
                .executor = executor,
                .rng = base::Rng(1),
                .client = server,
                .source = server,
                .may_write = [this] { return leads; },
                .on_change = [this](const auto&) { ++changes; },
                .on_known = [this] { ++known; }},
               kControllerNamespace) {
    keeper.Start();
  }

  int64_t Version() const {
    const auto set = keeper.current();
    const planner::KeptCalibration* const found = set->Find(kKey);
    return found == nullptr ? 0 : found->version;
  }

  bool leads = true;
  int changes = 0;
  int known = 0;
  CalibrationKeeper keeper;
};

class CalibrationKeeperTest : public ::testing::Test {
 protected:
  std::unique_ptr<KeeperProcess> Start() {
    auto process = std::make_unique<KeeperProcess>(clock_, executor_, server_);
    executor_.RunFor(absl::Seconds(1));
    return process;
  }
  absl::Status Keep(KeeperProcess& process, int64_t base, int64_t version) {
    absl::Status result = absl::UnknownError("no answer");
    process.keeper.Keep({.key = kKey, .base_version = base, .value = ValueOf(version)},
                        [&](const absl::Status& status) { result = status; });
    executor_.RunFor(absl::Seconds(15));
    return result;
  }
  void PutData(const json& data) {
    server_.Put(kMaps,
                {{"metadata", {{"namespace", kControllerNamespace}, {"name", kCalibrationMap}}},
                 {"data", data}});
    executor_.RunFor(absl::Seconds(1));
  }
  json Object() const {
    const auto found = server_.Find(kMaps, {kControllerNamespace, std::string(kCalibrationMap)});
    return found == nullptr ? json() : *found;
  }
  int Writes() const {
    int all = 0;
    for (const auto& [request, count] : server_.requests()) {
      all += request == "create configmaps" || request == "patch configmaps" ? count : 0;
    }
    return all;
  }

  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  kube::testing::FakeApiServer server_{clock_, executor_, {}};
};

TEST_F(CalibrationKeeperTest, WhatIsKeptStandsInTheObjectAndSurvivesARestart) {
  auto process = Start();
  EXPECT_EQ(process->known, 1);
  EXPECT_EQ(process->Version(), 0);
  EXPECT_TRUE(Keep(*process, 0, 1).ok());
  EXPECT_TRUE(Keep(*process, 1, 2).ok());
  EXPECT_EQ(process->Version(), 2);
  EXPECT_EQ(process->changes, 2);
  EXPECT_EQ(Object()["metadata"]["labels"]["app.kubernetes.io/name"], "asterism");
  const auto standby = Start();
  EXPECT_EQ(standby->Version(), 2);
  process.reset();
  process = Start();
  EXPECT_EQ(*process->keeper.current(), *standby->keeper.current());
  EXPECT_EQ(Writes(), 2);
}

TEST_F(CalibrationKeeperTest, FollowsTheObjectWithoutAnyCall) {
  const auto process = Start();
  PutData({{kKey, operators::WriteCalibration(ValueOf(5))}});
  EXPECT_EQ(process->Version(), 5);
  PutData({{kKey, operators::WriteCalibration(ValueOf(6))}, {"mine", "a note"}});
  EXPECT_EQ(process->Version(), 6);
  server_.Remove(kMaps, {kControllerNamespace, std::string(kCalibrationMap)});
  executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(process->Version(), 0);
  EXPECT_TRUE(Keep(*process, 0, 1).ok());
  EXPECT_EQ(process->Version(), 1);
}

TEST_F(CalibrationKeeperTest, WhatCannotBeUsedLeavesTheLastGoodInForce) {
  const auto process = Start();
  ASSERT_TRUE(Keep(*process, 0, 1).ok());
  const std::string good = Object()["data"][kKey];
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), good.substr(0, good.size() / 2),
        std::string(100'000, 'x'), std::string(), std::string("{\"format\": 99}")}) {
    PutData({{kKey, good}});  // so that the next fault is a new one
    ::testing::internal::CaptureStderr();
    PutData({{kKey, bad}});
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(process->Version(), 1) << bad.substr(0, 40);
    EXPECT_THAT(log, HasSubstr("calibration_ignored"));
    EXPECT_THAT(log, HasSubstr(kKey));
    EXPECT_THAT(log, HasSubstr("calibrate again, or delete the key"));
  }
  // A process that never saw it good plans with the shipped constants, and heals by a new one.
  const auto next = Start();
  EXPECT_EQ(next->Version(), 0);
  EXPECT_TRUE(Keep(*next, 0, 1).ok());
  EXPECT_EQ(next->Version(), 1);
}

TEST_F(CalibrationKeeperTest, TheSameFaultIsToldOnce) {
  const auto process = Start();
  PutData({{kKey, "{"}});
  ::testing::internal::CaptureStderr();
  PutData({{kKey, "{"}, {"note", "x"}});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("key=note"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr(kKey + std::string(" reason"))));
}

TEST_F(CalibrationKeeperTest, OfTwoAtOnceOneIsRefused) {
  const auto process = Start();
  ASSERT_TRUE(Keep(*process, 0, 1).ok());
  absl::Status results[2];
  for (absl::Status& result : results) {
    result = absl::UnknownError("no answer");
    process->keeper.Keep({.key = kKey, .base_version = 1, .value = ValueOf(2)},
                         [&result](const absl::Status& status) { result = status; });
  }
  executor_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(results[0].ok()) << results[0];
  EXPECT_TRUE(absl::IsAborted(results[1])) << results[1];
  EXPECT_THAT(std::string(results[1].message()), HasSubstr("call again"));
  EXPECT_EQ(process->Version(), 2);
  // And one that was worked out from what is in force no more.
  EXPECT_TRUE(absl::IsAborted(Keep(*process, 1, 2)));
}

TEST_F(CalibrationKeeperTest, SomebodyElsesChangeIsNotOverwritten) {
  const auto process = Start();
  ASSERT_TRUE(Keep(*process, 0, 1).ok());
  server_.HoldWatches(true);
  server_.Merge(kMaps, {kControllerNamespace, std::string(kCalibrationMap)},
                {{"data", {{kKey, operators::WriteCalibration(ValueOf(9))}}}});
  EXPECT_TRUE(absl::IsAborted(Keep(*process, 1, 2)));
  server_.HoldWatches(false);
  executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(process->Version(), 9);
}

TEST_F(CalibrationKeeperTest, AnswersThatDoNotComeAreNotTakenForSuccess) {
  const auto process = Start();
  ASSERT_TRUE(Keep(*process, 0, 1).ok());
  server_.InjectFault({.verb = "patch", .plural = "configmaps", .http_code = 500, .reason = ""});
  const absl::Status unknown = Keep(*process, 1, 2);
  EXPECT_TRUE(absl::IsUnavailable(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("not known"));
  server_.InjectFault({.verb = "patch", .plural = "configmaps", .http_code = 403, .reason = ""});
  const absl::Status forbidden = Keep(*process, process->Version(), process->Version() + 1);
  EXPECT_EQ(forbidden.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(forbidden.message()), HasSubstr("install the chart"));
}

TEST_F(CalibrationKeeperTest, AStandbyWritesNothing) {
  const auto process = Start();
  process->leads = false;
  EXPECT_TRUE(absl::IsUnavailable(Keep(*process, 0, 1)));
  EXPECT_EQ(Writes(), 0);
}

TEST_F(CalibrationKeeperTest, WithoutTheRightToReadPlansAreMadeAllTheSame) {
  server_.InjectFault(
      {.verb = "list", .plural = "configmaps", .count = 1000, .http_code = 403, .reason = ""});
  server_.InjectFault(
      {.verb = "watch", .plural = "configmaps", .count = 1000, .http_code = 403, .reason = ""});
  const auto process = Start();
  EXPECT_FALSE(process->keeper.known());
  EXPECT_TRUE(absl::IsUnavailable(Keep(*process, 0, 1)));
  EXPECT_TRUE(process->keeper.known());
  EXPECT_EQ(process->known, 1);
  EXPECT_EQ(process->Version(), 0);
  server_.ClearFaults();
  executor_.RunFor(absl::Minutes(1));
  EXPECT_TRUE(Keep(*process, 0, 1).ok());
}

// The operator plans with it: a job that waits is planned anew, one that runs keeps its plan.
TEST(KeptCalibrations, PlansOfJobsFollowThemUntilPodsRun) {
  FakeCluster cluster(1);
  cluster.AddNodes(16, 4);
  cluster.StartController("a");
  const json model = {
      {"framework", "MegatronLM"},
      {"model", {{"preset", "llama-3-8b"}, {"globalBatchSize", 128}, {"sequenceLength", 8192}}}};
  const auto tables = [&](const std::string& job) {
    return cluster.StatusOf(job).value("/plan/tablesVersion"_json_pointer, std::string());
  };
  cluster.CreateJob("runs", 64, model);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.StateOf("runs") == "Running"; }));
  cluster.CreateJob("waits", 128, model);
  ASSERT_TRUE(cluster.RunUntil([&] { return !tables("waits").empty(); }));
  EXPECT_EQ(tables("waits"), planner::kTimeTablesVersion);
  cluster.server().Put(
      kMaps, {{"metadata", {{"namespace", kControllerNamespace}, {"name", kCalibrationMap}}},
              {"data", {{kKey, operators::WriteCalibration(ValueOf(3))}}}});
  const std::string kept = std::string(planner::kTimeTablesVersion) + "+H100.MegatronLM.3";
  EXPECT_TRUE(cluster.RunUntil([&] { return tables("waits") == kept; })) << tables("waits");
  EXPECT_EQ(tables("runs"), planner::kTimeTablesVersion);
  // The next process has it before it plans anything.
  cluster.KillController("a");
  cluster.CreateJob("later", 128, model);
  cluster.StartController("b");
  ASSERT_TRUE(cluster.RunUntil([&] { return !tables("later").empty(); }));
  EXPECT_EQ(tables("later"), kept);
  EXPECT_EQ(tables("waits"), kept);
  EXPECT_EQ(cluster.Violations(), "");
}

}  // namespace
}  // namespace asterism::controller
