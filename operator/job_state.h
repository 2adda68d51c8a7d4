// File: operator/job_state.h
//
// What the leader remembers of one TrainingJob between visits. All of it can be rebuilt from the
// API server: the status and the pods are the record.
//
// Thread-safety: none; owned by JobController. Cost: some kilobytes and the pods' pointers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "kube/informer.h"
#include "operator/admission.h"
#include "operator/elapsed_since.h"
#include "operator/job_plan.h"
#include "operator/job_reconciler.h"
#include "operator/training_job.h"
#include "scheduler/ledger.h"

namespace asterism::operators {

// One write of the status at a time; a newer one waits for the answer. Each write names the version
// that it changes, so that a write of an earlier reign that arrives late cannot undo it.
struct StatusWriter {
  std::string resource_version;
  TrainingJobStatus acknowledged;  // what the API server has
  std::optional<TrainingJobStatus> in_flight;
  base::SteadyTime last_write;
  std::optional<base::SteadyTime> refused_since;  // the API server itself says no, in a row
  int failures = 0;
};

enum class DryRun { kNotAsked, kInFlight, kPassed, kRefused };

// How far the plan of a job is; the plan itself stands in the status.
struct JobPlanning {
  int64_t generation = -1;  // of the job that `wish` was read from
  PlanWish wish;
  std::string asked;  // digests of the question that is in flight or was answered last
  bool made = false;
  bool pending = false;
  bool refused = false;  // the job does not go on without a plan
  std::string reason;    // of the condition Planned
  std::string message;
  std::optional<std::string> config_json;  // of the job's ConfigMap, as last read
  std::string config_error;                // why it could not be read; empty: it could
  bool reading = false;
  int failures = 0;             // to read it, in a row
  base::SteadyTime read_again;  // when it is looked at next
};

struct JobState {
  explicit JobState(kube::Shared<TrainingJob> job)
      : object(std::move(job)), status(object->status) {
    writer.acknowledged = object->status;
    writer.resource_version = object->meta.resource_version;
  }

  const kube::ObjectMeta& meta() const { return object->meta; }

  kube::Shared<TrainingJob> object;
  bool gone = false;         // deleted from the API server; its pods may remain
  TrainingJobStatus status;  // the newest; only this operator writes it
  StatusWriter writer;

  Admission admission;
  uint64_t admission_version = 0;    // environment it was made for
  bool admission_of_placed = false;  // it keeps to the size that the job runs with
  int64_t admission_generation = -1;
  JobPlanning planning;
  DryRun dry_run = DryRun::kNotAsked;
  int64_t dry_run_generation = -1;
  std::string dry_run_error;  // why it was refused; stays while it is asked again
  // Of the pod that the API server made in it; empty: it told none.
  std::optional<PodNeeds> dry_run_needs;
  int dry_run_failures = 0;                       // in a row
  std::optional<base::SteadyTime> dry_run_again;  // when an answer that may change is asked again

  std::vector<scheduler::RankBlock> blocks;          // empty: not placed
  std::vector<scheduler::Spare> spares;              // held for it, in the order of their use
  std::map<std::string, JobPod> pods;                // by name
  std::map<std::string, base::SteadyTime> creating;  // names sent and not seen yet
  std::map<std::string, bool> deleting;              // UIDs asked to be deleted; true: by force
  std::map<std::string, CreateError> create_errors;  // by name; gone when the pod is seen
  int create_failures = 0;                           // in a row; sets the delay of the next try
  std::set<std::string> superseding;                 // names whose live label is being taken
  std::set<RankAndEpoch> succeeded;                  // blocks whose pod has succeeded
  std::set<std::string> companions;  // Service and ConfigMap that exist or are being created
  base::SteadyTime service_seen;
  bool service_confirmed = false;  // the Service of the job's name is known to be the job's

  std::string fallback;  // why a pod of this placement was not committed directly
  // When spares were looked for last, and what of the ledger was known then.
  base::SteadyTime spares_looked;
  std::pair<uint64_t, uint64_t> spares_looked_versions;
  std::vector<std::string> excluded;  // nodes where this gang's pods could not be bound
  int withdrawals = 0;                // in a row; sets the back-off
  base::SteadyTime start_after;
  base::SteadyTime queued_since;
  base::SteadyTime placed_at;
  base::SteadyTime bound_at;
  ElapsedSince since_placed;
  ElapsedSince since_completed;
  ElapsedSince since_restart;
  ElapsedSince since_waiting;
  std::string state_in_metrics;
};

// The first pause before a call that failed is made again.
inline constexpr absl::Duration kRetryFirst = absl::Milliseconds(500);

// An answer of the API server that asking again at once cannot cure, and what the job then waits
// for.
bool Hopeless(const absl::Status& status);
std::string_view WithdrawReason(const absl::Status& status);

// Whether two statuses differ in anything that others act on; counters alone may wait a little.
bool SameButCounters(const TrainingJobStatus& left, const TrainingJobStatus& right);

// Whether two statuses tell the same homes and the same end: what two writers must not disagree on.
bool SameStory(const TrainingJobStatus& left, const TrainingJobStatus& right);

}  // namespace asterism::operators
