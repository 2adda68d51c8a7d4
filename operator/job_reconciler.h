// File: operator/job_reconciler.h
//
// The state machine of a TrainingJob, as one pure function: from what is observed to what is to be
// done. It is level-triggered: called again with the same observation it decides the same, and it
// never acts on an event.
//
//   JobDecision decision = DecideJob(observation);
//
// The life of a job: waiting -> placed (rank blocks have homes) -> its pods exist -> bound ->
// running
// -> succeeded or failed; suspended and deleted from anywhere. A restart is a new placement under a
// higher epoch.
//
// Thread-safety: pure. Cost: O(pods of the job).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/informer.h"
#include "kube/pod.h"
#include "operator/cluster_feed.h"
#include "operator/failure_policy.h"
#include "operator/pod_builder.h"
#include "operator/training_job.h"
#include "operator/worker_reports.h"
#include "scheduler/ledger.h"

namespace asterism::operators {

// A pod that carries the job's UID.
struct JobPod {
  kube::Shared<kube::Pod> pod;
  GangPodMark mark;
  // By our own clock: deadlines must not move when a wall clock is stepped.
  base::SteadyTime first_seen;
  std::optional<base::SteadyTime> unschedulable_since;  // kube-scheduler's condition says so
  std::optional<base::SteadyTime> failed_since;         // when the watch told it first
};

// That the API server answers the creation of a pod with errors.
struct CreateError {
  base::SteadyTime since;  // the first of them in a row
  std::string message;     // of the last one
};

// A rank block's first rank, and the epoch of its home.
using RankAndEpoch = std::pair<int64_t, int64_t>;

// Why a job is not admitted.
struct Refusal {
  std::string reason;  // one of wait_reason
  std::string message;
};

// What is known of the job's plan; the plan itself stands in the status.
struct PlanObservation {
  std::string reason;  // of the condition Planned; empty: the job has no model
  std::string message;
  bool made = false;
  bool pending = false;
  bool refused = false;  // the job does not go on without a plan
};

struct JobObservation {
  const TrainingJob* job = nullptr;
  const TrainingJobStatus* status = nullptr;  // the operator's own, newest copy
  GangShape shape;
  std::optional<Refusal> refusal;  // set: not admitted
  PlanObservation plan;
  bool admission_pending = false;  // the dry run has not answered yet
  std::string command_warning;     // empty: none
  std::string ignored_fields;      // empty: none
  std::string not_direct;          // why kube-scheduler binds; empty: it is to, or need not
  // The queue takes its running jobs back; the text says which queue, and what to do.
  std::optional<Refusal> drained;
  // Homes of the rank blocks, in rank order; empty: not placed.
  const std::vector<scheduler::RankBlock>* blocks = nullptr;
  const std::map<std::string, JobPod>* pods = nullptr;  // by name, without namespace
  // Names sent to the API server and not seen yet, with the time of sending.
  const std::map<std::string, base::SteadyTime>* creating = nullptr;
  // UIDs that we asked to delete; true: by force.
  const std::map<std::string, bool>* deleting = nullptr;
  // What the pod's launcher told; null: nothing.
  std::function<const WorkerReport*(const kube::Pod&)> report_of = [](const kube::Pod&) {
    return nullptr;
  };
  // When the agent of the node said anything last.
  std::function<base::SteadyTime(std::string_view)> agent_heard = [](std::string_view) {
    return base::SteadyTime();
  };
  std::function<bool(std::string_view)> node_exists;
  std::function<bool(std::string_view)> node_ready;
  absl::Time now;  // to be written; intervals are measured otherwise
  base::SteadyTime steady_now;
  // Since moments that the status records; a stepped wall clock does not change them.
  absl::Duration since_placed;
  absl::Duration since_completed;
  absl::Duration since_restart;
  bool can_build = true;  // false: pods that are missing cannot be made
  // Pods that the API server refuses to create, by name.
  const std::map<std::string, CreateError>* create_errors = nullptr;
  // Blocks whose pod has succeeded: they are done, whatever becomes of the pod.
  const std::set<RankAndEpoch>* succeeded = nullptr;
  base::SteadyTime start_after;  // back-off: no pod, no place before
  base::SteadyTime last_bind;    // when a pod of any gang was bound last
  absl::Duration bind_deadline = absl::Seconds(30);
};

struct PodRemoval {
  std::string name;
  std::string uid;
  bool force = false;  // its node is gone: nobody will confirm the end
};

struct BlockMove {
  size_t block = 0;
  std::string message;
};

struct Restart {
  FirstCause cause;
  RestartDecision decision;
};

struct EventNote {
  bool warning = false;
  std::string reason;
  std::string message;
};

struct JobDecision {
  TrainingJobStatus status;
  std::vector<size_t> create;  // indexes into blocks
  std::vector<PodRemoval> remove;
  std::vector<std::string> supersede;  // names of kept pods that must lose the live label
  bool want_service = false;
  bool want_place = false;  // belongs into the gang queue
  bool release = false;     // gives its homes back to the ledger
  std::vector<BlockMove> moves;
  std::optional<Restart> restart;
  std::optional<Refusal> withdraw;  // the gang cannot be completed: all or none
  bool delete_job = false;          // ttlSecondsAfterFinished has passed
  std::vector<EventNote> events;
  absl::Duration look_again = absl::InfiniteDuration();  // when time alone changes the decision
};

JobDecision DecideJob(const JobObservation& observation);

// True for a job that has Succeeded or Failed.
bool Finished(const TrainingJobStatus& status);

// The word for people in status.state.
std::string StateOf(const TrainingJobStatus& status, bool placed);

// status.placement.runs from blocks: consecutive blocks of one domain and epoch are one run.
std::vector<PlacementRun> RunsOf(const std::vector<scheduler::RankBlock>& blocks,
                                 int64_t ranks_per_block,
                                 const std::function<std::string(std::string_view)>& domain_of);
std::vector<scheduler::RankBlock> BlocksOf(const PlacementStatus& placement);

// The same for status.placement.spares.
std::vector<SpareRun> SpareRunsOf(const std::vector<scheduler::Spare>& spares);
std::vector<scheduler::Spare> SparesOf(const PlacementStatus& placement);

}  // namespace asterism::operators
