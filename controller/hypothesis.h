// File: controller/hypothesis.h
//
// What Place and WhatIf ask about, read from their requests: a job, and what is to be different
// from now.
//
//   ASSIGN_OR_RETURN(AskedNames names, ReadAskedNames(request));    // whose rights are looked at
//   ASSIGN_OR_RETURN(Hypothesis hypothesis, ReadHypothesis(request));
//
// Names first: they cost no memory, and who may not ask has nothing else read.
//
// Thread-safety: pure. Cost: the names 10 ns a byte of the job; the rest one parse of it, two where
// its GPUs are changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kube/client.h"
#include "operator/training_job.h"
#include "scheduler/cluster_change.h"

namespace asterism::v1 {
class PlaceRequest;
class WhatIfRequest;
}  // namespace asterism::v1

namespace asterism::controller {

inline constexpr int kChangesMax = 32;
inline constexpr size_t kChangedNodesMax = 16'384;     // of one change
inline constexpr size_t kAllChangedNodesMax = 65'536;  // of all that name nodes
inline constexpr int64_t kAllAddedNodesMax = 4096;

// A job that counts as gone.
struct EndedJob {
  kube::ObjectName name;
  std::string field;  // where it stands, for errors
};

struct AskedNames {
  kube::ObjectName job;
  std::vector<EndedJob> ended_jobs;
};

struct Hypothesis {
  AskedNames names;
  operators::TrainingJob job;  // without a status
  std::vector<scheduler::ClusterChange> changes;
};

// kInvalidArgument names the field and the remedy. A job is read by the same names or not at all.
absl::StatusOr<AskedNames> ReadAskedNames(const v1::PlaceRequest& request);
absl::StatusOr<AskedNames> ReadAskedNames(const v1::WhatIfRequest& request);
absl::StatusOr<Hypothesis> ReadHypothesis(const v1::PlaceRequest& request);
absl::StatusOr<Hypothesis> ReadHypothesis(const v1::WhatIfRequest& request);

}  // namespace asterism::controller
