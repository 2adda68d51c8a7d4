// File: operator/failure_policy.h
//
// What to do when a pod of a gang is lost: which failure came first, what kind it is, and whether
// the job restarts or fails. Words and defaults are those of JobSet's failure policy.
//
//   FirstCause cause = FindFirstCause(lost, now);
//   RestartDecision decision = DecideRestart(spec.failure_policy, status.restarts, cause,
//   since_last);
//
// Thread-safety: pure. Cost: O(pods).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/pod.h"
#include "operator/training_job.h"
#include "operator/worker_reports.h"

namespace asterism::operators {

// A rank block whose pod has failed, vanished, or is being deleted by somebody else.
struct LostPod {
  int64_t first_rank = 0;
  int64_t ranks = 1;
  const kube::Pod* pod = nullptr;  // null: vanished
  std::string pod_name;
  std::string node;
  bool node_gone = false;  // the node is deleted or not ready
  // The training container; empty: whichever failed first.
  std::string container_name;
  // When the watch told the failure, by our own clock; 0: not told.
  base::SteadyTime seen;
  const WorkerReport* report = nullptr;  // of its launcher; null: none came
};

// The earliest failure of the lost pods, with reason NodeFailure, Preempted, OOMKilled or AppError.
// `lost` is not empty. An exit counts from when the container finished, an eviction from its
// condition, a pod that is only gone from `now`; so a real exit beats the pods that vanish after
// it. Ties fall to the real exit, then to what the watch told first (times of containers are whole
// seconds), then to the lower rank.
//
// Where its launcher told more, an exit counts from the nanosecond that it names, and the rank and
// exit code are those of the process that ended first; rules match the container's code, too. What
// it names must be possible: a rank of its pod, a time of the pod's life that agrees with kubelet's
// by 10 s. Else kubelet's word holds: whatever runs in a pod can speak like its launcher.
//
// What says what, first match: condition DisruptionTarget; the pod's reason (kubelet); deleted
// while its container had not failed by itself; reason and exit code of the container. A deleted or
// vanished pod is NodeFailure where its node is gone, else Preempted.
FirstCause FindFirstCause(const std::vector<LostPod>& lost, absl::Time now);

// The kubelet of its node has not let the pod in: no container of it ever ran. Another node may.
bool RefusedByKubelet(const kube::Pod& pod);

struct RestartDecision {
  bool restart = false;
  bool counted = false;       // against maxRestarts
  RestartStatus restarts;     // the new value
  absl::Duration backoff;     // before the pods of the new epoch are created
  std::string failed_reason;  // when !restart: BackoffLimitExceeded or FailJobRule
  std::string message;        // names the first cause
};

// First matching rule wins; without one, NodeFailure and Preempted restart uncounted, the rest
// restarts counted. A rule with exitCodes matches only OOMKilled and AppError with such an exit
// code. resetAfterSeconds without a failure set `counted` back to 0 (0 seconds: never);
// `since_last` is the time since restarts.last. The back-off doubles with each counted restart from
// backoffSeconds, cap 300 s; uncounted restarts wait as long as the last counted one, so that no
// loop is a hot one.
RestartDecision DecideRestart(const FailurePolicy& policy, const RestartStatus& restarts,
                              const FirstCause& cause, absl::Duration since_last);

}  // namespace asterism::operators
