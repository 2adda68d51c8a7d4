// File: operator/training_job.h
//
// A TrainingJob (asterism.dev/v1alpha1) as plain structs: what users wrote in spec, and the status
// that this operator alone writes.
//
//   ASSIGN_OR_RETURN(TrainingJob job, ParseTrainingJob(json));
//   job.status.placement.epoch
//
// The API server has checked the schema and CEL rules before; the parser trusts neither: a wrong
// type is an error that names the field, a number out of range too. Fields it does not know are
// kept in `object`, from which pods are built.
//
// Thread-safety: values. Cost: parsing about 80 us (operator_bench).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/client.h"
#include "kube/object.h"
#include "nlohmann/json_fwd.hpp"
#include "operator/node_ranges.h"

namespace asterism::operators {

inline constexpr kube::ResourceType kTrainingJobs{
    "asterism.dev",    "v1alpha1", "trainingjobs", "TrainingJob", /*namespaced=*/true,
    /*protobuf=*/false};

enum class JobClass { kPretraining, kFinetuning, kSearch };
enum class Framework { kTorchRun, kMegatronLm, kDeepSpeed, kFsdp, kMpi, kPlain };
enum class SuccessPolicy { kAllRanks, kRankZero };
enum class FailureAction { kFailJob, kRestart, kRestartAndIgnoreMaxRestarts };

// The words of the API ("MegatronLM"), and of labels and metrics ("pretraining").
std::string_view ToString(JobClass value);
std::string_view ToLabel(JobClass value);
std::string_view ToString(Framework value);
std::string_view ToString(FailureAction value);
std::optional<JobClass> ParseJobClass(std::string_view word);  // "Finetuning"

struct JobLevelRule {
  std::string level;
  int64_t block_gpus = 0;  // the parser fills in spec.gpus where it is absent
  bool required = true;
  std::optional<int64_t> max_wait_seconds;
};

struct FailureRule {
  std::vector<int32_t> exit_codes;       // empty: any
  std::optional<std::string> on_reason;  // NodeFailure, Preempted, OOMKilled, AppError
  FailureAction action = FailureAction::kRestart;
};

struct FailurePolicy {
  int64_t max_restarts = 3;
  int64_t reset_after_seconds = 3600;
  int64_t backoff_seconds = 10;
  std::vector<FailureRule> rules;
};

// spec.failover.spares.
struct SpareWish {
  bool automatic = false;  // Auto: `count` follows from the size of the gang
  int64_t count = 0;

  bool operator==(const SpareWish&) const = default;
};

struct TrainingJobSpec {
  std::string queue = "default";
  std::optional<JobClass> job_class;
  std::string priority_class_name;
  bool preemptible = true;
  int64_t gpus = 0;
  std::optional<int64_t> min_gpus;
  std::optional<int64_t> gpus_per_pod;
  std::vector<std::string> gpu_products;
  std::string resource_name = "nvidia.com/gpu";
  Framework framework = Framework::kTorchRun;
  std::optional<int64_t> processes_per_pod;
  std::string container_name = "trainer";
  bool has_model = false;
  std::string plan_mode;  // Apply, Advise, Off or empty
  std::vector<JobLevelRule> levels;
  std::string placement_policy = "Auto";
  FailurePolicy failure_policy;
  SpareWish spares;
  bool launcher_auto = true;
  std::string progress_file;  // empty: none
  std::optional<int64_t> progress_deadline_seconds;
  std::string shared_memory = "Auto";  // Auto, Off or a quantity
  int64_t master_port = 29500;
  bool master_port_stated = false;  // else it is derived for pods on the host network
  std::optional<int64_t> active_deadline_seconds;
  std::optional<int64_t> expected_duration_seconds;
  std::optional<int64_t> ttl_seconds_after_finished;
  SuccessPolicy success_policy = SuccessPolicy::kAllRanks;
  bool suspend = false;
};

// One run of consecutive rank blocks inside one domain. Written as a compact range of node names.
struct PlacementRun {
  std::string domain;              // of the innermost level above the node
  std::vector<std::string> nodes;  // one a pod, in rank order; a node may repeat
  int64_t first_rank = 0;
  int64_t ranks = 0;
  int64_t epoch = 0;  // when these blocks got their present home

  bool operator==(const PlacementRun&) const = default;
};

struct PlacementLevelStatus {
  std::string level;
  int64_t domains = 0;
  int64_t ring_cuts = 0;
  int64_t ring_cuts_minimum = 0;

  bool operator==(const PlacementLevelStatus&) const = default;
};

// Consecutive spares that were decided together. Written as a compact range of node names.
struct SpareRun {
  std::vector<std::string> nodes;  // in the order in which they would be used; a node may repeat
  int64_t epoch = 0;

  bool operator==(const SpareRun&) const = default;
};

struct PlacementStatus {
  int64_t epoch = 0;   // kept for ever, also while the job has no home
  std::string digest;  // of the homes of the ranks
  std::vector<PlacementLevelStatus> levels;
  std::vector<PlacementRun> runs;  // empty: not placed
  std::vector<SpareRun> spares;

  bool operator==(const PlacementStatus&) const = default;
};

struct WaitingStatus {
  std::string reason;  // empty: not waiting
  std::string message;
  int64_t queue_position = 0;
  std::string nearest_change;
  std::optional<absl::Time> predicted_start;

  bool operator==(const WaitingStatus&) const = default;
};

struct FirstCause {
  absl::Time time = absl::InfinitePast();
  std::string reason;
  std::string message;
  int64_t rank = 0;
  std::string pod;
  std::string node;
  std::optional<int32_t> exit_code;
  std::optional<int32_t> signal;
  // Of the container, where exit_code is that of one rank in it. Not kept in the status.
  std::optional<int32_t> container_exit_code;

  bool operator==(const FirstCause&) const = default;
};

struct RestartStatus {
  int64_t count = 0;
  int64_t counted = 0;  // since the last quiet period; what maxRestarts limits
  std::optional<FirstCause> last;

  bool operator==(const RestartStatus&) const = default;
};

struct EffectiveStatus {
  std::string job_class;
  int64_t gpus_per_pod = 0;
  std::string gpu_product;
  int64_t processes_per_pod = 0;
  int64_t pods = 0;
  int64_t spares = 0;  // that it is to have

  bool operator==(const EffectiveStatus&) const = default;
};

struct PodCounts {
  int64_t desired = 0;
  int64_t bound = 0;
  int64_t running = 0;
  int64_t succeeded = 0;
  int64_t failed = 0;

  bool operator==(const PodCounts&) const = default;
};

struct TimingStatus {
  std::optional<int64_t> queued_ms;
  std::optional<int64_t> decide_us;
  std::optional<int64_t> commit_ms;
  std::optional<int64_t> start_ms;

  bool operator==(const TimingStatus&) const = default;
};

// How far the job says it is.
struct ProgressStatus {
  int64_t step = 0;
  double step_time_ms = 0;       // 0: not told
  double tokens_per_second = 0;  // 0: not told
  absl::Time updated = absl::InfinitePast();

  bool operator==(const ProgressStatus&) const = default;
};

// An estimate with the interval in which nine of ten measurements lie.
struct EstimateStatus {
  double value = 0;
  double low = 0;
  double high = 0;

  bool operator==(const EstimateStatus&) const = default;
};

// A variable of the training container.
struct PlanVariable {
  std::string name;
  std::string value;

  bool operator==(const PlanVariable&) const = default;
};

// Consecutive blocks of ranks that a plan wants inside one domain of a level.
struct PlanBlock {
  std::string level;
  int64_t gpus = 0;
  // That a GPU sends inside such a block, and out of domains of the level where it is split.
  int64_t bytes_per_step = 0;

  bool operator==(const PlanBlock&) const = default;
};

// What the planner chose. It is the record: pods are made from it, also after a restart of the
// controller.
struct PlanStatus {
  // Of what the job says, and of the cluster that was planned for: the plan is made anew when they
  // change.
  std::string spec_digest;
  std::string cluster_digest;
  std::string model_digest;  // of the ConfigMap's config.json; empty without one
  std::string gpu_product;
  int64_t gpus = 0;                                      // that it uses; 0: there is no plan
  std::vector<std::pair<std::string, int64_t>> degrees;  // in the planner's order
  int64_t micro_batch_size = 0;
  EstimateStatus step_time_ms;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t device_bytes = 0;
  std::string bound_by;
  std::vector<std::string> arguments;  // without what the command says already
  std::vector<PlanVariable> variables;
  std::string file_name;  // empty: the framework has none
  std::string file_text;
  std::vector<PlanBlock> blocks;  // inner to outer
  std::string tables_version;

  bool operator==(const PlanStatus&) const = default;
};

struct TrainingJobStatus {
  int64_t observed_generation = 0;
  std::vector<kube::Condition> conditions;  // sorted by type
  std::string state;
  std::optional<absl::Time> start_time;
  std::optional<absl::Time> completion_time;
  int64_t gpus = 0;  // GPUs held, for the scale subresource
  std::string selector;
  std::string placed;  // "64/64"
  EffectiveStatus effective;
  PodCounts pods;
  WaitingStatus waiting;
  PlacementStatus placement;
  PlanStatus plan;
  RestartStatus restarts;
  TimingStatus timings;
  std::optional<ProgressStatus> progress;  // kept when the job has ended

  bool operator==(const TrainingJobStatus&) const = default;

  bool Is(std::string_view condition_type) const;  // status True
};

struct TrainingJob {
  kube::ObjectMeta meta;
  TrainingJobSpec spec;
  TrainingJobStatus status;
  // Whole, as the server sent it, without metadata.managedFields.
  std::shared_ptr<const nlohmann::json> object;
  size_t bytes = 0;  // of the text that it was read from

  // "namespace/name".
  std::string Key() const { return meta.Key(); }
};

absl::StatusOr<TrainingJob> ParseTrainingJob(std::string_view json);
// For a job that is only asked about: a status in it does not count, whatever it is.
absl::StatusOr<TrainingJob> ParseTrainingJobWithoutStatus(std::string_view json);

// The body of a server-side apply on /status: apiVersion, kind, metadata.name and the whole status.
// Empty parts are left out; texts are cut to what the schema allows. Times are RFC 3339 with
// seconds (conditions) as metav1.Time wants, the time of a first cause with microseconds.
// A resource_version makes the write conditional: kAborted when the object has changed since.
std::string StatusApplyBody(const kube::ObjectMeta& meta, const TrainingJobStatus& status,
                            std::string_view resource_version = {});

}  // namespace asterism::operators
