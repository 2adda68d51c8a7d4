// What a job's visit does through the API server: pods, the Service, the status.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "operator/conditions.h"
#include "operator/direct_commit.h"
#include "operator/job_controller.h"

namespace asterism::operators {
namespace {

// What comes back is read like a template.
constexpr kube::ResourceType kPodsAsJson{"", "v1", "pods", "Pod", true, /*protobuf=*/false};

// A status of 1,280 pods costs the API server 25 ms of CPU: its counters are written every 5 s.
constexpr absl::Duration kCounterWriteInterval = absl::Seconds(2);
constexpr absl::Duration kCounterWritePerPod = absl::Milliseconds(4);
constexpr absl::Duration kCounterWriteIntervalMax = absl::Seconds(10);
// With many jobs in the queue, each pass changes the positions of all: at most 100 writes a second.
constexpr absl::Duration kCounterWriteSpacing = absl::Milliseconds(10);
// etcd's answer, which the API server passes on as an internal error.
constexpr absl::string_view kTooLarge = "request is too large";
constexpr absl::Duration kRetryMax = absl::Seconds(30);

absl::Duration RetryDelay(int failures) {
  return std::min(kRetryFirst * (1 << std::min(failures, 10)), kRetryMax);
}

std::string ResultLabel(const absl::Status& status) {
  return status.ok() ? "ok" : absl::StatusCodeToString(status.code());
}

}  // namespace

bool Hopeless(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsNotFound(status);
}

std::string_view WithdrawReason(const absl::Status& status) {
  if (absl::StrContains(status.message(), "exceeded quota")) {
    return wait_reason::kQuotaExceeded;
  }
  return absl::IsInvalidArgument(status) ? wait_reason::kInvalidTemplate : wait_reason::kBindFailed;
}

// The API server judges the template before GPUs are promised to it.
void JobController::StartDryRun(JobState& state) {
  state.dry_run = DryRun::kInFlight;
  ++dry_runs_in_flight_;
  state.dry_run_again.reset();
  if (state.dry_run_generation != state.meta().generation) {
    state.dry_run_error.clear();
    state.dry_run_needs.reset();
  }
  state.dry_run_generation = state.meta().generation;
  std::string body = state.admission.builder->PodBody({.first_rank = 0, .node = "", .epoch = 0});
  client_.Create(kPodsAsJson, state.meta().namespace_name, std::move(body), {.dry_run = true},
                 kube::Lane::kWrite,
                 alive_.Wrap([this, uid = state.meta().uid](absl::StatusOr<kube::Reply> reply) {
                   --dry_runs_in_flight_;
                   const auto found = jobs_.find(uid);
                   if (found == jobs_.end()) {
                     return;
                   }
                   OnDryRun(*found->second, reply);
                 }));
}

void JobController::OnDryRun(JobState& state, const absl::StatusOr<kube::Reply>& reply) {
  const absl::Status& status = reply.status();
  const bool forbidden = absl::IsPermissionDenied(status);
  const bool quota = forbidden && WithdrawReason(status) == wait_reason::kQuotaExceeded;
  // A quota may have room by the time the gang is placed.
  if (status.ok() || absl::IsAlreadyExists(status) || quota) {
    state.dry_run = DryRun::kPassed;
    state.dry_run_error.clear();
    state.dry_run_failures = 0;
    TakeServerPod(state, reply);
    MarkDirty(state.meta().uid);
    return;
  }
  if (forbidden || absl::IsInvalidArgument(status)) {
    state.dry_run = DryRun::kRefused;
    state.dry_run_error = fmt::format("the API server refuses the pod of spec.template: {}",
                                      base::ToStd(status.message()));
    MarkDirty(state.meta().uid);
  } else {
    state.dry_run = DryRun::kNotAsked;
  }
  if (!absl::IsInvalidArgument(status)) {
    // What forbids may change without the job: a service account that is made a moment later, the
    // rights of a fresh API server, a namespace's pod security.
    const absl::Duration delay = RetryDelay(state.dry_run_failures++);
    state.dry_run_again = clock_.SteadyNow() + delay;
    Remind(state, delay);
  }
}

// The pod as defaults, admission and webhooks leave it is what the kubelet will be asked for.
void JobController::TakeServerPod(JobState& state, const absl::StatusOr<kube::Reply>& reply) {
  absl::StatusOr<PodNeeds> needs =
      reply.ok() ? ReadPodNeeds(reply->body) : absl::StatusOr<PodNeeds>(reply.status());
  if (needs.ok()) {
    state.dry_run_needs = *std::move(needs);
    ApplyPodNeeds(*state.dry_run_needs, feed_.resources(), state.admission);
  }
}

// Why the pod of a block may not be bound by us at this moment; empty: it may.
std::string JobController::WhyNotBoundNow(const JobState& state, const std::string& node) const {
  if (!feed_.TakesBoundPods(node, state.admission.fit)) {
    return fmt::format(
        "node {} is cordoned, not Ready, not closed by the taint {}, or its labels and taints do "
        "not suit the pod any more",
        node, kManagedTaint);
  }
  if (feed_.IsOverbooked(node)) {
    return fmt::format("node {} has another holder", node);
  }
  const std::string pod = options_.in_flight == nullptr ? "" : options_.in_flight->Any();
  if (!pod.empty()) {
    return fmt::format("kube-scheduler is binding single pods, {} for one", pod);
  }
  return "";
}

bool JobController::CommitsDirectly(JobState& state, const scheduler::RankBlock& block) const {
  if (state.admission.commit != CommitMode::kDirect || !state.admission.not_direct.empty()) {
    return false;
  }
  std::string why_not = WhyNotBoundNow(state, block.node);
  if (why_not.empty()) {
    return true;
  }
  state.fallback = std::move(why_not);
  return false;
}

void JobController::CreatePod(JobState& state, size_t block_index) {
  const scheduler::RankBlock& block = state.blocks[block_index];
  const std::string name = PodName(state.meta(), block.first_rank, block.epoch);
  state.creating[name] = clock_.SteadyNow();
  std::string domain;
  for (const PlacementRun& run : state.status.placement.runs) {
    if (block.first_rank >= run.first_rank && block.first_rank < run.first_rank + run.ranks) {
      domain = run.domain;
      break;
    }
  }
  std::string body = state.admission.builder->PodBody({.first_rank = block.first_rank,
                                                       .node = block.node,
                                                       .epoch = block.epoch,
                                                       .domain = std::move(domain),
                                                       .port = feed_.OffersPort(block.node),
                                                       .bound = CommitsDirectly(state, block)});
  client_.Create(
      kube::kPods, state.meta().namespace_name, std::move(body), {}, kube::Lane::kWrite,
      alive_.Wrap([this, uid = state.meta().uid, name,
                   epoch = state.status.placement.epoch](absl::StatusOr<kube::Reply> reply) {
        OnPodCreated(uid, name, epoch, reply);
      }));
}

void JobController::OnPodCreated(const std::string& uid, const std::string& name, int64_t epoch,
                                 const absl::StatusOr<kube::Reply>& reply) {
  metrics_.pod_writes.With({"create", ResultLabel(reply.status())}).Add();
  const auto found = jobs_.find(uid);
  if (found == jobs_.end()) {
    return;
  }
  JobState& state = *found->second;
  if (reply.ok()) {
    state.create_failures = 0;
    return;  // the watch shows it and takes it out of `creating`
  }
  if (absl::IsAlreadyExists(reply.status())) {
    ConfirmExistingPod(uid, name, epoch);
    return;
  }
  state.creating.erase(name);
  const bool current = !state.blocks.empty() && state.status.placement.epoch == epoch;
  if (Hopeless(reply.status()) && current && !state.gone) {
    Withdraw(state, WithdrawReason(reply.status()),
             fmt::format("pod {}: {}", name, base::ToStd(reply.status().message())));
    return;
  }
  NoteCreateError(state, name, reply.status());
}

// Only what the API server itself answered counts against the gang: while it is away, nobody can
// bind anything anyhow.
void JobController::NoteCreateError(JobState& state, const std::string& name,
                                    const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    state.create_errors.clear();
  } else {
    CreateError& error =
        state.create_errors.try_emplace(name, CreateError{clock_.SteadyNow(), ""}).first->second;
    error.message = base::ToStd(status.message());
  }
  // Of a burst of failures the first one sets the pause.
  if (const base::SteadyTime now = clock_.SteadyNow(); now >= state.start_after) {
    state.start_after = now + RetryDelay(state.create_failures++);
  }
  MarkDirty(state.meta().uid);
}

// The name is taken: by our own earlier attempt, or by somebody else's pod.
void JobController::ConfirmExistingPod(const std::string& uid, const std::string& name,
                                       int64_t epoch) {
  const auto found = jobs_.find(uid);
  if (found == jobs_.end()) {
    return;
  }
  client_.Get(kube::kPods, {found->second->meta().namespace_name, name}, kube::Lane::kWrite,
              alive_.Wrap([this, uid, name, epoch](absl::StatusOr<kube::Reply> reply) {
                const auto again = jobs_.find(uid);
                if (again == jobs_.end()) {
                  return;
                }
                JobState& state = *again->second;
                if (reply.ok()) {
                  const absl::StatusOr<kube::RawObject> object = kube::ObjectOf(*reply);
                  const absl::StatusOr<kube::Pod> pod =
                      object.ok() ? kube::DecodePod(*object) : object.status();
                  GangPodMark mark;
                  if (pod.ok() && ReadGangPodMark(*pod, mark) && mark.job_uid == uid) {
                    return;  // ours; the watch shows it
                  }
                  state.creating.erase(name);
                  if (!state.blocks.empty() && state.status.placement.epoch == epoch) {
                    Withdraw(
                        state, wait_reason::kBindFailed,
                        fmt::format("a pod {} exists that is not of this job: delete it", name));
                  }
                  return;
                }
                state.creating.erase(name);
                Remind(state, kRetryFirst);
              }));
}

void JobController::RemovePod(JobState& state, const PodRemoval& removal) {
  if (!may_write_()) {
    return;
  }
  state.deleting[removal.uid] = removal.force;
  kube::DeleteOptions options{.uid = removal.uid};
  if (removal.force) {
    options.grace_period_seconds = 0;
  }
  client_.Delete(kube::kPods, {state.meta().namespace_name, removal.name}, std::move(options),
                 alive_.Wrap([this, uid = state.meta().uid,
                              pod_uid = removal.uid](absl::StatusOr<kube::Reply> reply) {
                   metrics_.pod_writes.With({"delete", ResultLabel(reply.status())}).Add();
                   const auto found = jobs_.find(uid);
                   // A conflict means that the UID is another pod's by now: ours is gone.
                   if (found == jobs_.end() || reply.ok() || absl::IsAborted(reply.status())) {
                     return;
                   }
                   found->second->deleting.erase(pod_uid);
                   Remind(*found->second, kRetryFirst);
                 }));
}

void JobController::Supersede(JobState& state, const std::string& pod_name) {
  client_.Patch(kube::kPods, {state.meta().namespace_name, pod_name},
                fmt::format(R"({{"metadata":{{"labels":{{"{}":null}}}}}})", kLiveLabel),
                {.type = kube::PatchType::kMerge},
                alive_.Wrap([this, uid = state.meta().uid,
                             pod_name](const absl::StatusOr<kube::Reply>& reply) {
                  const auto found = jobs_.find(uid);
                  if (found != jobs_.end() && !reply.ok()) {
                    found->second->superseding.erase(pod_name);
                    Remind(*found->second, kRetryFirst);
                  }
                }));
}

void JobController::DeleteJob(JobState& state) {
  client_.Delete(kTrainingJobs, {state.meta().namespace_name, state.meta().name},
                 {.uid = state.meta().uid, .propagation = "Background"},
                 alive_.Wrap([this, uid = state.meta().uid](absl::StatusOr<kube::Reply> reply) {
                   if (!reply.ok() && jobs_.contains(uid)) {
                     Remind(*jobs_.at(uid), absl::Seconds(5));
                   }
                 }));
}

void JobController::WriteStatus(JobState& state) {
  StatusWriter& writer = state.writer;
  if (writer.in_flight || state.gone || state.status == writer.acknowledged || !may_write_()) {
    return;
  }
  const base::SteadyTime now = clock_.SteadyNow();
  if (SameButCounters(state.status, writer.acknowledged)) {
    const absl::Duration since = now - writer.last_write;
    const auto pods = static_cast<int64_t>(state.blocks.size());
    const absl::Duration interval = std::max(
        std::clamp(kCounterWritePerPod * pods, kCounterWriteInterval, kCounterWriteIntervalMax),
        kCounterWriteSpacing * dispatcher_.size());
    if (since < interval) {
      Remind(state, interval - since);
      return;
    }
  }
  writer.in_flight = state.status;
  writer.last_write = now;
  client_.Patch(kTrainingJobs, {state.meta().namespace_name, state.meta().name},
                StatusApplyBody(state.meta(), state.status, writer.resource_version),
                {.type = kube::PatchType::kApply,
                 .subresource = "status",
                 .field_manager = options_.field_manager},
                alive_.Wrap([this, uid = state.meta().uid](absl::StatusOr<kube::Reply> reply) {
                  OnStatusWritten(uid, reply);
                }));
}

void JobController::OnStatusWritten(const std::string& uid,
                                    const absl::StatusOr<kube::Reply>& reply) {
  metrics_.status_writes.With({ResultLabel(reply.status())}).Add();
  const auto found = jobs_.find(uid);
  if (found == jobs_.end()) {
    return;
  }
  JobState& state = *found->second;
  StatusWriter& writer = state.writer;
  if (reply.ok()) {
    writer.acknowledged = *std::exchange(writer.in_flight, std::nullopt);
    writer.failures = 0;
    writer.refused_since.reset();
    const absl::StatusOr<kube::RawObject> object = kube::ObjectOf(*reply);
    const absl::StatusOr<kube::ObjectMeta> meta =
        object.ok() ? kube::DecodeMeta(*object) : object.status();
    if (meta.ok()) {
      writer.resource_version = meta->resource_version;
    }
    MarkDirty(uid);
    return;
  }
  if (absl::IsAborted(reply.status()) || absl::IsDeadlineExceeded(reply.status()) ||
      absl::IsUnavailable(reply.status())) {
    ReadBack(state);  // somebody else wrote, or we do not know whether we did
    return;
  }
  writer.in_flight.reset();
  if (absl::IsNotFound(reply.status())) {
    return;  // deleted; the watch will tell
  }
  const base::SteadyTime now = clock_.SteadyNow();
  if (!writer.refused_since) {
    writer.refused_since = now;
  }
  const bool for_good = absl::IsInvalidArgument(reply.status()) ||
                        absl::StrContains(reply.status().message(), kTooLarge) ||
                        now - *writer.refused_since >= options_.bind_deadline;
  if (for_good && !state.status.placement.runs.empty() &&
      !SameStory(state.status, writer.acknowledged)) {
    // It does not take this placement, and its GPUs are held for nothing.
    Withdraw(state, wait_reason::kInvalidSpec,
             fmt::format("the API server refuses the status that says where the job runs: {}",
                         base::ToStd(reply.status().message())));
    return;
  }
  base::LogWarning("status_write_failed",
                   {{"job", state.meta().Key()}, {"error", std::string(reply.status().message())}});
  Remind(state, RetryDelay(writer.failures++));
}

// The write stays in flight until it is known what the API server has.
void JobController::ReadBack(JobState& state) {
  client_.Get(kTrainingJobs, {state.meta().namespace_name, state.meta().name}, kube::Lane::kWrite,
              alive_.Wrap([this, uid = state.meta().uid](absl::StatusOr<kube::Reply> reply) {
                const auto found = jobs_.find(uid);
                if (found == jobs_.end()) {
                  return;
                }
                JobState& job = *found->second;
                StatusWriter& writer = job.writer;
                const TrainingJobStatus sent = *std::exchange(writer.in_flight, std::nullopt);
                absl::StatusOr<TrainingJob> now = reply.ok()
                                                      ? ParseTrainingJob(reply->body)
                                                      : absl::StatusOr<TrainingJob>(reply.status());
                if (!now.ok() || now->meta.uid != uid) {
                  if (!absl::IsNotFound(reply.status())) {
                    Remind(job, RetryDelay(writer.failures++));
                  }
                  return;
                }
                writer.resource_version = now->meta.resource_version;
                if (SameStory(now->status, writer.acknowledged)) {
                  MarkDirty(uid);  // writes again, should ours be missing
                  return;
                }
                if (SameStory(now->status, sent)) {
                  writer.acknowledged = sent;
                  MarkDirty(uid);
                  return;
                }
                AdoptStatus(job, std::make_shared<const TrainingJob>(*std::move(now)));
              }));
}

// The API server has a status that is not ours: of a leader before us whose write came late, or of
// a person. It rules; this job is rebuilt from it.
void JobController::AdoptStatus(JobState& state, kube::Shared<TrainingJob> job) {
  base::LogWarning("status_adopted", {{"job", job->Key()},
                                      {"epoch", job->status.placement.epoch},
                                      {"ours", state.status.placement.epoch}});
  Release(state);
  dispatcher_.Remove(state.meta().uid);
  state.object = std::move(job);
  state.status = state.object->status;
  state.writer.acknowledged = state.status;
  state.admission_generation = -1;
  RestorePlacement(state);
  if (Overlaps(state)) {
    Withdraw(state, wait_reason::kBindFailed,
             "its place was given to another job while the leader changed");
  } else {
    std::vector<scheduler::Spare> held = state.spares;
    std::erase_if(held, [&](const auto& spare) { return !SpareHolds(state, spare); });
    TakeSpares(state, std::move(held));
  }
  feed_.Publish();
  MarkDirty(state.meta().uid);
}

// Whether a block without a bound pod lies where the GPUs are held by others. What is bound stays.
bool JobController::Overlaps(const JobState& state) const {
  const scheduler::Ledger& ledger = feed_.ledger();
  return std::any_of(state.blocks.begin(), state.blocks.end(), [&](const auto& block) {
    const auto pod = state.pods.find(PodName(state.meta(), block.first_rank, block.epoch));
    const topology::NodeId node = ledger.cluster().FindNode(block.node);
    return (pod == state.pods.end() || pod->second.pod->node_name.empty()) && node.valid() &&
           ledger.Free(node)[state.admission.request.gpu_slot] < 0;
  });
}

}  // namespace asterism::operators
