// File: test/operator/job_texts.h
//
// TrainingJobs for tests, written as JSON and read by the real parser.
//
//   TrainingJob job = JobWith(R"({"gpus": 16, "framework": "Plain"})");
//   TrainingJob job = JobWith({{"gpus", 16}});
//
// A spec without a container gets one that any framework accepts.
//
// Thread-safety: pure. Cost: one parse.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "operator/pod_builder.h"
#include "operator/training_job.h"

namespace asterism::operators {

inline std::string JobText(nlohmann::json spec) {
  if (!spec.contains("container") && !spec.contains("template")) {
    spec["container"] = {{"image", "registry.example/train:1"},
                         {"command", {"torchrun", "train.py"}}};
  }
  return nlohmann::json{{"apiVersion", "asterism.dev/v1alpha1"},
                        {"kind", "TrainingJob"},
                        {"metadata",
                         {{"name", "llama"},
                          {"namespace", "research"},
                          {"uid", "3f2a9c1e-0000-4000-8000-000000000001"},
                          {"generation", 2}}},
                        {"spec", spec}}
      .dump();
}

inline TrainingJob JobWith(const nlohmann::json& spec) {
  absl::StatusOr<TrainingJob> job = ParseTrainingJob(JobText(spec));
  CHECK_THAT(job.ok(), std::string(job.status().message()));
  return *std::move(job);
}

inline absl::StatusOr<PodBuilder> BuilderOf(const TrainingJob& job, int64_t gpus_of_node = 8) {
  absl::StatusOr<GangShape> shape = ShapeOf(job.spec, gpus_of_node, JobClass::kFinetuning);
  if (!shape.ok()) {
    return shape.status();
  }
  return PodBuilder::Make(job, *shape, PodSettings{});
}

// The first pod of a job on node gpu-0008, epoch 1.
inline nlohmann::json FirstPod(const nlohmann::json& spec) {
  absl::StatusOr<PodBuilder> builder = BuilderOf(JobWith(spec));
  CHECK_THAT(builder.ok(), std::string(builder.status().message()));
  return nlohmann::json::parse(builder->PodBody({.first_rank = 0, .node = "gpu-0008", .epoch = 1}));
}

// Why no pods can be made from the spec; empty when they can.
inline std::string WhyNoPods(const nlohmann::json& spec) {
  const absl::StatusOr<PodBuilder> builder = BuilderOf(JobWith(spec));
  return builder.ok() ? "" : std::string(builder.status().message());
}

// The value of a variable of the first container, or "absent".
inline std::string VariableOf(const nlohmann::json& pod, std::string_view name) {
  std::string value = "absent";
  for (const auto& variable : pod["spec"]["containers"][0]["env"]) {
    if (variable["name"] == name) {
      value = variable.value("value", "from elsewhere");
    }
  }
  return value;
}

}  // namespace asterism::operators
