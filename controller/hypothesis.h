// File: controller/hypothesis.h
//
// What Place and WhatIf ask about, read from their requests: a job, and what is to be different
// from now.
//
//   ASSIGN_OR_RETURN(Hypothesis hypothesis, ReadHypothesis(request));
//
// Thread-safety: pure. Cost: one parse of the job, two where its GPUs are changed.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kube/client.h"
#include "operator/training_job.h"
#include "scheduler/cluster_change.h"

namespace asterism::v1 {
class WhatIfRequest;
}  // namespace asterism::v1

namespace asterism::controller {

inline constexpr int kChangesMax = 32;
inline constexpr size_t kChangedNodesMax = 16'384;

struct Hypothesis {
  operators::TrainingJob job;
  std::vector<scheduler::ClusterChange> changes;
  std::vector<kube::ObjectName> ended_jobs;
};

// kInvalidArgument names the field and the remedy.
absl::StatusOr<operators::TrainingJob> ReadAskedJob(std::string_view job_json);
absl::StatusOr<Hypothesis> ReadHypothesis(const v1::WhatIfRequest& request);

}  // namespace asterism::controller
