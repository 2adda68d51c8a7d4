// File: operator/gang_shape.h
//
// How many pods, GPUs and ranks a TrainingJob comes to, with the defaults that need the cluster.
//
//   ASSIGN_OR_RETURN(GangShape shape, ShapeOf(job.spec, NodeGpus{.commonest = 8, .largest = 8},
//                                             queue.spec.default_class));
//   shape.ranks();
//
// Thread-safety: pure. Cost: O(levels of the job).
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "operator/training_job.h"

namespace asterism::operators {

// What the effective values of a job come to.
struct GangShape {
  int64_t pods = 1;
  int64_t gpus_per_pod = 1;
  int64_t processes_per_pod = 1;  // ranks of a pod
  JobClass job_class = JobClass::kFinetuning;
  int64_t spares = 0;  // further pods' GPUs

  int64_t gpus_held() const { return (pods + spares) * gpus_per_pod; }
  int64_t ranks() const { return pods * processes_per_pod; }
};

// GPUs of one node of the cluster, counted in the job's resource; 0: no such node is known yet.
struct NodeGpus {
  int64_t commonest = 0;  // the default of gpusPerPod
  int64_t largest = 0;    // no pod can be larger
};

// Checks what CEL cannot know; the message names field and remedy. kInvalidArgument: the spec is
// wrong for this cluster. kFailedPrecondition: nothing is known yet, ask again when nodes join.
absl::StatusOr<GangShape> ShapeOf(const TrainingJobSpec& spec, NodeGpus nodes,
                                  JobClass queue_default_class);

// The same for a cluster of equal nodes.
absl::StatusOr<GangShape> ShapeOf(const TrainingJobSpec& spec, int64_t gpus_of_node,
                                  JobClass queue_default_class);

}  // namespace asterism::operators
