// Reads any bytes as a TrainingJob and goes on as the operator would: shape, pods, status.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "nlohmann/json.hpp"
#include "operator/launch_environment.h"
#include "operator/pod_builder.h"
#include "operator/training_job.h"

namespace asterism::operators {
namespace {

void FuzzTrainingJob(std::string_view text) {
  const auto job = ParseTrainingJob(text);
  if (!job.ok()) {
    CHECK_THAT(!job.status().message().empty(), "an error without a message");
    return;
  }
  const auto status =
      nlohmann::json::parse(StatusApplyBody(job->meta, job->status), nullptr, false);
  CHECK_THAT(status.is_object(), "the apply body is no JSON");
  const auto shape = ShapeOf(job->spec, 8, JobClass::kFinetuning);
  if (!shape.ok()) {
    return;
  }
  CommandWarning(*job, *shape);
  const auto builder = PodBuilder::Make(*job, *shape, PodSettings{});
  if (!builder.ok()) {
    return;
  }
  const auto pod = nlohmann::json::parse(
      builder->PodBody({.first_rank = 0, .node = "gpu-0008", .epoch = 1}), nullptr, false);
  CHECK_THAT(pod.is_object(), "the pod is no JSON");
  CHECK_THAT(pod["spec"]["restartPolicy"] == "Never", "a pod that restarts");
}

}  // namespace
}  // namespace asterism::operators

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asterism::operators::FuzzTrainingJob(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
