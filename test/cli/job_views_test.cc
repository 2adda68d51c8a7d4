// explain, queue and top: what people and programs see of jobs and queues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "cli/explain_view.h"
#include "cli/job_outcome.h"
#include "cli/queue_view.h"
#include "cli/top_view.h"
#include "cli/topology_tree.h"
#include "test/cli/golden.h"
#include "test/cli/pages.h"
#include "test/source_tree.h"

namespace asterism::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Explanation ExplanationOf(const json& job) {
  return {.job = Parsed(job),
          .queue = QueueRowOf(ParsedQueue(TestQueue("research", 2048, 2048))),
          .now = TestNow()};
}

std::string Explained(const json& job, const ExplainViewOptions& options = {}) {
  return Print(ExplainLines(ExplanationOf(job), options), {.width = options.width});
}

json RestartedJob() {
  json job = RunningJob("llama", 2);
  job["status"]["restarts"] = {{"count", 3},
                               {"counted", 1},
                               {"last",
                                {{"time", "2026-11-30T10:05:00.000000Z"},
                                 {"reason", "AppError"},
                                 {"message", "CUDA error: an illegal memory access\nwas met"},
                                 {"rank", 17},
                                 {"pod", "llama-abcde-r16-e1"},
                                 {"node", "gpu-0002"},
                                 {"exitCode", 1}}}};
  job["status"]["conditions"].push_back(
      TestCondition("CommandSuspect", "OneProcess",
                    "command starts python but processesPerPod is 8: nobody starts the other "
                    "ranks; use torchrun or processesPerPod: 1"));
  return job;
}

json FailedJob() {
  json job = TestJob("broken", 8);
  job["status"]["state"] = "Failed";
  job["status"]["completionTime"] = "2026-11-30T10:10:00Z";
  job["status"]["conditions"] = nlohmann::json::array(
      {TestCondition("Failed", "RestartsExhausted", "restarted 3 times, as often as allowed")});
  return job;
}

json SucceededJob(const std::string& name, int64_t gpus) {
  json job = TestJob(name, gpus);
  job["status"]["state"] = "Succeeded";
  job["status"]["conditions"] = json::array({TestCondition("Succeeded", "Completed", "")});
  return job;
}

TEST(ExplainView, AWaitingJobSaysWhyAndWhatWouldHelp) {
  ExpectGolden("explain-waiting", Explained(WaitingJob("llama", 512, "NoCapacity", 3)));
  ExpectGolden("explain-waiting-60",
               Explained(WaitingJob("llama", 512, "NoCapacity", 3), {.width = 60}));
}

TEST(ExplainView, ARunningJobSaysWhere) {
  ExpectGolden("explain-running", Explained(RunningJob("llama", 2)));
}

json PlannedJob() {
  json job = RunningJob("llama", 2);
  job["spec"]["model"] = {{"preset", "llama-3-8b"}};
  json& plan = job["status"]["plan"];
  plan["gpuProduct"] = "NVIDIA-H100-80GB-HBM3";
  plan["gpus"] = 16;
  plan["degrees"] = {{"tensor", 2}, {"pipeline", 1}, {"context", 1}, {"data", 8}};
  plan["microBatchSize"] = 2;
  plan["stepTimeMilliseconds"] = {{"value", 1570.25}, {"low", 1335}, {"high", 1806}};
  plan["memoryBytes"] = {
      {"allocated", 60000000000}, {"reserved", 66000000000}, {"device", 73500000000}};
  plan["boundBy"] = "memory.fits: without recompute 1.2 s, but 91.0 GiB";
  plan["arguments"] = {"--tensor-model-parallel-size", "2", "--micro-batch-size", "2"};
  plan["tablesVersion"] = "2026-11-30";
  return job;
}

TEST(ExplainView, AJobWithAModelShowsItsPlan) {
  const std::string text = Explained(PlannedJob(), {.wide = true});
  EXPECT_THAT(text, HasSubstr("  plan            tensor 2, data 8, micro-batch 2 on 16 GPUs "
                              "(NVIDIA-H100-80GB-HBM3): 1.57 s a step (1.335 to 1.806), 68.5 GiB "
                              "of each GPU"));
  EXPECT_THAT(text, HasSubstr("bound by memory.fits"));
  EXPECT_THAT(text, HasSubstr("--tensor-model-parallel-size 2 --micro-batch-size 2"));
  const nlohmann::ordered_json plan = ExplainJson(ExplanationOf(PlannedJob()))["plan"];
  EXPECT_EQ(plan["degrees"]["data"], 8);
  EXPECT_EQ(plan["arguments"].size(), 4u);
}

TEST(ExplainView, LongPlacementsAreCutUnlessWide) {
  ExpectGolden("explain-large", Explained(RunningJob("llama", 40)));
  EXPECT_THAT(Explained(RunningJob("llama", 40), {.wide = true}), HasSubstr("gpu-[0156-0159]"));
}

TEST(ExplainView, RestartsShowTheFirstCauseAndWarningsStandBelow) {
  ExpectGolden("explain-restarted", Explained(RestartedJob()));
}

TEST(ExplainView, EndedAndUntouchedJobs) {
  ExpectGolden("explain-failed", Explained(FailedJob()));
  json fresh = TestJob("fresh", 8);
  fresh.erase("status");
  ExpectGolden("explain-fresh", Explained(fresh));
}

TEST(ExplainView, WithoutTheRightToReadQueuesTheRestIsShown) {
  Explanation explanation = ExplanationOf(WaitingJob("llama", 512, "NoCapacity", 3));
  explanation.queue.reset();
  explanation.queue_note = "you may not read its quota (get queues.asterism.dev)";
  EXPECT_THAT(Print(ExplainLines(explanation, {}), {}), HasSubstr("research: you may not read"));
}

TEST(ExplainView, JsonHasTheDocumentedFields) {
  ExpectGolden(
      "explain-waiting-json",
      ExplainJson(ExplanationOf(WaitingJob("llama", 512, "NoCapacity", 3))).dump(1) + "\n");
  ExpectGolden("explain-running-json", ExplainJson(ExplanationOf(RestartedJob())).dump(1) + "\n");
}

TEST(JobOutcome, OutcomesHaveTheirExitCodes) {
  const auto code = [](const json& job) { return ExitCodeOf(OutcomeOf(Parsed(job))); };
  EXPECT_EQ(code(RunningJob("a", 1)), 0);
  EXPECT_EQ(code(FailedJob()), 4);
  for (const char* reason : {"NoCapacity", "Fragmented", "QuotaExceeded", "BehindInQueue",
                             "LevelUnavailable", "QueueStopped", "BindFailed", "Preempted"}) {
    EXPECT_EQ(code(WaitingJob("a", 8, reason, 1)), 3) << reason;
  }
  for (const char* reason : {"NeverFits", "InvalidSpec", "InvalidTemplate", "NotAllowed"}) {
    EXPECT_EQ(code(WaitingJob("a", 8, reason, 0)), 4) << reason;
  }
  json job = TestJob("a", 8);
  EXPECT_EQ(code(job), 3);
  EXPECT_EQ(code(SucceededJob("a", 8)), 0);
  job["status"]["state"] = "Suspended";
  EXPECT_EQ(code(job), 3);
}

QueuePicture MixedPicture() {
  json stopped = TestQueue("archive", 0, 64);
  stopped["spec"]["stopPolicy"] = "Hold";
  json broken = TestQueue("vision", 8, 64);
  broken["status"]["conditions"][0]["status"] = "False";
  broken["status"]["conditions"][0]["message"] = "parent \"gone\" does not exist";
  QueuePicture picture{.now = TestNow()};
  for (const json& queue : {TestQueue("research", 2048, 2048), stopped, broken}) {
    picture.queues.push_back(QueueRowOf(ParsedQueue(queue)));
  }
  picture.waiting = WaitingJobs(
      {Parsed(WaitingJob("never", 65536, "NeverFits", 0)),
       Parsed(WaitingJob("second", 512, "NoCapacity", 2)), Parsed(RunningJob("runs", 1)),
       Parsed(FailedJob()), Parsed(WaitingJob("first", 1024, "QuotaExceeded", 1))},
      "");
  return picture;
}

TEST(QueueView, QueuesAndTheWaitingJobsInOrder) {
  ExpectGolden("queue", Print(QueueLines(MixedPicture(), {}), {}));
  ExpectGolden("queue-wide-100", Print(QueueLines(MixedPicture(), {.wide = true}), {.width = 100}));
  ExpectGolden("queue-json", QueueJson(MixedPicture()).dump(1) + "\n");
}

TEST(QueueView, EmptyClustersSaySo) {
  const std::string text = Print(QueueLines({.now = TestNow()}, {}), {});
  EXPECT_THAT(text, HasSubstr("there is no Queue"));
  EXPECT_THAT(text, HasSubstr("no job waits"));
}

TEST(QueueView, OneQueueShowsItsJobsOnly) {
  EXPECT_TRUE(WaitingJobs({Parsed(WaitingJob("a", 8, "NoCapacity", 1))}, "other").empty());
}

std::vector<operators::TrainingJob> MixedJobs() {
  return {Parsed(FailedJob()), Parsed(WaitingJob("waits", 512, "NoCapacity", 1)),
          Parsed(SucceededJob("done", 8)), Parsed(RestartedJob()),
          Parsed(WaitingJob("huge", 65536, "NeverFits", 0))};
}

TEST(TopView, RunningJobsFirst) {
  ExpectGolden("top", Print(TopLines(MixedJobs(), {.now = TestNow()}), {}));
  ExpectGolden(
      "top-wide-all",
      Print(TopLines(MixedJobs(), {.now = TestNow(), .all_namespaces = true, .wide = true}),
            {.width = 120}));
  ExpectGolden("top-json", TopJson(MixedJobs()).dump(1) + "\n");
}

void CollectFields(const nlohmann::ordered_json& value, std::set<std::string>& fields) {
  for (const auto& [key, item] : value.items()) {
    if (value.is_object()) {
      fields.insert(key);
    }
    if (item.is_structured()) {
      CollectFields(item, fields);
    }
  }
}

TEST(Documentation, NamesEveryFieldOfTheJson) {
  std::ifstream file(asterism::test_paths::SourceTree() + "/docs/kubectl-asterism.md");
  std::stringstream text;
  text << file.rdbuf();
  std::set<std::string> fields;
  CollectFields(ExplainJson(ExplanationOf(WaitingJob("llama", 512, "NoCapacity", 3))), fields);
  CollectFields(ExplainJson(ExplanationOf(RestartedJob())), fields);
  CollectFields(QueueJson(MixedPicture()), fields);
  CollectFields(TopJson(MixedJobs()), fields);
  const auto tree = ParseTopologyTree(TestTopology({"node", "cluster"}, 2, {}).Text());
  CollectFields(TopologyJson(*tree, std::nullopt), fields);
  EXPECT_GT(fields.size(), 50u);
  for (const std::string& field : fields) {
    EXPECT_TRUE(text.str().find("`" + field + "`") != std::string::npos ||
                text.str().find("`" + field + "[]`") != std::string::npos)
        << field;
  }
}

TEST(TopView, LongListsFitTheTerminal) {
  for (const size_t rows : {1u, 3u, 5u, 7u, 8u, 9u}) {
    const size_t lines = TopLines(MixedJobs(), {.now = TestNow(), .rows_max = rows}).size();
    EXPECT_LE(lines, std::max<size_t>(rows, 4)) << rows;
  }
  ExpectGolden("top-7-rows", Print(TopLines(MixedJobs(), {.now = TestNow(), .rows_max = 7}), {}));
}

TEST(TopView, NoJobs) {
  EXPECT_EQ(Print(TopLines({}, {.now = TestNow()}), {}),
            "0 jobs: 0 placed on 0 GPUs, 0 waiting for 0, 0 ended\n");
}

}  // namespace
}  // namespace asterism::cli
