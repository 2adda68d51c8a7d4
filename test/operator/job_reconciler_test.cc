#include "operator/job_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/conditions.h"

namespace asterism::operators {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kSecond = absl::Seconds(1);

// A job of four pods of eight ranks, and everything DecideJob looks at.
class JobReconcilerTest : public ::testing::Test {
 protected:
  JobReconcilerTest() {
    job_.meta = {.namespace_name = "research", .name = "llama", .uid = "abcde-1", .generation = 3};
    job_.spec.gpus = 32;
    seen_.job = &job_;
    seen_.status = &status_;
    seen_.shape = {.pods = 4, .gpus_per_pod = 8, .processes_per_pod = 8};
    seen_.blocks = &blocks_;
    seen_.pods = &pods_;
    seen_.creating = &creating_;
    seen_.deleting = &deleting_;
    seen_.create_errors = &create_errors_;
    seen_.succeeded = &succeeded_;
    seen_.node_exists = [this](std::string_view node) {
      return !gone_.contains(std::string(node));
    };
    seen_.node_ready = [this](std::string_view node) {
      return !gone_.contains(std::string(node)) && !not_ready_.contains(std::string(node));
    };
    seen_.now = absl::FromUnixSeconds(1'800'000'000);
    seen_.steady_now = {1'000'000'000'000};
  }

  JobDecision Decide() { return DecideJob(seen_); }

  // Homes on node-0 .. node-3 under `epoch`, as the status says too.
  void Place(int64_t epoch = 1) {
    blocks_.clear();
    for (int64_t i = 0; i < 4; ++i) {
      blocks_.push_back({i * 8, "node-" + std::to_string(i), epoch});
    }
    status_.placement.epoch = epoch;
    status_.placement.runs = RunsOf(blocks_, 8, [](std::string_view) { return "sn-0"; });
    SetCondition(status_.conditions, {.type = kPlaced, .status = "True", .reason = "Placed"},
                 seen_.now);
  }

  kube::Pod& AddPod(int64_t block, const std::string& phase, bool bound = true, int64_t epoch = 1) {
    auto pod = std::make_shared<kube::Pod>();
    pod->meta.name = PodName(job_.meta, block * 8, epoch);
    pod->meta.uid = pod->meta.name + "-uid";
    pod->meta.labels["asterism.dev/live"] = "true";
    pod->phase = phase;
    pod->pinned_node_name = "node-" + std::to_string(block);
    pod->node_name = bound ? pod->pinned_node_name : "";
    pods_[pod->meta.name] = {
        .pod = pod, .mark = {job_.meta.uid, block * 8, epoch}, .first_seen = seen_.steady_now};
    return *pod;
  }

  void AddAllPods(const std::string& phase, bool bound = true) {
    for (int64_t i = 0; i < 4; ++i) {
      AddPod(i, phase, bound);
    }
  }

  void Set(std::string_view type) {
    SetCondition(status_.conditions, {.type = type, .status = "True", .reason = "Test"}, seen_.now);
  }

  std::string ConditionReason(const TrainingJobStatus& status, std::string_view type) {
    const kube::Condition* condition = kube::FindCondition(status.conditions, type);
    return condition == nullptr ? "absent" : condition->status + "/" + condition->reason;
  }

  TrainingJob job_;
  TrainingJobStatus status_;
  std::vector<scheduler::RankBlock> blocks_;
  std::map<std::string, JobPod> pods_;
  std::map<std::string, base::SteadyTime> creating_;
  std::map<std::string, bool> deleting_;
  std::map<std::string, CreateError> create_errors_;
  std::set<RankAndEpoch> succeeded_;
  std::set<std::string> gone_;
  std::set<std::string> not_ready_;
  JobObservation seen_;
};

// What launchers told, by the name of the pod.
class ReportedJobTest : public JobReconcilerTest {
 protected:
  ReportedJobTest() {
    Place();
    AddAllPods("Running");
    Set(kBound);
    Set(kRunning);
    status_.start_time = seen_.now;
    seen_.report_of = [this](const kube::Pod& pod) -> const WorkerReport* {
      const auto found = reports_.find(pod.meta.name);
      return found == reports_.end() ? nullptr : &found->second;
    };
  }
  WorkerReport& ReportOf(int64_t block) { return reports_[PodName(job_.meta, block * 8, 1)]; }
  void Pass(absl::Duration time) {
    seen_.now += time;
    seen_.steady_now = seen_.steady_now + time;
  }
  std::map<std::string, WorkerReport> reports_;
};

TEST_F(JobReconcilerTest, AnImageThatCannotBeHadIsToldWithItsRank) {
  Place();
  AddAllPods("Pending");
  auto stuck = std::make_shared<kube::Pod>(*pods_.at(PodName(job_.meta, 16, 1)).pod);
  stuck->waiting = {{.name = "trainer", .reason = "ErrImagePull", .message = "no such image"}};
  pods_.at(PodName(job_.meta, 16, 1)).pod = stuck;
  JobDecision decision = Decide();
  EXPECT_EQ(ConditionReason(decision.status, kRunning), "False/ErrImagePull");
  const kube::Condition* running = kube::FindCondition(decision.status.conditions, kRunning);
  EXPECT_THAT(running->message, HasSubstr("rank 16"));
  EXPECT_THAT(running->message, HasSubstr("no such image"));
  status_ = decision.status;
  EXPECT_THAT(Decide().events, IsEmpty()) << "an event is told on change only";
  auto mended = std::make_shared<kube::Pod>(*stuck);
  mended->waiting.clear();
  pods_.at(PodName(job_.meta, 16, 1)).pod = mended;
  EXPECT_EQ(ConditionReason(Decide().status, kRunning), "False/Starting");
}

TEST_F(ReportedJobTest, AnEndThatOnlyTheLauncherHasSeenRestartsTheGang) {
  ReportOf(2).exit = ProcessEnd{.time = seen_.now, .exit_code = 5};
  const JobDecision decision = Decide();
  ASSERT_TRUE(decision.restart);
  EXPECT_EQ(decision.restart->cause.rank, 16);
  EXPECT_EQ(decision.restart->cause.exit_code, 5);
}

TEST_F(ReportedJobTest, ProgressIsToldEveryTenSeconds) {
  ReportOf(0).progress = WorkerProgress{.step = 7, .step_time_milliseconds = 812};
  status_ = Decide().status;
  ASSERT_TRUE(status_.progress);
  EXPECT_EQ(status_.progress->step, 7);
  ReportOf(0).progress->step = 8;
  Pass(absl::Seconds(4));
  JobDecision decision = Decide();
  EXPECT_EQ(decision.status.progress->step, 7);
  EXPECT_EQ(decision.look_again, absl::Seconds(6));
  Pass(absl::Seconds(6));
  EXPECT_EQ(Decide().status.progress->step, 8);
}

TEST_F(ReportedJobTest, AFileThatCannotBeReadIsAWarning) {
  ReportOf(1).progress_problem = "/tmp/p: is no regular file";
  JobDecision decision = Decide();
  EXPECT_EQ(ConditionReason(decision.status, kProgressUnreadable), "True/NotReadable");
  status_ = decision.status;
  ReportOf(1).progress_problem.clear();
  EXPECT_EQ(ConditionReason(Decide().status, kProgressUnreadable), "absent");
}

TEST_F(ReportedJobTest, AHangIsTakenForOneAfterTheDeadlineOnly) {
  job_.spec.progress_deadline_seconds = 60;
  seen_.agent_heard = [this](std::string_view) { return seen_.steady_now; };
  // Without any report nobody knows.
  Pass(absl::Hours(1));
  EXPECT_FALSE(Decide().restart);
  ReportOf(0).speaks_since = seen_.steady_now;
  EXPECT_EQ(Decide().look_again, absl::Seconds(60));
  Pass(absl::Seconds(30));
  ReportOf(0).progress = WorkerProgress{.step = 3};
  ReportOf(0).progressed = seen_.steady_now;
  Pass(absl::Seconds(59));
  EXPECT_FALSE(Decide().restart);
  Pass(absl::Seconds(1));
  const JobDecision decision = Decide();
  ASSERT_TRUE(decision.restart);
  EXPECT_EQ(decision.restart->cause.reason, "AppError");
  EXPECT_THAT(decision.restart->cause.message, HasSubstr("no progress for 60 s"));
  EXPECT_THAT(decision.restart->cause.message, HasSubstr("step 3"));
}

TEST_F(ReportedJobTest, NobodyHangsWhileItsAgentIsAway) {
  job_.spec.progress_deadline_seconds = 60;
  base::SteadyTime heard = seen_.steady_now;
  seen_.agent_heard = [&](std::string_view) { return heard; };
  ReportOf(0).progress = WorkerProgress{.step = 3};
  ReportOf(0).progressed = seen_.steady_now;
  ReportOf(0).speaks_since = seen_.steady_now;
  // Of a rank that tells no step: it does not know how far the job is.
  ReportOf(1).speaks_since = seen_.steady_now;
  EXPECT_EQ(ConditionReason(Decide().status, kProgressUnreadable), "absent");
  // The agent says nothing, and its stream has not ended yet.
  Pass(absl::Minutes(5));
  JobDecision decision = Decide();
  EXPECT_FALSE(decision.restart);
  EXPECT_GT(decision.look_again, absl::ZeroDuration());
  // Its stream has ended.
  ReportOf(0).speaks_since.reset();
  decision = Decide();
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(ConditionReason(decision.status, kProgressUnreadable), "True/NotHeard");
  // It is back, and the deadline counts anew.
  ReportOf(0).speaks_since = heard = seen_.steady_now;
  decision = Decide();
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(ConditionReason(decision.status, kProgressUnreadable), "absent");
  Pass(absl::Seconds(61));
  heard = seen_.steady_now;
  EXPECT_TRUE(Decide().restart);
}

TEST_F(ReportedJobTest, ARankThatHasEndedIsNotMissed) {
  job_.spec.progress_deadline_seconds = 60;
  ReportOf(0).progress = WorkerProgress{.step = 3};
  ReportOf(0).exit = ProcessEnd{.time = seen_.now, .exit_code = 0};
  Pass(absl::Minutes(5));
  const JobDecision decision = Decide();
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(ConditionReason(decision.status, kProgressUnreadable), "absent");
}

TEST_F(JobReconcilerTest, AnAdmittedJobGoesToTheGangQueue) {
  const JobDecision decision = Decide();
  EXPECT_TRUE(decision.want_place);
  EXPECT_THAT(decision.create, IsEmpty());
  EXPECT_EQ(ConditionReason(decision.status, kAdmitted), "True/Admitted");
  EXPECT_EQ(ConditionReason(decision.status, kPlanned), "False/NoModel");
  EXPECT_EQ(decision.status.effective.pods, 4);
  EXPECT_EQ(decision.status.state, "Admitted");
  EXPECT_EQ(decision.status.observed_generation, 3);
}

TEST_F(JobReconcilerTest, ARefusedJobWaitsWithTheReasonAndHoldsNothing) {
  seen_.refusal = Refusal{"NotAllowed", "spec.queue: there is no Queue \"x\""};
  const JobDecision decision = Decide();
  EXPECT_FALSE(decision.want_place);
  EXPECT_EQ(decision.status.waiting.reason, "NotAllowed");
  EXPECT_EQ(ConditionReason(decision.status, kAdmitted), "False/NotAllowed");
  EXPECT_THAT(decision.events, SizeIs(1));
  status_ = decision.status;
  EXPECT_THAT(Decide().events, IsEmpty()) << "an event is told on change only";
}

TEST_F(JobReconcilerTest, NothingIsQueuedBeforeTheDryRunHasAnswered) {
  seen_.admission_pending = true;
  EXPECT_FALSE(Decide().want_place);
}

TEST_F(JobReconcilerTest, APlacedJobCreatesEveryMissingPodOnce) {
  Place();
  AddPod(1, "Pending", false);
  creating_[PodName(job_.meta, 16, 1)] = seen_.steady_now;
  const JobDecision decision = Decide();
  EXPECT_TRUE(decision.want_service);
  EXPECT_THAT(decision.create, ElementsAre(0, 3));
}

TEST_F(JobReconcilerTest, BoundAndRunningFollowThePods) {
  Place();
  AddAllPods("Pending");
  JobDecision decision = Decide();
  EXPECT_TRUE(decision.status.Is(kBound));
  EXPECT_FALSE(decision.status.Is(kRunning));
  EXPECT_EQ(decision.status.state, "Starting");
  EXPECT_EQ(decision.status.pods.bound, 4);

  pods_.clear();
  AddAllPods("Running");
  status_ = decision.status;
  decision = Decide();
  EXPECT_TRUE(decision.status.Is(kRunning));
  EXPECT_EQ(decision.status.state, "Running");
  EXPECT_TRUE(decision.status.start_time.has_value());
}

TEST_F(JobReconcilerTest, AllRanksMustSucceed) {
  Place();
  Set(kBound);
  AddAllPods("Succeeded");
  AddPod(2, "Running");
  EXPECT_FALSE(Decide().status.Is(kSucceeded));
  AddPod(2, "Succeeded");
  const JobDecision decision = Decide();
  EXPECT_TRUE(decision.status.Is(kSucceeded));
  EXPECT_TRUE(decision.status.completion_time.has_value());
  EXPECT_THAT(decision.remove, IsEmpty()) << "pods go only when the end is on record";
}

TEST_F(JobReconcilerTest, RankZeroAloneMaySucceed) {
  job_.spec.success_policy = SuccessPolicy::kRankZero;
  Place();
  Set(kBound);
  AddAllPods("Running");
  AddPod(0, "Succeeded");
  JobDecision decision = Decide();
  EXPECT_TRUE(decision.status.Is(kSucceeded));
  status_ = decision.status;
  decision = Decide();
  EXPECT_THAT(decision.remove, SizeIs(3))
      << "the others are ended, the ended pod stays for its logs";
  EXPECT_TRUE(decision.release);
}

TEST_F(JobReconcilerTest, AFailedPodRestartsTheGangAndCounts) {
  Place();
  Set(kBound);
  AddAllPods("Running");
  kube::Pod& failed = AddPod(2, "Failed");
  failed.terminated.push_back({.name = "trainer", .exit_code = 3, .finished_at = seen_.now});
  const JobDecision decision = Decide();
  ASSERT_TRUE(decision.restart.has_value());
  EXPECT_EQ(decision.restart->cause.rank, 16);
  EXPECT_EQ(decision.restart->cause.exit_code, 3);
  EXPECT_EQ(decision.status.restarts.count, 1);
  EXPECT_EQ(decision.status.restarts.counted, 1);
  EXPECT_EQ(ConditionReason(decision.status, kBound), "False/Restarting");
  EXPECT_THAT(decision.remove, IsEmpty());
}

TEST_F(JobReconcilerTest, RestartsHaveALimit) {
  Place();
  Set(kBound);
  AddAllPods("Running");
  AddPod(2, "Failed")
      .terminated.push_back({.name = "trainer", .exit_code = 3, .finished_at = seen_.now});
  status_.restarts = {.count = 3, .counted = 3};
  status_.restarts.last = FirstCause{.time = seen_.now - kSecond};
  const JobDecision decision = Decide();
  EXPECT_FALSE(decision.restart.has_value());
  EXPECT_TRUE(decision.status.Is(kFailed));
  EXPECT_EQ(decision.status.state, "Failed");
}

TEST_F(JobReconcilerTest, AVanishedPodOfABoundGangIsAFailure) {
  Place();
  Set(kBound);
  AddAllPods("Running");
  pods_.erase(PodName(job_.meta, 8, 1));
  const JobDecision decision = Decide();
  ASSERT_TRUE(decision.restart.has_value());
  EXPECT_EQ(decision.restart->cause.reason, "Preempted");
}

TEST_F(JobReconcilerTest, AVanishedPodOfAGangThatIsNotBoundIsCreatedAgain) {
  Place();
  AddAllPods("Pending", false);
  pods_.erase(PodName(job_.meta, 8, 1));
  const JobDecision decision = Decide();
  EXPECT_FALSE(decision.restart.has_value());
  EXPECT_THAT(decision.create, ElementsAre(1));
}

TEST_F(JobReconcilerTest, ADeletedNodeIsANodeFailureOfItsBoundPod) {
  Place();
  Set(kBound);
  AddAllPods("Running");
  gone_.insert("node-3");
  const JobDecision decision = Decide();
  ASSERT_TRUE(decision.restart.has_value());
  EXPECT_EQ(decision.restart->cause.reason, "NodeFailure");
  EXPECT_EQ(decision.restart->cause.rank, 24);
  EXPECT_EQ(decision.status.restarts.counted, 0);
}

TEST_F(JobReconcilerTest, OldPodsEndBeforeTheNewEpochStarts) {
  Place(/*epoch=*/2);
  AddPod(0, "Running", true, /*epoch=*/1);
  JobDecision decision = Decide();
  EXPECT_THAT(decision.remove, SizeIs(1));
  EXPECT_THAT(decision.create, IsEmpty());
  pods_.clear();
  decision = Decide();
  EXPECT_THAT(decision.create, SizeIs(4));
}

TEST_F(JobReconcilerTest, OldPodsOfALostNodeAreNotWaitedFor) {
  Place(/*epoch=*/2);
  AddPod(0, "Running", true, /*epoch=*/1);
  gone_.insert("node-0");
  blocks_[0].node = "node-9";
  const JobDecision decision = Decide();
  ASSERT_THAT(decision.remove, SizeIs(1));
  EXPECT_TRUE(decision.remove[0].force);
  EXPECT_THAT(decision.create, SizeIs(4));
}

TEST_F(JobReconcilerTest, TheFirstCauseIsKeptForItsLogsWithoutItsName) {
  Place(/*epoch=*/2);
  AddPod(1, "Failed", true, /*epoch=*/1);
  status_.restarts.last = FirstCause{.pod = PodName(job_.meta, 8, 1)};
  const JobDecision decision = Decide();
  EXPECT_THAT(decision.remove, IsEmpty());
  EXPECT_THAT(decision.supersede, ElementsAre(PodName(job_.meta, 8, 1)));
  EXPECT_THAT(decision.create, SizeIs(4));
}

TEST_F(JobReconcilerTest, TheBackOffOfARestartIsKept) {
  Place(/*epoch=*/2);
  seen_.start_after = seen_.steady_now + absl::Seconds(7);
  const JobDecision decision = Decide();
  EXPECT_THAT(decision.create, IsEmpty());
  EXPECT_EQ(decision.look_again, absl::Seconds(7));
}

TEST_F(JobReconcilerTest, APodThatStaysUnschedulableMovesItsBlock) {
  Place();
  AddAllPods("Pending");
  kube::Pod& pod = AddPod(1, "Pending", false);
  pod.conditions.push_back({.type = "PodScheduled",
                            .status = "False",
                            .reason = "Unschedulable",
                            .message = "Insufficient cpu"});
  pods_[pod.meta.name].unschedulable_since = seen_.steady_now;
  EXPECT_THAT(Decide().moves, IsEmpty()) << "kube-scheduler may be about to try again";
  seen_.steady_now = seen_.steady_now + absl::Seconds(4);
  const JobDecision decision = Decide();
  ASSERT_THAT(decision.moves, SizeIs(1));
  EXPECT_EQ(decision.moves[0].block, 1u);
  EXPECT_EQ(decision.moves[0].message, "Insufficient cpu");
}

TEST_F(JobReconcilerTest, APodThatIsNotBoundInTimeMovesItsBlock) {
  Place();
  AddAllPods("Pending");
  AddPod(3, "Pending", false);
  JobDecision decision = Decide();
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.look_again, absl::Seconds(30));
  seen_.steady_now = seen_.steady_now + absl::Seconds(31);
  decision = Decide();
  ASSERT_THAT(decision.moves, SizeIs(1));
  EXPECT_THAT(decision.moves[0].message, HasSubstr("30s"));
}

TEST_F(JobReconcilerTest, ABlockWhoseNodeWentAwayMovesBeforeItsPodExists) {
  Place();
  gone_.insert("node-2");
  const JobDecision decision = Decide();
  ASSERT_THAT(decision.moves, SizeIs(1));
  EXPECT_EQ(decision.moves[0].block, 2u);
  EXPECT_THAT(decision.create, IsEmpty());
}

TEST_F(JobReconcilerTest, ARefusalAfterTheLastBindMovesTheBlockAndRestartsNothing) {
  Place();
  AddAllPods("Pending");
  status_ = Decide().status;
  ASSERT_TRUE(status_.Is(kBound));
  kube::Pod& pod = AddPod(1, "Failed");
  pod.reason = "OutOfnvidia.com/gpu";
  JobDecision decision = Decide();
  ASSERT_THAT(decision.moves, SizeIs(1));
  EXPECT_EQ(decision.moves[0].block, 1u);
  EXPECT_FALSE(decision.restart.has_value());
  EXPECT_EQ(ConditionReason(decision.status, kBound), "False/Moving");

  // As CarryOutMoves leaves it, before the pod of the new home is created.
  status_ = decision.status;
  status_.placement.epoch = 2;
  blocks_[1] = {8, "node-7", 2};
  status_.placement.runs = RunsOf(blocks_, 8, [](std::string_view) { return "sn-0"; });
  decision = Decide();
  EXPECT_FALSE(decision.restart.has_value());
  EXPECT_THAT(decision.create, ElementsAre(1u));
}

TEST_F(JobReconcilerTest, SparesGoWithThePlacement) {
  Place();
  status_.placement.spares = {{{"node-8", "node-9"}, 1}, {{"node-7"}, 2}};
  const std::vector<scheduler::Spare> spares = SparesOf(status_.placement);
  EXPECT_THAT(spares, ElementsAre(scheduler::Spare{"node-8", 1}, scheduler::Spare{"node-9", 1},
                                  scheduler::Spare{"node-7", 2}));
  EXPECT_EQ(SpareRunsOf(spares), status_.placement.spares);
  AddAllPods("Running");
  seen_.shape.spares = 3;
  EXPECT_EQ(Decide().status.effective.spares, 3);
  EXPECT_EQ(Decide().status.placement.spares.size(), 2u);
  job_.spec.suspend = true;
  EXPECT_THAT(Decide().status.placement.spares, IsEmpty());
}

TEST_F(JobReconcilerTest, SuspendTakesEverythingBack) {
  Place();
  Set(kBound);
  AddAllPods("Running");
  job_.spec.suspend = true;
  JobDecision decision = Decide();
  EXPECT_THAT(decision.remove, SizeIs(4));
  EXPECT_TRUE(decision.release);
  EXPECT_EQ(decision.status.state, "Suspended");
  EXPECT_THAT(decision.status.placement.runs, IsEmpty());
  EXPECT_EQ(decision.status.placement.epoch, 1) << "an epoch only rises";

  status_ = decision.status;
  blocks_.clear();
  pods_.clear();
  job_.spec.suspend = false;
  decision = Decide();
  EXPECT_TRUE(decision.want_place);
  EXPECT_EQ(ConditionReason(decision.status, kSuspended), "False/NotSuspended");
}

TEST_F(JobReconcilerTest, ADeletedJobTakesItsPodsDown) {
  Place();
  AddAllPods("Running");
  job_.meta.deletion_time = seen_.now;
  const JobDecision decision = Decide();
  EXPECT_THAT(decision.remove, SizeIs(4));
  EXPECT_TRUE(decision.release);
  EXPECT_FALSE(decision.want_place);
}

TEST_F(JobReconcilerTest, TheActiveDeadlineCountsFromPlaced) {
  job_.spec.active_deadline_seconds = 60;
  Place();
  Set(kBound);
  AddAllPods("Running");
  EXPECT_FALSE(Decide().status.Is(kFailed));
  seen_.since_placed = absl::Seconds(61);
  const JobDecision decision = Decide();
  EXPECT_EQ(ConditionReason(decision.status, kFailed), "True/DeadlineExceeded");
}

TEST_F(JobReconcilerTest, TheTimeToLiveCountsFromTheEnd) {
  job_.spec.ttl_seconds_after_finished = 5;
  Set(kSucceeded);
  status_.completion_time = seen_.now;
  JobDecision decision = Decide();
  EXPECT_FALSE(decision.delete_job);
  EXPECT_EQ(decision.look_again, absl::Seconds(5));
  seen_.since_completed = absl::Seconds(5);
  EXPECT_TRUE(Decide().delete_job);
}

TEST_F(JobReconcilerTest, TheSameObservationGivesTheSameDecision) {
  Place();
  AddAllPods("Running");
  status_ = Decide().status;
  const JobDecision again = Decide();
  EXPECT_EQ(again.status, status_);
  EXPECT_THAT(again.events, IsEmpty());
  EXPECT_THAT(again.create, IsEmpty());
  EXPECT_THAT(again.remove, IsEmpty());
}

TEST(PlacementRuns, BlocksSurviveTheStatus) {
  const std::vector<scheduler::RankBlock> blocks = {
      {0, "a-1", 1}, {8, "a-2", 1}, {16, "b-1", 2}, {24, "b-1", 2}, {32, "a-3", 1}};
  PlacementStatus placement;
  placement.runs = RunsOf(blocks, 8, [](std::string_view node) { return std::string(1, node[0]); });
  EXPECT_THAT(placement.runs, SizeIs(3));
  const std::vector<scheduler::RankBlock> back = BlocksOf(placement);
  ASSERT_THAT(back, SizeIs(5));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(back[i].first_rank, blocks[i].first_rank);
    EXPECT_EQ(back[i].node, blocks[i].node);
    EXPECT_EQ(back[i].epoch, blocks[i].epoch);
  }
}

TEST_F(JobReconcilerTest, ADrainedQueueTakesItsJobBack) {
  Place();
  AddAllPods("Running");
  seen_.drained = Refusal{"QueueStopped", "Queue research: stopped"};
  const JobDecision decision = Decide();
  EXPECT_THAT(decision.remove, SizeIs(4));
  EXPECT_TRUE(decision.release);
  EXPECT_FALSE(decision.want_place) << "the pods must be gone from the record first";
  EXPECT_THAT(decision.status.placement.runs, IsEmpty());
  EXPECT_EQ(decision.status.waiting.reason, "QueueStopped");
  EXPECT_EQ(ConditionReason(decision.status, kPlaced), "False/QueueStopped");
}

TEST_F(JobReconcilerTest, AWarningGoesWithItsCause) {
  seen_.ignored_fields = "not available yet: spec.movable";
  JobDecision decision = Decide();
  EXPECT_EQ(ConditionReason(decision.status, kFieldsIgnored), "True/NotAvailable");
  status_ = decision.status;
  seen_.ignored_fields.clear();
  decision = Decide();
  EXPECT_EQ(kube::FindCondition(decision.status.conditions, kFieldsIgnored), nullptr);
}

// Its address would be published as its rank's as long as the kubelet is away.
TEST_F(JobReconcilerTest, APodThatMayLingerGivesUpItsNameBeforeTheNewOnesStart) {
  Place(/*epoch=*/2);
  kube::Pod& old = AddPod(0, "Running", true, /*epoch=*/1);
  not_ready_.insert("node-0");
  blocks_[0].node = "node-9";
  JobDecision decision = Decide();
  EXPECT_THAT(decision.supersede, ElementsAre(old.meta.name));
  EXPECT_THAT(decision.create, IsEmpty());
  old.meta.labels.clear();
  decision = Decide();
  EXPECT_THAT(decision.supersede, IsEmpty());
  EXPECT_THAT(decision.create, SizeIs(4));
}

TEST_F(JobReconcilerTest, AGangWhosePodsCannotBeMadeIsTakenBackWhole) {
  Place();
  AddPod(0, "Running");
  create_errors_["llama-abcde-r8-e1"] = {seen_.steady_now, "failed calling webhook"};
  EXPECT_FALSE(Decide().withdraw);
  seen_.steady_now = seen_.steady_now + seen_.bind_deadline;
  const JobDecision decision = Decide();
  ASSERT_TRUE(decision.withdraw);
  EXPECT_EQ(decision.withdraw->reason, "BindFailed");
  EXPECT_THAT(decision.withdraw->message, HasSubstr("failed calling webhook"));
  EXPECT_THAT(decision.create, IsEmpty());
}

TEST_F(JobReconcilerTest, PodsThatRunNeedNothingThatBuildsThem) {
  Place();
  AddAllPods("Running");
  seen_.can_build = false;
  seen_.refusal = Refusal{"InvalidSpec", "spec.priorityClassName: there is no such class"};
  EXPECT_FALSE(Decide().withdraw);
  pods_.erase(PodName(job_.meta, 8, 1));
  const JobDecision decision = Decide();
  ASSERT_TRUE(decision.withdraw) << "a missing pod cannot be made";
  EXPECT_EQ(decision.withdraw->message, seen_.refusal->message);
}

TEST_F(JobReconcilerTest, ABlockThatSucceededIsDoneWhateverBecomesOfItsPod) {
  Place();
  AddAllPods("Running");
  Set(kBound);
  Set(kRunning);
  pods_.erase(PodName(job_.meta, 24, 1));
  succeeded_.insert({24, 1});
  JobDecision decision = Decide();
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.create, IsEmpty());
  EXPECT_EQ(decision.status.pods.succeeded, 1);
  for (auto& [name, job_pod] : pods_) {
    auto pod = std::make_shared<kube::Pod>(*job_pod.pod);
    pod->phase = "Succeeded";
    job_pod.pod = pod;
  }
  EXPECT_TRUE(Decide().status.Is(kSucceeded));
}

TEST_F(JobReconcilerTest, APodThatWaitsForItsTurnIsNotStuck) {
  Place();
  AddAllPods("Pending", /*bound=*/false);
  seen_.steady_now = seen_.steady_now + seen_.bind_deadline;
  seen_.last_bind = seen_.steady_now + -kSecond;
  EXPECT_THAT(Decide().moves, IsEmpty()) << "others are being bound";
  seen_.steady_now = seen_.steady_now + 10 * seen_.bind_deadline;
  seen_.last_bind = seen_.steady_now + -kSecond;
  EXPECT_THAT(Decide().moves, SizeIs(4)) << "but not for ever";
}

}  // namespace
}  // namespace asterism::operators
