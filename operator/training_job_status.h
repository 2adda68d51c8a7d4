// File: operator/training_job_status.h
//
// Reads the status that StatusApplyBody (training_job.h) writes; a part of ParseTrainingJob,
// private to operator/.
//
//   job.status = ParseStatus(root.Object("status"));
//
// Thread-safety: pure. Cost: about 100 ns a node of the placement.
#pragma once

#include "operator/json_fields.h"
#include "operator/training_job.h"

namespace asterism::operators {

// The first problem is recorded in the document's error.
TrainingJobStatus ParseStatus(const JsonFields& status);

// spec.gpus may not be larger, so neither are counts of GPUs, pods and ranks.
inline constexpr int64_t kGpusMax = 1048576;
inline constexpr int64_t kProcessesPerPodMax = 1024;

}  // namespace asterism::operators
