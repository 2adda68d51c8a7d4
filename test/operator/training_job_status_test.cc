#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/training_job.h"
#include "test/operator/job_texts.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

// The status as the API server would give it back.
absl::StatusOr<TrainingJob> Reread(const TrainingJobStatus& status) {
  json object = json::parse(JobText({{"gpus", 16}}));
  object["status"] = json::parse(StatusApplyBody({.name = "llama", .uid = "u"}, status))["status"];
  return ParseTrainingJob(object.dump());
}

TrainingJobStatus FullStatus() {
  const absl::Time start = absl::FromUnixSeconds(1767225600);
  TrainingJobStatus status;
  status.observed_generation = 2;
  status.conditions = {{.type = "Admitted",
                        .status = "True",
                        .observed_generation = 2,
                        .last_transition_time = start,
                        .reason = "QuotaReserved",
                        .message = ""},
                       {.type = "Placed",
                        .status = "False",
                        .last_transition_time = start,
                        .reason = "Fragmented",
                        .message = "16 GPUs are free, in 4 supernodes"}};
  status.state = "Running";
  status.start_time = start;
  status.completion_time = start + absl::Seconds(60);
  status.gpus = 16;
  status.selector = "asterism.dev/job-uid=u";
  status.placed = "2/2";
  status.effective = {.job_class = "Finetuning",
                      .gpus_per_pod = 8,
                      .gpu_product = "H200",
                      .processes_per_pod = 8,
                      .pods = 2};
  status.pods = {.desired = 2, .bound = 2, .running = 1, .succeeded = 0, .failed = 1};
  status.waiting = {.reason = "Fragmented",
                    .message = "no supernode has 16 free GPUs",
                    .queue_position = 3,
                    .nearest_change = "blockGpus: 8",
                    .predicted_start = absl::FromUnixSeconds(1767225660)};
  status.placement = {
      .epoch = 4,
      .digest = "abc",
      .levels = {{.level = "supernode", .domains = 1, .ring_cuts = 2, .ring_cuts_minimum = 1}},
      .runs = {{.domain = "sn-3",
                .nodes = {"gpu-0008", "gpu-0009"},
                .first_rank = 0,
                .ranks = 16,
                .epoch = 4}}};
  status.plan = {.spec_digest = "0123456789abcdef",
                 .cluster_digest = "fedcba9876543210",
                 .gpu_product = "H100",
                 .gpus = 16,
                 .degrees = {{"tensor", 2}, {"pipeline", 1}, {"context", 1}, {"data", 8}},
                 .micro_batch_size = 2,
                 .step_time_ms = {.value = 1570.125, .low = 1335, .high = 1806},
                 .allocated_bytes = 1,
                 .reserved_bytes = 2,
                 .device_bytes = 3,
                 .bound_by = "products",
                 .arguments = {"--micro-batch-size", "2"},
                 .variables = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}},
                 .file_name = "deepspeed.json",
                 .file_text = "{}\n",
                 .blocks = {{"supernode", 32, 1'000'000'000'000}},
                 .tables_version = "2026-11-30"};
  status.restarts = {.count = 2,
                     .counted = 1,
                     .last = FirstCause{.time = start + absl::Microseconds(123456),
                                        .reason = "AppError",
                                        .message = "rank 8 (pod x on gpu-0009) exited with code 3",
                                        .rank = 8,
                                        .pod = "x",
                                        .node = "gpu-0009",
                                        .exit_code = 3,
                                        .signal = 0}};
  status.timings = {.queued_ms = 0, .decide_us = 71, .commit_ms = 12, .start_ms = 3000};
  return status;
}

TEST(StatusApplyBody, ComesBackEqual) {
  const auto job = Reread(FullStatus());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->status, FullStatus());
  EXPECT_TRUE(job->status.Is("Admitted"));
  EXPECT_FALSE(job->status.Is("Placed"));
  EXPECT_FALSE(job->status.Is("Bound"));
}

TEST(StatusApplyBody, HasTheNamesOfTheApi) {
  EXPECT_EQ(json::parse(StatusApplyBody({.name = "llama", .uid = "u"}, FullStatus())),
            json::parse(R"({
    "apiVersion": "asterism.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "llama"},
    "status": {
      "observedGeneration": 2,
      "conditions": [
        {"type": "Admitted", "status": "True", "observedGeneration": 2,
         "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "QuotaReserved", "message": ""},
        {"type": "Placed", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z",
         "reason": "Fragmented", "message": "16 GPUs are free, in 4 supernodes"}],
      "state": "Running", "startTime": "2026-01-01T00:00:00Z",
      "completionTime": "2026-01-01T00:01:00Z", "gpus": 16, "selector": "asterism.dev/job-uid=u",
      "placed": "2/2",
      "effective": {"class": "Finetuning", "gpusPerPod": 8, "gpuProduct": "H200",
                    "processesPerPod": 8, "pods": 2},
      "pods": {"desired": 2, "bound": 2, "running": 1, "succeeded": 0, "failed": 1},
      "waiting": {"reason": "Fragmented", "message": "no supernode has 16 free GPUs",
                  "queuePosition": 3, "nearestChange": "blockGpus: 8",
                  "predictedStartTime": "2026-01-01T00:01:00Z"},
      "placement": {
        "epoch": 4, "digest": "abc",
        "levels": [{"level": "supernode", "domains": 1, "ringCuts": 2, "ringCutsMinimum": 1}],
        "runs": [{"domain": "sn-3", "nodes": "gpu-[0008-0009]", "firstRank": 0, "ranks": 16,
                  "epoch": 4}]},
      "plan": {
        "specDigest": "0123456789abcdef", "clusterDigest": "fedcba9876543210",
        "gpuProduct": "H100", "gpus": 16,
        "degrees": {"tensor": 2, "pipeline": 1, "context": 1, "data": 8}, "microBatchSize": 2,
        "stepTimeMilliseconds": {"value": 1570.125, "low": 1335.0, "high": 1806.0},
        "memoryBytes": {"allocated": 1, "reserved": 2, "device": 3},
        "boundBy": "products", "arguments": ["--micro-batch-size", "2"],
        "environment": [{"name": "CUDA_DEVICE_MAX_CONNECTIONS", "value": "1"}],
        "file": {"name": "deepspeed.json", "content": "{}\n"},
        "blocks": [{"level": "supernode", "gpus": 32, "bytesPerStep": 1000000000000}],
        "tablesVersion": "2026-11-30"},
      "restarts": {"count": 2, "counted": 1, "last": {
        "time": "2026-01-01T00:00:00.123456Z", "reason": "AppError",
        "message": "rank 8 (pod x on gpu-0009) exited with code 3", "rank": 8, "pod": "x",
        "node": "gpu-0009", "exitCode": 3, "signal": 0}},
      "timings": {"queuedMilliseconds": 0, "decideMicroseconds": 71, "commitMilliseconds": 12,
                  "startMilliseconds": 3000}}})"));
}

TEST(StatusApplyBody, LeavesEmptyPartsOut) {
  EXPECT_EQ(json::parse(StatusApplyBody({.name = "llama"}, {})),
            json::parse(R"({"apiVersion": "asterism.dev/v1alpha1", "kind": "TrainingJob",
                            "metadata": {"name": "llama"}, "status": {}})"));
}

// A status that the schema refuses would stop the job for ever.
TEST(StatusApplyBody, StaysInsideTheSchema) {
  TrainingJobStatus status = FullStatus();
  status.waiting.message = std::string(100000, 'x');
  status.restarts.last->message = "\xff\xfe" + std::string(100000, 'x');
  status.conditions[0].message = std::string(100000, 'x');
  status.conditions[1].last_transition_time = absl::InfinitePast();
  const json body = json::parse(StatusApplyBody({.name = "llama"}, status))["status"];
  EXPECT_EQ(body["waiting"]["message"].get<std::string>().size(), 4096u);
  EXPECT_LE(body["restarts"]["last"]["message"].get<std::string>().size(), 4096u + 4);
  EXPECT_EQ(body["conditions"][0]["message"].get<std::string>().size(), 32768u);
  EXPECT_EQ(body["conditions"][1]["lastTransitionTime"], "0001-01-01T00:00:00Z");
}

TEST(StatusApplyBody, SortsConditions) {
  TrainingJobStatus status = FullStatus();
  std::reverse(status.conditions.begin(), status.conditions.end());
  EXPECT_EQ(StatusApplyBody({.name = "a"}, status), StatusApplyBody({.name = "a"}, FullStatus()));
}

rc::Gen<std::string> Word() {
  return rc::gen::mapcat(rc::gen::inRange(1, 12), [](int length) {
    return rc::gen::container<std::string>(static_cast<std::size_t>(length),
                                           rc::gen::inRange<char>(' ', '~'));
  });
}

int64_t AnyCount() {
  return *rc::gen::inRange<int64_t>(0, 2147483648);
}

absl::Time AnySecond() {
  return absl::FromUnixSeconds(*rc::gen::inRange<int64_t>(0, 4102444800));
}

template <typename Value>
std::optional<Value> Maybe(Value value) {
  return *rc::gen::arbitrary<bool>() ? std::optional<Value>(value) : std::nullopt;
}

std::vector<kube::Condition> AnyConditions() {
  std::vector<kube::Condition> conditions;
  for (const char* type : {"Admitted", "Bound", "Failed", "Placed"}) {
    if (*rc::gen::arbitrary<bool>()) {
      conditions.push_back({.type = type,
                            .status = *rc::gen::element<std::string>("True", "False", "Unknown"),
                            .observed_generation = AnyCount(),
                            .last_transition_time = AnySecond(),
                            .reason = *Word(),
                            .message = *rc::gen::arbitrary<bool>() ? *Word() : ""});
    }
  }
  return conditions;
}

PlacementStatus AnyPlacement() {
  PlacementStatus placement{.epoch = AnyCount(), .digest = *Word()};
  for (int64_t i = *rc::gen::inRange<int64_t>(0, 3); i > 0; --i) {
    placement.levels.push_back({.level = *Word(),
                                .domains = AnyCount(),
                                .ring_cuts = AnyCount(),
                                .ring_cuts_minimum = AnyCount()});
  }
  for (int64_t i = *rc::gen::inRange<int64_t>(0, 4); i > 0; --i) {
    placement.runs.push_back({.domain = *Word(),
                              .nodes = *rc::gen::container<std::vector<std::string>>(Word()),
                              .first_rank = AnyCount(),
                              .ranks = AnyCount(),
                              .epoch = AnyCount()});
  }
  return placement;
}

TEST(StatusApplyBody, AnyStatusComesBackEqual) {
  EXPECT_TRUE(rc::check([] {
    TrainingJobStatus status;
    status.observed_generation = AnyCount();
    status.conditions = AnyConditions();
    status.state = *Word();
    status.start_time = Maybe(AnySecond());
    status.completion_time = Maybe(AnySecond());
    status.gpus = AnyCount();
    status.placed = *Word();
    status.effective.pods = AnyCount();
    status.effective.job_class = *Word();
    status.pods.running = AnyCount();
    if (*rc::gen::arbitrary<bool>()) {
      status.waiting = {.reason = *Word(), .message = *Word(), .queue_position = AnyCount()};
      status.waiting.predicted_start = Maybe(AnySecond());
    }
    status.placement = AnyPlacement();
    status.restarts.count = AnyCount();
    if (*rc::gen::arbitrary<bool>()) {
      status.restarts.last = FirstCause{
          .time = AnySecond() + absl::Microseconds(*rc::gen::inRange<int64_t>(0, 1000000)),
          .reason = *Word(),
          .rank = AnyCount(),
          .pod = *Word(),
          .exit_code = Maybe<int32_t>(137),
          .signal = Maybe<int32_t>(9)};
    }
    status.timings.decide_us = Maybe(AnyCount());
    const auto job = Reread(status);
    RC_ASSERT(job.ok());
    RC_ASSERT(job->status == status);
  }));
}

TEST(ParseTrainingJob, RefusesABrokenStatus) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "status: must be an object"},
      {R"({"gpus": -1})", "status.gpus: must be a whole number from 0 to 2147483647, not -1"},
      // One more and it could not rise any more.
      {R"({"placement": {"epoch": 9007199254740992}})",
       "status.placement.epoch: must be a whole number from 0 to 9007199254740991, not "
       "9007199254740992"},
      {R"({"placement": {"runs": [{"nodes": "a[2-1]"}]}})",
       "status.placement.runs[0].nodes: node ranges: a range must rise, with numbers of one width "
       "at character 5"},
      {R"({"placement": {"runs": [{"nodes": "a*1048576"}, {"nodes": "b"}]}})",
       "status.placement.runs[1].nodes: node ranges: more than 0 names at character 1"},
  };
  for (const auto& [status, message] : cases) {
    json object = json::parse(JobText({{"gpus", 16}}));
    object["status"] = json::parse(status);
    EXPECT_EQ(std::string(ParseTrainingJob(object.dump()).status().message()), message);
  }
}

}  // namespace
}  // namespace asterism::operators
