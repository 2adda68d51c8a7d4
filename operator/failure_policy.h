// File: operator/failure_policy.h
//
// What to do when a pod of a gang is lost: which failure came first, what kind it is, and whether
// the job restarts or fails. Words and defaults are those of JobSet's failure policy.
//
//   std::optional<Failure> failure = FindFirstCause(evidence);
//   RestartDecision decision = Decide(spec.failure_policy, status.restarts, *failure, now);
//
// Thread-safety: pure. Cost: O(pods).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kube/pod.h"
#include "operator/training_job.h"

namespace asterism::operators {

// A rank block whose pod has failed, vanished, or is being deleted by somebody else.
struct LostPod {
  int64_t first_rank = 0;
  const kube::Pod* pod = nullptr;  // null: vanished
  std::string pod_name;
  std::string node;
  bool node_gone = false;  // the node is deleted or not ready
};

// The earliest failure of the lost pods, with reason NodeFailure, Preempted, OOMKilled or AppError.
// `lost` is not empty. Ties fall to the lower rank.
FirstCause FindFirstCause(const std::vector<LostPod>& lost, absl::Time now);

struct RestartDecision {
  bool restart = false;
  bool counted = false;       // against maxRestarts
  RestartStatus restarts;     // the new value
  absl::Duration backoff;     // before the pods of the new epoch are created
  std::string failed_reason;  // when !restart: BackoffLimitExceeded or FailJobRule
  std::string message;        // names the first cause
};

// First matching rule wins; without one, NodeFailure and Preempted restart uncounted, the rest
// restarts counted. The back-off doubles with each counted restart from backoffSeconds, cap 300 s.
RestartDecision DecideRestart(const FailurePolicy& policy, const RestartStatus& restarts,
                              const FirstCause& cause, absl::Time now);

}  // namespace asterism::operators
