#include "operator/failure_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace asterism::operators {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1767225600);

kube::Pod FailedPod(int32_t exit_code, std::string reason = "Error") {
  kube::Pod pod;
  pod.meta.name = "llama-3f2a9-r64-e1";
  pod.node_name = "gpu-0008";
  pod.phase = "Failed";
  pod.terminated = {{.name = "trainer",
                     .exit_code = exit_code,
                     .reason = std::move(reason),
                     .finished_at = kNow - absl::Seconds(5)}};
  return pod;
}

LostPod Lost(const kube::Pod* pod, int64_t rank = 64) {
  return {.first_rank = rank,
          .ranks = 8,
          .pod = pod,
          .pod_name = "llama-3f2a9-r64-e1",
          .node = "gpu-0008",
          .container_name = "trainer"};
}

TEST(FindFirstCause, ReadsConditionsOfDisruption) {
  const std::pair<const char*, const char*> cases[] = {
      {"DeletionByTaintManager", "NodeFailure"}, {"DeletionByPodGC", "NodeFailure"},
      {"TerminationByKubelet", "NodeFailure"},   {"PreemptionByScheduler", "Preempted"},
      {"EvictionByEvictionAPI", "Preempted"},    {"SomethingNew", "Preempted"}};
  for (const auto& [word, reason] : cases) {
    kube::Pod pod = FailedPod(143);
    pod.conditions = {{.type = "DisruptionTarget",
                       .status = "True",
                       .last_transition_time = kNow - absl::Seconds(9),
                       .reason = word,
                       .message = "because"}};
    const FirstCause cause = FindFirstCause({Lost(&pod)}, kNow);
    EXPECT_EQ(cause.reason, reason) << word;
    EXPECT_EQ(cause.time, kNow - absl::Seconds(9));
    EXPECT_FALSE(cause.exit_code.has_value());
    EXPECT_THAT(cause.message, HasSubstr(word));
    EXPECT_THAT(cause.message, HasSubstr("because"));
    pod.conditions[0].status = "False";
    EXPECT_EQ(FindFirstCause({Lost(&pod)}, kNow).reason, "AppError");
  }
}

TEST(FindFirstCause, ReadsReasonsOfTheKubelet) {
  const std::pair<const char*, const char*> cases[] = {{"NodeLost", "NodeFailure"},
                                                       {"NodeShutdown", "NodeFailure"},
                                                       {"Shutdown", "NodeFailure"},
                                                       {"Terminated", "NodeFailure"},
                                                       {"NodeAffinity", "NodeFailure"},
                                                       {"OutOfcpu", "NodeFailure"},
                                                       {"OutOfnvidia.com/gpu", "NodeFailure"},
                                                       {"UnexpectedAdmissionError", "NodeFailure"},
                                                       {"TopologyAffinityError", "NodeFailure"},
                                                       {"Evicted", "Preempted"},
                                                       {"Preempting", "Preempted"},
                                                       {"DeadlineExceeded", "AppError"}};
  for (const auto& [word, reason] : cases) {
    kube::Pod pod;
    pod.phase = "Failed";
    pod.reason = word;
    pod.message = "said the kubelet";
    const FirstCause cause = FindFirstCause({Lost(&pod)}, kNow);
    EXPECT_EQ(cause.reason, reason) << word;
    EXPECT_THAT(cause.message, HasSubstr("said the kubelet"));
  }
}

TEST(FindFirstCause, TellsExitCodesAndSignals) {
  kube::Pod pod = FailedPod(3);
  FirstCause cause = FindFirstCause({Lost(&pod)}, kNow);
  EXPECT_EQ(cause.reason, "AppError");
  EXPECT_EQ(cause.message, "rank 64 (pod llama-3f2a9-r64-e1 on gpu-0008) exited with code 3");
  EXPECT_EQ(cause.exit_code, 3);
  EXPECT_FALSE(cause.signal.has_value());
  EXPECT_EQ(cause.rank, 64);
  EXPECT_EQ(cause.pod, "llama-3f2a9-r64-e1");
  EXPECT_EQ(cause.node, "gpu-0008");
  EXPECT_EQ(cause.time, kNow - absl::Seconds(5));

  pod = FailedPod(139);
  pod.terminated[0].message = "line one\nline\ttwo\n";
  cause = FindFirstCause({Lost(&pod)}, kNow);
  EXPECT_EQ(cause.signal, 11);
  EXPECT_EQ(cause.message,
            "rank 64 (pod llama-3f2a9-r64-e1 on gpu-0008) exited with code 139 (SIGSEGV): line one "
            "line two");

  pod = FailedPod(1);
  pod.terminated[0].signal = 7;
  EXPECT_EQ(FindFirstCause({Lost(&pod)}, kNow).signal, 7);
  pod = FailedPod(255);
  EXPECT_FALSE(FindFirstCause({Lost(&pod)}, kNow).signal.has_value());

  pod = FailedPod(137, "OOMKilled");
  cause = FindFirstCause({Lost(&pod)}, kNow);
  EXPECT_EQ(cause.reason, "OOMKilled");
  EXPECT_EQ(cause.exit_code, 137);
  EXPECT_THAT(cause.message, HasSubstr("ran out of memory"));

  pod = FailedPod(137, "ContainerStatusUnknown");
  cause = FindFirstCause({Lost(&pod)}, kNow);
  EXPECT_EQ(cause.reason, "NodeFailure");
  EXPECT_FALSE(cause.exit_code.has_value());
}

TEST(FindFirstCause, LooksAtTheTrainingContainerFirst) {
  kube::Pod pod = FailedPod(3);
  pod.terminated.insert(
      pod.terminated.begin(),
      {.name = "sidecar", .exit_code = 1, .finished_at = kNow - absl::Seconds(9)});
  EXPECT_EQ(FindFirstCause({Lost(&pod)}, kNow).exit_code, 3);
  pod.terminated[1].exit_code = 0;
  EXPECT_EQ(FindFirstCause({Lost(&pod)}, kNow).exit_code, 1);
  LostPod unnamed = Lost(&pod);
  unnamed.container_name.clear();
  pod.terminated[1].exit_code = 3;
  EXPECT_EQ(FindFirstCause({unnamed}, kNow).exit_code, 1);
}

TEST(FindFirstCause, TellsADeletionFromAFailure) {
  LostPod vanished = Lost(nullptr);
  EXPECT_EQ(FindFirstCause({vanished}, kNow).reason, "Preempted");
  vanished.node_gone = true;
  EXPECT_EQ(FindFirstCause({vanished}, kNow).reason, "NodeFailure");

  kube::Pod running;
  running.phase = "Running";
  LostPod on_dead_node = Lost(&running);
  on_dead_node.node_gone = true;
  EXPECT_EQ(FindFirstCause({on_dead_node}, kNow).reason, "NodeFailure");

  kube::Pod deleted = FailedPod(143);
  deleted.meta.deletion_time = kNow + absl::Seconds(25);
  FirstCause cause = FindFirstCause({Lost(&deleted)}, kNow);
  EXPECT_EQ(cause.reason, "Preempted");
  EXPECT_EQ(cause.time, kNow);  // never in the future
  EXPECT_THAT(cause.message, HasSubstr("was deleted"));
  deleted.terminated[0].exit_code = 3;
  EXPECT_EQ(FindFirstCause({Lost(&deleted)}, kNow).reason, "AppError");
}

TEST(FindFirstCause, IsTheEarliest) {
  kube::Pod early = FailedPod(3);
  kube::Pod late = FailedPod(1);
  late.terminated[0].finished_at += absl::Seconds(1);
  EXPECT_EQ(FindFirstCause({Lost(&late, 0), Lost(&early, 8)}, kNow).rank, 8);
  // Times of containers have whole seconds.
  late.terminated[0].finished_at = early.terminated[0].finished_at;
  EXPECT_EQ(FindFirstCause({Lost(&early, 8), Lost(&late, 0)}, kNow).rank, 0);
  LostPod told_first = Lost(&early, 8);
  LostPod told_later = Lost(&late, 0);
  told_first.seen = {1};
  told_later.seen = {2};
  EXPECT_EQ(FindFirstCause({told_first, told_later}, kNow).rank, 8);
  // A real exit beats a pod that is only gone.
  EXPECT_EQ(FindFirstCause({Lost(nullptr, 0), Lost(&early, 8)}, kNow).rank, 8);
  early.terminated[0].finished_at = kNow + absl::Hours(1);  // a clock that runs ahead
  const FirstCause cause = FindFirstCause({Lost(nullptr, 0), Lost(&early, 8)}, kNow);
  EXPECT_EQ(cause.rank, 8);
  EXPECT_EQ(cause.time, kNow);
}

constexpr absl::Duration kSoon = absl::Seconds(1);  // after the last restart

FirstCause Cause(std::string reason, std::optional<int32_t> exit_code = std::nullopt) {
  return {.time = kNow,
          .reason = std::move(reason),
          .message = "rank 0 did it",
          .exit_code = exit_code};
}

TEST(FindFirstCause, TakesRankAndCodeFromTheLauncher) {
  const kube::Pod pod = FailedPod(1);
  WorkerReport report;
  report.first_cause =
      ProcessEnd{.time = kNow - absl::Milliseconds(5100), .rank = 67, .exit_code = 13};
  report.exit = ProcessEnd{.time = kNow - absl::Milliseconds(5050), .exit_code = 1};
  LostPod lost = Lost(&pod);
  lost.report = &report;
  const FirstCause cause = FindFirstCause({lost}, kNow);
  EXPECT_EQ(cause.reason, "AppError");
  EXPECT_EQ(cause.rank, 67);
  EXPECT_EQ(cause.exit_code, 13);
  EXPECT_EQ(cause.time, kNow - absl::Milliseconds(5100));
  EXPECT_THAT(cause.message, HasSubstr("rank 67"));
  EXPECT_THAT(cause.message, HasSubstr("code 13"));
  // Rules may name either code.
  for (const int32_t code : {1, 13}) {
    const FailurePolicy policy{
        .rules = {{.exit_codes = {code}, .action = FailureAction::kFailJob}}};
    EXPECT_EQ(DecideRestart(policy, {}, cause, absl::Hours(1)).failed_reason, "FailJobRule");
  }
}

TEST(FindFirstCause, DoesNotBelieveWhatCannotBe) {
  kube::Pod pod = FailedPod(1);
  pod.meta.creation_time = kNow - absl::Hours(1);
  const absl::Time finished = pod.terminated[0].finished_at;
  const auto cause_of = [&](const ProcessEnd& first, const ProcessEnd& exit) {
    WorkerReport report;
    report.first_cause = first;
    report.exit = exit;
    LostPod lost = Lost(&pod);
    lost.report = &report;
    return FindFirstCause({lost}, kNow);
  };
  const ProcessEnd exit{.time = finished, .exit_code = 1};
  // Ranks of other pods.
  for (const int64_t rank : {int64_t{0}, int64_t{63}, int64_t{72}, int64_t{1} << 40}) {
    const FirstCause cause = cause_of({.time = finished, .rank = rank, .exit_code = 9}, exit);
    EXPECT_EQ(cause.rank, 64);
    EXPECT_EQ(cause.exit_code, 1);
  }
  // Times that are none of the pod's life.
  for (const absl::Time time : {absl::UnixEpoch() - absl::Hours(24 * 365 * 290),
                                kNow - absl::Hours(2), kNow + absl::Hours(2)}) {
    EXPECT_EQ(cause_of({.time = time, .rank = 66}, exit).rank, 64);
    EXPECT_EQ(cause_of({.time = finished, .rank = 66}, {.time = time}).time, finished);
  }
  EXPECT_EQ(cause_of({.time = finished - absl::Minutes(3), .rank = 66}, exit).rank, 66);
}

TEST(FindFirstCause, OrdersByTheNanosecondsOfLaunchers) {
  const kube::Pod one = FailedPod(1);
  const kube::Pod two = FailedPod(1);
  WorkerReport first;
  first.exit = ProcessEnd{.time = kNow - absl::Nanoseconds(200), .exit_code = 7};
  first.first_cause = first.exit;
  WorkerReport second;
  second.exit = ProcessEnd{.time = kNow - absl::Nanoseconds(100), .exit_code = 1};
  second.first_cause = second.exit;
  LostPod early = Lost(&one, 72);
  early.report = &first;
  LostPod late = Lost(&two, 64);
  late.report = &second;
  EXPECT_EQ(FindFirstCause({late, early}, kNow).rank, 72);
  EXPECT_EQ(FindFirstCause({early, late}, kNow).rank, 72);
}

TEST(FindFirstCause, BelievesALauncherBeforeKubeletHasSaidSo) {
  kube::Pod pod = FailedPod(1);
  pod.phase = "Running";
  pod.terminated.clear();
  WorkerReport report;
  report.exit = ProcessEnd{.time = kNow, .exit_code = 3};
  EXPECT_TRUE(EndedBadly(&report));
  LostPod lost = Lost(&pod);
  lost.report = &report;
  const FirstCause cause = FindFirstCause({lost}, kNow);
  EXPECT_EQ(cause.reason, "AppError");
  EXPECT_EQ(cause.exit_code, 3);
  // Who was killed may have run out of memory: kubelet knows.
  report.exit->signal = 9;
  EXPECT_FALSE(EndedBadly(&report));
  report.exit = ProcessEnd{.time = kNow, .exit_code = 0};
  EXPECT_FALSE(EndedBadly(&report));
  EXPECT_FALSE(EndedBadly(nullptr));
}

TEST(FindFirstCause, ADisruptionStaysOneWhateverTheLauncherSaw) {
  kube::Pod pod = FailedPod(143);
  pod.conditions = {{.type = "DisruptionTarget",
                     .status = "True",
                     .last_transition_time = kNow,
                     .reason = "EvictionByEvictionAPI"}};
  WorkerReport report;
  report.exit = ProcessEnd{.time = kNow, .exit_code = 143, .signal = 15};
  LostPod lost = Lost(&pod);
  lost.report = &report;
  EXPECT_EQ(FindFirstCause({lost}, kNow).reason, "Preempted");
}

TEST(DecideRestart, CountsOnlyTheProgramsOwnFailures) {
  const std::pair<const char*, bool> cases[] = {
      {"NodeFailure", false}, {"Preempted", false}, {"OOMKilled", true}, {"AppError", true}};
  for (const auto& [reason, counted] : cases) {
    const RestartDecision decision = DecideRestart({}, {.count = 5}, Cause(reason), kSoon);
    EXPECT_TRUE(decision.restart);
    EXPECT_EQ(decision.counted, counted) << reason;
    EXPECT_EQ(decision.restarts.count, 6);
    EXPECT_EQ(decision.restarts.counted, counted ? 1 : 0);
    EXPECT_EQ(decision.restarts.last, Cause(reason));
    EXPECT_EQ(decision.backoff, absl::Seconds(10));
    EXPECT_THAT(decision.message, HasSubstr("rank 0 did it"));
  }
}

TEST(DecideRestart, EndsAfterMaxRestarts) {
  RestartStatus restarts;
  const FailurePolicy policy;
  const int backoff_seconds[] = {10, 20, 40};
  for (const int seconds : backoff_seconds) {
    const RestartDecision decision = DecideRestart(policy, restarts, Cause("AppError", 1), kSoon);
    ASSERT_TRUE(decision.restart);
    EXPECT_EQ(decision.backoff, absl::Seconds(seconds));
    restarts = decision.restarts;
  }
  const RestartDecision decision = DecideRestart(policy, restarts, Cause("AppError", 1), kSoon);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.failed_reason, "BackoffLimitExceeded");
  EXPECT_EQ(decision.message,
            "all 3 restarts of spec.failurePolicy.maxRestarts are used: rank 0 did it");
  EXPECT_EQ(decision.restarts.count, 3);
  // A lost node is nobody's fault, also then.
  EXPECT_TRUE(DecideRestart(policy, restarts, Cause("NodeFailure"), kSoon).restart);
}

TEST(DecideRestart, AQuietPeriodForgivesRestarts) {
  RestartStatus restarts{.count = 3, .counted = 3, .last = Cause("AppError", 1)};
  const FirstCause again = Cause("AppError", 1);
  EXPECT_FALSE(DecideRestart({}, restarts, again, absl::Seconds(3599)).restart);
  const RestartDecision decision = DecideRestart({}, restarts, again, absl::Seconds(3600));
  EXPECT_TRUE(decision.restart);
  EXPECT_EQ(decision.restarts.counted, 1);
  EXPECT_EQ(decision.restarts.count, 4);
  EXPECT_FALSE(
      DecideRestart({.reset_after_seconds = 0}, restarts, again, absl::Seconds(3600)).restart);
}

TEST(DecideRestart, TheFirstMatchingRuleWins) {
  FailurePolicy policy;
  policy.rules = {
      {.exit_codes = {3, 4}, .action = FailureAction::kFailJob},
      {.on_reason = "NodeFailure", .action = FailureAction::kRestart},
      {.exit_codes = {137}, .on_reason = "OOMKilled", .action = FailureAction::kFailJob},
      {.on_reason = "AppError", .action = FailureAction::kRestartAndIgnoreMaxRestarts}};
  RestartDecision decision = DecideRestart(policy, {}, Cause("AppError", 4), kSoon);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.failed_reason, "FailJobRule");
  EXPECT_EQ(decision.message, "spec.failurePolicy.rules[0] says FailJob: rank 0 did it");
  EXPECT_TRUE(DecideRestart(policy, {}, Cause("NodeFailure"), kSoon).counted);
  EXPECT_FALSE(DecideRestart(policy, {}, Cause("OOMKilled", 137), kSoon).restart);
  EXPECT_TRUE(DecideRestart(policy, {}, Cause("OOMKilled", 1), kSoon).restart);
  decision = DecideRestart(policy, {.counted = 3}, Cause("AppError", 1), kSoon);
  EXPECT_TRUE(decision.restart);
  EXPECT_FALSE(decision.counted);
  // A made-up exit code of a lost node is not the program's.
  EXPECT_TRUE(DecideRestart(policy, {}, Cause("NodeFailure", 3), kSoon).restart);
}

TEST(DecideRestart, BackoffHasALimit) {
  FailurePolicy policy{.max_restarts = 1000};
  RestartStatus restarts{.counted = 500};
  EXPECT_EQ(DecideRestart(policy, restarts, Cause("AppError"), kSoon).backoff, absl::Seconds(300));
  policy.backoff_seconds = 0;
  EXPECT_EQ(DecideRestart(policy, restarts, Cause("AppError"), kSoon).backoff,
            absl::ZeroDuration());
}

}  // namespace
}  // namespace asterism::operators
