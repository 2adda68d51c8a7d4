#include "operator/training_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/operator/job_texts.h"

namespace asterism::operators {
namespace {

using nlohmann::json;
using testing::ElementsAre;

TEST(ParseTrainingJob, TwelveLinesAreEnough) {
  const auto job = ParseTrainingJob(R"({
    "apiVersion": "asterism.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "llama", "namespace": "research"},
    "spec": {
      "queue": "research", "gpus": 512,
      "model": {"preset": "llama-3-8b", "globalBatchSize": 1024, "sequenceLength": 8192},
      "framework": "MegatronLM",
      "container": {"image": "registry.example/train:1",
                    "command": ["torchrun", "pretrain_gpt.py", "--mock-data"]}}})");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->Key(), "research/llama");
  EXPECT_EQ(job->spec.queue, "research");
  EXPECT_EQ(job->spec.gpus, 512);
  EXPECT_EQ(job->spec.framework, Framework::kMegatronLm);
  EXPECT_TRUE(job->spec.has_model);
  // Defaults.
  EXPECT_FALSE(job->spec.job_class.has_value());
  EXPECT_TRUE(job->spec.preemptible);
  EXPECT_FALSE(job->spec.gpus_per_pod.has_value());
  EXPECT_EQ(job->spec.resource_name, "nvidia.com/gpu");
  EXPECT_EQ(job->spec.container_name, "trainer");
  EXPECT_EQ(job->spec.failure_policy.max_restarts, 3);
  EXPECT_EQ(job->spec.failure_policy.reset_after_seconds, 3600);
  EXPECT_EQ(job->spec.failure_policy.backoff_seconds, 10);
  EXPECT_TRUE(job->spec.launcher_auto);
  EXPECT_EQ(job->spec.shared_memory, "Auto");
  EXPECT_EQ(job->spec.master_port, 29500);
  EXPECT_FALSE(job->spec.master_port_stated);
  EXPECT_EQ(job->spec.success_policy, SuccessPolicy::kAllRanks);
  EXPECT_FALSE(job->spec.suspend);
  EXPECT_EQ(job->status, TrainingJobStatus{});
  EXPECT_EQ((*job->object)["spec"]["model"]["preset"], "llama-3-8b");
}

TEST(ParseTrainingJob, ReadsEveryField) {
  const TrainingJob job = JobWith(json::parse(R"({
    "queue": "q", "class": "Search", "priorityClassName": "high", "preemptible": false,
    "gpus": 64, "minGpus": 32, "gpusPerPod": 4, "gpuProducts": ["H200", "B200"],
    "resourceName": "amd.com/gpu", "framework": "Plain", "processesPerPod": 2,
    "container": {"name": "main", "image": "i", "command": ["c"]},
    "plan": {"mode": "Off"},
    "placement": {"policy": "Spread", "levels": [
      {"level": "supernode", "blockGpus": 32},
      {"level": "cluster", "mode": "Preferred", "maxWaitSeconds": 60}]},
    "failurePolicy": {"maxRestarts": 0, "resetAfterSeconds": 60, "backoffSeconds": 1, "rules": [
      {"exitCodes": [3, 255], "onReason": "AppError", "action": "FailJob"},
      {"action": "RestartAndIgnoreMaxRestarts"}]},
    "launcher": "Off", "sharedMemory": 1024, "masterPort": 29500,
    "activeDeadlineSeconds": 86400, "ttlSecondsAfterFinished": 0, "successPolicy": "RankZero",
    "suspend": true})"));
  const TrainingJobSpec& spec = job.spec;
  EXPECT_EQ(spec.job_class, JobClass::kSearch);
  EXPECT_EQ(spec.priority_class_name, "high");
  EXPECT_FALSE(spec.preemptible);
  EXPECT_EQ(spec.min_gpus, 32);
  EXPECT_EQ(spec.gpus_per_pod, 4);
  EXPECT_THAT(spec.gpu_products, ElementsAre("H200", "B200"));
  EXPECT_EQ(spec.resource_name, "amd.com/gpu");
  EXPECT_EQ(spec.framework, Framework::kPlain);
  EXPECT_EQ(spec.processes_per_pod, 2);
  EXPECT_EQ(spec.container_name, "main");
  EXPECT_EQ(spec.plan_mode, "Off");
  EXPECT_EQ(spec.placement_policy, "Spread");
  ASSERT_EQ(spec.levels.size(), 2u);
  EXPECT_EQ(spec.levels[0].level, "supernode");
  EXPECT_EQ(spec.levels[0].block_gpus, 32);
  EXPECT_TRUE(spec.levels[0].required);
  EXPECT_EQ(spec.levels[1].block_gpus, 64);  // gpus
  EXPECT_FALSE(spec.levels[1].required);
  EXPECT_EQ(spec.levels[1].max_wait_seconds, 60);
  EXPECT_EQ(spec.failure_policy.max_restarts, 0);
  ASSERT_EQ(spec.failure_policy.rules.size(), 2u);
  EXPECT_THAT(spec.failure_policy.rules[0].exit_codes, ElementsAre(3, 255));
  EXPECT_EQ(spec.failure_policy.rules[0].on_reason, "AppError");
  EXPECT_EQ(spec.failure_policy.rules[0].action, FailureAction::kFailJob);
  EXPECT_FALSE(spec.failure_policy.rules[1].on_reason.has_value());
  EXPECT_FALSE(spec.launcher_auto);
  EXPECT_EQ(spec.shared_memory, "1024");
  EXPECT_TRUE(spec.master_port_stated);
  EXPECT_EQ(spec.active_deadline_seconds, 86400);
  EXPECT_EQ(spec.ttl_seconds_after_finished, 0);
  EXPECT_EQ(spec.success_policy, SuccessPolicy::kRankZero);
  EXPECT_TRUE(spec.suspend);
}

TEST(ParseTrainingJob, ErrorsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"gpus": "many"})", "spec.gpus: must be a whole number from 1 to 1048576, not \"many\""},
      {R"({"gpus": 1048577})", "spec.gpus: must be a whole number from 1 to 1048576, not 1048577"},
      {R"({})", "spec.gpus: missing: state the number of GPUs"},
      {R"({"gpus": 8, "class": "Training"})",
       "spec.class: must be one of Pretraining, Finetuning, Search, not \"Training\""},
      {R"({"gpus": 8, "framework": "JAX"})",
       "spec.framework: must be one of TorchRun, MegatronLM, DeepSpeed, FSDP, MPI, Plain, not "
       "\"JAX\""},
      {R"({"gpus": 8, "failurePolicy": {"rules": [{"exitCodes": [0], "action": "FailJob"}]}})",
       "spec.failurePolicy.rules[0].exitCodes: exit codes are whole numbers from 1 to 255"},
      {R"({"gpus": 8, "failurePolicy": {"rules": [{}]}})",
       "spec.failurePolicy.rules[0].action: missing: use FailJob, Restart or "
       "RestartAndIgnoreMaxRestarts"},
      {R"({"gpus": 8, "placement": {"levels": [{}]}})",
       "spec.placement.levels[0].level: missing: name a level of the cluster"},
      {R"({"gpus": 8, "container": []})", "spec.container: must be an object"},
      {R"({"gpus": 8, "masterPort": 70000})",
       "spec.masterPort: must be a whole number from 1 to 65535, not 70000"},
  };
  for (const auto& [spec, message] : cases) {
    const auto job = ParseTrainingJob(
        fmt::format(R"({{"metadata": {{"name": "a", "namespace": "b"}}, "spec": {}}})", spec));
    ASSERT_FALSE(job.ok()) << spec;
    EXPECT_EQ(std::string(job.status().message()), message);
  }
  EXPECT_EQ(std::string(ParseTrainingJob(R"({"spec": {"gpus": 8}})").status().message()),
            "metadata.name: missing");
  EXPECT_EQ(std::string(ParseTrainingJob(R"({"metadata": {"name": "a"}})").status().message()),
            "spec: missing");
}

TEST(ParseTrainingJob, ReadsTheMetadata) {
  const auto job = ParseTrainingJob(R"({
    "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3,
      "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
      "labels": {"k": "v"}, "annotations": {"x": "y"},
      "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o",
                           "controller": true}]},
    "spec": {"gpus": 8}})");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->meta.uid, "u");
  EXPECT_EQ(job->meta.resource_version, "7");
  EXPECT_EQ(job->meta.generation, 3);
  EXPECT_EQ(job->meta.creation_time, absl::FromUnixSeconds(1767225600));
  EXPECT_EQ(job->meta.deletion_time, absl::FromUnixSeconds(1767312000));
  EXPECT_EQ(job->meta.Label("k"), "v");
  EXPECT_EQ(job->meta.Annotation("x"), "y");
  ASSERT_NE(job->meta.Controller(), nullptr);
  EXPECT_EQ(job->meta.Controller()->uid, "o");
}

TEST(TrainingJobWords, AreThoseOfTheApiAndOfLabels) {
  EXPECT_EQ(ToString(JobClass::kPretraining), "Pretraining");
  EXPECT_EQ(ToLabel(JobClass::kSearch), "search");
  EXPECT_EQ(ToString(Framework::kMegatronLm), "MegatronLM");
  EXPECT_EQ(ToString(FailureAction::kRestartAndIgnoreMaxRestarts), "RestartAndIgnoreMaxRestarts");
  EXPECT_EQ(ParseJobClass("Finetuning"), JobClass::kFinetuning);
  EXPECT_FALSE(ParseJobClass("finetuning").has_value());
}

}  // namespace
}  // namespace asterism::operators
