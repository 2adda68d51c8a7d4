// File: operator/pod_builder.h
//
// Turns a TrainingJob into the JSON of its pods and of its headless Service, exactly as the API
// page fixes them: names, labels, annotations, the pin, tolerations, GPUs as limits, the launch
// environment.
//
//   ASSIGN_OR_RETURN(PodBuilder builder, PodBuilder::Make(job, shape, protocol));
//   std::string body = builder.PodBody({.first_rank = 64, .node = "gpu-0008", .epoch = 1});
//
// Make does everything that is equal for all pods of the gang once; PodBody only fills in one
// block. Errors name the field of the TrainingJob and the remedy; nothing of the user's strings
// ever passes through a shell.
//
// Thread-safety: immutable after Make. Cost: PodBody about 30 us.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/training_job.h"

namespace asterism::operators {

// What the effective values of a job come to.
struct GangShape {
  int64_t pods = 1;
  int64_t gpus_per_pod = 1;
  int64_t processes_per_pod = 1;  // ranks of a pod
  JobClass job_class = JobClass::kFinetuning;

  int64_t ranks() const { return pods * processes_per_pod; }
};

// `gpus_of_node`: GPUs of the nodes of the cluster (the commonest count), for the default of
// gpusPerPod. Checks what CEL cannot know; the message names field and remedy.
absl::StatusOr<GangShape> ShapeOf(const TrainingJobSpec& spec, int64_t gpus_of_node,
                                  JobClass queue_default_class);

struct PodSettings {
  std::string scheduler_name = "asterism";
};

struct BlockHome {
  int64_t first_rank = 0;
  std::string node;  // empty for the dry run: no pin
  int64_t epoch = 0;
};

class PodBuilder {
 public:
  static absl::StatusOr<PodBuilder> Make(const TrainingJob& job, const GangShape& shape,
                                         const PodSettings& settings);

  std::string PodBody(const BlockHome& home) const;
  std::string ServiceBody() const;
  // Empty unless the framework wants a host file (DeepSpeed, MPI): a ConfigMap "<job>-<u>-hosts".
  std::string HostFileBody() const;

 private:
  struct Template;
  std::shared_ptr<const Template> template_;
};

// "<job>-<u>-r<first rank>-e<epoch>", u = the first 5 characters of the UID.
std::string PodName(const kube::ObjectMeta& job, int64_t first_rank, int64_t epoch);
// "<job>-r<first rank>".
std::string HostName(const kube::ObjectMeta& job, int64_t first_rank);

// Keys of labels and annotations on pods of a gang.
inline constexpr std::string_view kJobLabel = "asterism.dev/job";
inline constexpr std::string_view kJobUidLabel = "asterism.dev/job-uid";
inline constexpr std::string_view kQueueLabel = "asterism.dev/queue";
inline constexpr std::string_view kClassLabel = "asterism.dev/class";
inline constexpr std::string_view kLiveLabel = "asterism.dev/live";
inline constexpr std::string_view kRanksAnnotation = "asterism.dev/ranks";  // "first-last"
inline constexpr std::string_view kEpochAnnotation = "asterism.dev/epoch";
inline constexpr std::string_view kPodsAnnotation = "asterism.dev/pods";
inline constexpr std::string_view kDomainAnnotation = "asterism.dev/domain";

}  // namespace asterism::operators
