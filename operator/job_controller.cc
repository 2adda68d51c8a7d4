// Watches, rebuild, and the visit of one job. What the pod watch tells is in job_pods.cc, what a
// visit does to placements in job_placements.cc, to plans in job_planning.cc, and through the API
// server in job_writes.cc and job_companions.cc.
#include "operator/job_controller.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/resource_version.h"
#include "operator/conditions.h"
#include "topology/node_labels.h"

namespace asterism::operators {
namespace {

// A pod that the API server took and the watch never showed was deleted in between.
constexpr absl::Duration kCreateForgotten = absl::Seconds(60);
constexpr size_t kVisitsPerSlice = 64;
// A new leader asks for every waiting job: more at once would delay its own Lease.
constexpr int kDryRunsMax = 32;
constexpr absl::Duration kDryRunTurn = absl::Milliseconds(50);
// How soon a Service that somebody deleted under a running job comes back.
constexpr absl::Duration kServiceLook = absl::Seconds(60);

// What we write on a node ourselves is no news.
bool SameForTemplates(const kube::StringPairs& left, const kube::StringPairs& right) {
  const auto ours = [](const auto& label) {
    return std::string_view(label.first).starts_with(topology::kDomainLabelPrefix);
  };
  auto one = left.begin();
  auto other = right.begin();
  while (true) {
    one = std::find_if_not(one, left.end(), ours);
    other = std::find_if_not(other, right.end(), ours);
    if (one == left.end() || other == right.end()) {
      return one == left.end() && other == right.end();
    }
    if (*one++ != *other++) {
      return false;
    }
  }
}

}  // namespace

bool SameButCounters(const TrainingJobStatus& left, const TrainingJobStatus& right) {
  // Member by member, since a placement has thousands of node names to copy.
  const auto others = [](const TrainingJobStatus& status) {
    // Whoever adds a member has to say here whether it counts.
    const auto& [generation, conditions, state, start, completion, gpus, selector, placed,
                 effective, pods, waiting, placement, plan, restarts, timings, progress] = status;
    return std::tie(generation, state, start, completion, gpus, selector, placed, effective,
                    waiting.reason, restarts, placement, plan);
  };
  // Why it waits in detail changes with every pass; the reason is what others act on.
  const auto same_condition = [&](const kube::Condition& a, const kube::Condition& b) {
    const bool detail = a.type == kPlaced && !left.waiting.reason.empty();
    return a.type == b.type && a.status == b.status && a.reason == b.reason &&
           a.observed_generation == b.observed_generation &&
           a.last_transition_time == b.last_transition_time && (detail || a.message == b.message);
  };
  return others(left) == others(right) &&
         std::equal(left.conditions.begin(), left.conditions.end(), right.conditions.begin(),
                    right.conditions.end(), same_condition);
}

bool SameStory(const TrainingJobStatus& left, const TrainingJobStatus& right) {
  return left.placement.epoch == right.placement.epoch &&
         left.placement.digest == right.placement.digest &&
         left.placement.runs.empty() == right.placement.runs.empty() &&
         left.placement.spares == right.placement.spares &&
         left.Is(kSucceeded) == right.Is(kSucceeded) && left.Is(kFailed) == right.Is(kFailed);
}

JobController::JobController(base::Clock& clock, base::Executor& executor, kube::Client& client,
                             ClusterFeed& feed, const AdmissionEnvironment& environment,
                             JobMetrics& metrics, Recorder record, MayWrite may_write,
                             Options options)
    : clock_(clock),
      executor_(executor),
      client_(client),
      feed_(feed),
      environment_(environment),
      metrics_(metrics),
      record_(std::move(record)),
      may_write_(std::move(may_write)),
      options_(std::move(options)),
      dispatcher_(clock, feed),
      work_(clock, executor, {}, [this] { VisitDue(); }),
      pass_timer_(executor) {}

JobController::~JobController() {
  // A standby's ledger holds what it sees, not what a leader decided; its gauges are empty.
  for (const auto& [uid, state] : jobs_) {
    feed_.ledger().RemoveGang(uid);
    CountState(*state, "");
  }
  base::SetAll(metrics_.queue_jobs, {});
  base::SetAll(metrics_.queue_oldest_seconds, {});
}

void JobController::Start(const kube::Store<TrainingJob>& jobs,
                          const kube::Store<kube::Pod>& pods) {
  jobs.ForEach([&](const kube::Shared<TrainingJob>& job) { AdoptJob(job); });
  GangPodMark mark;
  pods.ForEach([&](const kube::Shared<kube::Pod>& pod) {
    if (ReadGangPodMark(*pod, mark)) {
      AdoptPod(pod, mark);
    }
  });
  for (const auto& [uid, state] : jobs_) {
    RestorePlacement(*state);
    MarkDirty(uid);
  }
  feed_.Publish();
  base::LogInfo("jobs_rebuilt", {{"jobs", static_cast<uint64_t>(jobs_.size())}});
}

void JobController::AdoptJob(kube::Shared<TrainingJob> job) {
  const std::string uid = job->meta.uid;
  std::unique_ptr<JobState>& state = jobs_[uid];
  if (state == nullptr) {
    state = std::make_unique<JobState>(std::move(job));
    state->queued_since = clock_.SteadyNow();
  } else {
    StatusWriter& writer = state->writer;
    const auto order =
        kube::CompareResourceVersions(job->meta.resource_version, writer.resource_version);
    if (!writer.in_flight && order && *order > 0) {
      writer.resource_version = job->meta.resource_version;
      if (!SameStory(job->status, writer.acknowledged)) {
        AdoptStatus(*state, std::move(job));
        return;
      }
    }
    state->object = std::move(job);
  }
}

// status.placement rules for blocks without a pod, the pin of the pod where both exist.
void JobController::RestorePlacement(JobState& state) {
  if (Finished(state.status) || state.status.placement.runs.empty()) {
    return;
  }
  state.blocks = BlocksOf(state.status.placement);
  RefreshAdmission(state);
  const GangShape& shape = state.admission.shape;
  bool consistent = static_cast<int64_t>(state.blocks.size()) == shape.pods;
  for (size_t i = 0; consistent && i < state.blocks.size(); ++i) {
    consistent = state.blocks[i].first_rank == static_cast<int64_t>(i) * shape.processes_per_pod;
  }
  if (!consistent) {
    base::LogError("placement_unreadable", {{"job", state.meta().Key()}});
    state.blocks.clear();
    state.status.placement.runs.clear();
    return;
  }
  for (scheduler::RankBlock& block : state.blocks) {
    const auto pod = state.pods.find(PodName(state.meta(), block.first_rank, block.epoch));
    if (pod != state.pods.end() && !pod->second.pod->pinned_node_name.empty()) {
      block.node = pod->second.pod->pinned_node_name;
    }
  }
  state.spares = SparesOf(state.status.placement);
  state.placed_at = clock_.SteadyNow();
  BookGang(state);
}

void JobController::OnJob(const kube::Change<TrainingJob>& change) {
  if (change.before != nullptr &&
      (change.after == nullptr || change.after->meta.uid != change.before->meta.uid)) {
    if (const auto found = jobs_.find(change.before->meta.uid); found != jobs_.end()) {
      found->second->gone = true;
      MarkDirty(change.before->meta.uid);
    }
  }
  if (change.after != nullptr) {
    AdoptJob(change.after);
    MarkDirty(change.after->meta.uid);
  }
}

void JobController::OnNode(const kube::Change<kube::Node>& change) {
  const kube::Node* before = change.before.get();
  const kube::Node* after = change.after.get();
  const bool both = before != nullptr && after != nullptr;
  const bool same_use =
      both && before->unschedulable == after->unschedulable && before->Ready() == after->Ready();
  // What admission looks at: its GPUs, and what selectors and tolerations can see.
  const bool same_kind = both && before->allocatable == after->allocatable &&
                         SameForTemplates(before->meta.labels, after->meta.labels) &&
                         before->taints == after->taints;
  if (!same_kind) {
    ++environment_version_;
    MarkAllDirty();
  } else if (!same_use) {
    MarkJobsOnNode(after->meta.name);
  } else {
    return;  // a heartbeat
  }
  RequestPass();
}

void JobController::MarkJobsOnNode(const std::string& node) {
  for (const auto& [uid, state] : jobs_) {
    const auto there = [&](const auto& home) { return home.node == node; };
    if (std::any_of(state->blocks.begin(), state->blocks.end(), there) ||
        std::any_of(state->spares.begin(), state->spares.end(), there)) {
      MarkDirty(uid);
    }
  }
}

void JobController::OnEnvironmentChange() {
  ++environment_version_;
  MarkAllDirty();
  RequestPass();
}

void JobController::MarkAllDirty() {
  for (const auto& [uid, state] : jobs_) {
    if (!Finished(state->status)) {
      MarkDirty(uid);
    }
  }
}

void JobController::Remind(JobState& state, absl::Duration delay) {
  work_.AddAfter(state.meta().uid, delay);
}

// A visit costs O(pods): a large gang, whose pods tell something all the time, waits for more of
// it.
void JobController::MarkDirty(const std::string& uid) {
  const auto found = jobs_.find(uid);
  const auto pods = static_cast<int64_t>(found == jobs_.end() ? 0 : found->second->pods.size());
  work_.AddAfter(uid,
                 std::min(options_.settle + options_.settle_per_pod * pods, options_.settle_max));
}

void JobController::VisitDue() {
  // In slices, so that the Lease is renewed and watches are read in between.
  for (size_t visits = 0; visits < kVisitsPerSlice; ++visits) {
    const std::optional<std::string> uid = work_.Take();
    if (!uid) {
      return;
    }
    if (const auto found = jobs_.find(*uid); found != jobs_.end()) {
      Visit(*found->second);
      ForgetIfDone(*uid);
    }
    work_.Done(*uid);
  }
  executor_.Post(alive_.Wrap([this] { VisitDue(); }));
}

void JobController::ForgetIfDone(const std::string& uid) {
  const auto found = jobs_.find(uid);
  if (found != jobs_.end() && found->second->gone && found->second->pods.empty()) {
    jobs_.erase(found);
  }
}

void JobController::AskDryRunWhenDue(JobState& state) {
  const base::SteadyTime now = clock_.SteadyNow();
  if (state.dry_run_generation != state.meta().generation ||
      (state.dry_run_again && now >= *state.dry_run_again)) {
    if (dry_runs_in_flight_ < kDryRunsMax) {
      StartDryRun(state);
    } else {
      Remind(state, kDryRunTurn);
    }
  } else if (state.dry_run_again) {
    Remind(state, *state.dry_run_again - now);
  }
}

// The object is gone from the API server: its pods go too, without waiting for the garbage
// collector, which takes them one by one at its own slow rate.
void JobController::VisitGone(JobState& state) {
  dispatcher_.Remove(state.meta().uid);
  Release(state);
  CountState(state, "");
  for (const auto& [name, job_pod] : state.pods) {
    const bool node_lost =
        !job_pod.pod->node_name.empty() && !feed_.HasNode(job_pod.pod->node_name);
    const auto asked = state.deleting.find(job_pod.pod->meta.uid);
    if (asked == state.deleting.end() || (node_lost && !asked->second)) {
      RemovePod(state, {name, job_pod.pod->meta.uid, node_lost});
    }
  }
}

void JobController::Visit(JobState& state) {
  if (state.gone) {
    VisitGone(state);
    return;
  }
  if (Finished(state.status)) {
    state.admission = {};  // megabytes, over thousands of jobs that stay for their status
  } else {
    RefreshAdmission(state);
    if (RefreshPlan(state)) {
      state.admission_generation = -1;
      RefreshAdmission(state);
    }
  }
  const bool planned = !state.planning.pending && !state.planning.refused;
  if (planned && state.blocks.empty() && state.admission.builder &&
      state.dry_run != DryRun::kInFlight) {
    AskDryRunWhenDue(state);
  }
  std::erase_if(state.creating, [&](const auto& sent) {
    return clock_.SteadyNow() - sent.second > kCreateForgotten;
  });
  JobDecision decision = DecideJob(Observe(state));
  CarryOut(state, decision);
  CountState(state, state.status.state);
}

void JobController::ReportQueue() {
  std::map<std::vector<std::string>, double> jobs;
  std::map<std::vector<std::string>, double> oldest;
  for (const auto& [uid, state] : jobs_) {
    const TrainingJobStatus& status = state->status;
    if (state->gone || status.waiting.reason.empty()) {
      continue;
    }
    const kube::Condition* placed = kube::FindCondition(status.conditions, kPlaced);
    const absl::Time since = placed != nullptr && placed->status == "False"
                                 ? placed->last_transition_time
                                 : state->meta().creation_time;
    const std::vector<std::string> labels = {status.effective.job_class, status.waiting.reason};
    ++jobs[labels];
    double& longest = oldest[labels];
    longest = std::max(longest, absl::ToDoubleSeconds(state->since_waiting.At(since, clock_)));
  }
  base::SetAll(metrics_.queue_jobs, jobs);
  base::SetAll(metrics_.queue_oldest_seconds, oldest);
}

void JobController::CountState(JobState& state, const std::string& now) {
  if (state.state_in_metrics == now) {
    return;
  }
  if (!state.state_in_metrics.empty()) {
    base::Gauge& gauge = metrics_.jobs.With({state.state_in_metrics});
    gauge.Set(gauge.value() - 1);
  }
  if (!now.empty()) {
    base::Gauge& gauge = metrics_.jobs.With({now});
    gauge.Set(gauge.value() + 1);
  }
  state.state_in_metrics = now;
}

void JobController::ObserveIntervals(JobState& state, JobObservation& seen) const {
  const TrainingJobStatus& status = state.status;
  const kube::Condition* placed = kube::FindCondition(status.conditions, kPlaced);
  if (placed != nullptr && placed->status == "True") {
    seen.since_placed = state.since_placed.At(placed->last_transition_time, clock_);
  }
  if (status.completion_time) {
    seen.since_completed = state.since_completed.At(*status.completion_time, clock_);
  }
  if (status.restarts.last) {
    seen.since_restart = state.since_restart.At(status.restarts.last->time, clock_);
  }
}

JobObservation JobController::Observe(JobState& state) const {
  JobObservation seen;
  seen.job = state.object.get();
  seen.status = &state.status;
  seen.shape = state.admission.shape;
  seen.refusal = state.admission.refusal;
  if (!seen.refusal && !state.dry_run_error.empty()) {
    seen.refusal = Refusal{std::string(wait_reason::kInvalidTemplate), state.dry_run_error};
  }
  seen.admission_pending = state.dry_run != DryRun::kPassed;
  seen.plan = {.reason = state.planning.reason,
               .message = state.planning.message,
               .made = state.planning.made,
               .pending = state.planning.pending,
               .refused = state.planning.refused};
  seen.command_warning = state.admission.command_warning;
  seen.ignored_fields = state.admission.ignored_fields;
  seen.not_direct =
      state.admission.not_direct.empty() ? state.fallback : state.admission.not_direct;
  if (const auto queue = environment_.queues.Find(state.object->spec.queue);
      queue != nullptr && queue->spec.stop_policy == "HoldAndDrain") {
    seen.drained = Refusal{
        std::string(wait_reason::kQueueStopped),
        fmt::format("Queue {}: spec.stopPolicy is HoldAndDrain: it took its jobs back; set it to "
                    "None to let them go on",
                    queue->meta.name)};
  }
  seen.blocks = &state.blocks;
  seen.pods = &state.pods;
  seen.creating = &state.creating;
  seen.deleting = &state.deleting;
  if (options_.reports != nullptr) {
    seen.report_of = [this](const kube::Pod& pod) {
      return options_.reports->Find(pod.meta.uid, pod.node_name);
    };
    seen.agent_heard = [this](std::string_view node) { return options_.reports->Heard(node); };
  }
  seen.node_exists = [this](std::string_view node) { return feed_.HasNode(node); };
  seen.node_ready = [this](std::string_view node) { return feed_.NodeReady(node); };
  seen.now = clock_.Now();
  seen.steady_now = clock_.SteadyNow();
  ObserveIntervals(state, seen);
  seen.can_build = state.admission.builder.has_value();
  seen.create_errors = &state.create_errors;
  seen.succeeded = &state.succeeded;
  seen.start_after = state.start_after;
  seen.last_bind = last_bind_;
  seen.bind_deadline = options_.bind_deadline;
  return seen;
}

void JobController::RefreshAdmission(JobState& state) {
  const bool of_placed = !state.status.placement.runs.empty();
  // What was made to keep a size is not for a job that has lost its place since.
  const bool outlived = state.admission_of_placed && !of_placed;
  const bool same_spec = state.admission_generation == state.meta().generation && !outlived;
  if (same_spec && state.admission_version == environment_version_) {
    return;
  }
  // A placed job keeps the pods it was promised; only a waiting one follows its environment.
  const bool placed = !state.blocks.empty() && state.admission.builder;
  if (same_spec && placed) {
    return;
  }
  AdmissionFacts facts = FactsFor(*state.object, environment_);
  facts.plan = AppliedPlan(state);
  Admission admission = Admit(*state.object, state.status, facts);
  if (placed && !admission.builder) {
    // What a change made impossible does not reach back to the pods that run.
    state.admission.refusal = std::move(admission.refusal);
  } else {
    state.admission = std::move(admission);
    if (state.dry_run_needs && state.dry_run_generation == state.meta().generation) {
      ApplyPodNeeds(*state.dry_run_needs, feed_.resources(), state.admission);
    }
  }
  state.admission_version = environment_version_;
  state.admission_generation = state.meta().generation;
  state.admission_of_placed = of_placed;
}

// What others can see (room given back, pods created or deleted) happens only once the status that
// explains it is on record: whoever takes over then reads the same story.
void JobController::CarryOut(JobState& state, JobDecision& decision) {
  for (const EventNote& note : decision.events) {
    record_(*state.object, note);
  }
  ObserveStages(state, decision.status);
  state.status = std::move(decision.status);
  if (decision.restart) {
    CarryOutRestart(state, *decision.restart);
  } else if (!decision.moves.empty()) {
    CarryOutMoves(state, decision.moves);
  }
  if (decision.withdraw) {
    Withdraw(state, decision.withdraw->reason, decision.withdraw->message);
  }
  if (!decision.release && !decision.restart && !decision.withdraw && decision.moves.empty()) {
    LookAfterSpares(state);
  }
  if (decision.want_place && state.blocks.empty()) {
    if (!dispatcher_.Contains(state.meta().uid)) {
      state.queued_since = clock_.SteadyNow();
      RequestPass();
    }
    EnqueueGang(state);
  } else {
    dispatcher_.Remove(state.meta().uid);
  }
  WriteStatus(state);
  if (SameButCounters(state.status, state.writer.acknowledged)) {
    if (decision.release) {
      Release(state);
    }
    CarryOutOnPods(state, decision);
  }
  if (decision.look_again < absl::InfiniteDuration()) {
    Remind(state, decision.look_again);
  }
}

void JobController::CarryOutOnPods(JobState& state, const JobDecision& decision) {
  if (!may_write_()) {
    return;
  }
  for (const PodRemoval& removal : decision.remove) {
    RemovePod(state, removal);
  }
  for (const std::string& name : decision.supersede) {
    if (state.superseding.insert(name).second) {
      Supersede(state, name);
    }
  }
  if (decision.delete_job) {
    DeleteJob(state);
  }
  if (decision.want_service) {
    CreateCompanions(state);
    if (state.service_confirmed) {
      LookAfterService(state);
    }
  }
  if (!state.service_confirmed) {
    return;  // ranks of a gang without its Service would look for rank 0 in vain
  }
  size_t created = 0;
  for (const size_t block : decision.create) {
    if (created == options_.creates_per_visit) {
      Remind(state, options_.settle);
      return;
    }
    if (block < state.blocks.size()) {
      CreatePod(state, block);
      ++created;
    }
  }
}

void JobController::LookAfterService(JobState& state) {
  const base::SteadyTime now = clock_.SteadyNow();
  if (now >= state.service_seen + kServiceLook) {
    state.service_seen = now;
    ReadExistingService(state);
  }
  Remind(state, state.service_seen + kServiceLook - now);
}

// How long each stage took, by the monotonic clock.
void JobController::ObserveStages(JobState& state, TrainingJobStatus& next) {
  const base::SteadyTime now = clock_.SteadyNow();
  if (next.Is(kBound) && !state.status.Is(kBound)) {
    state.bound_at = now;
    metrics_.commit_seconds.With({}).Observe(now - state.placed_at);
    next.timings.commit_ms = absl::ToInt64Milliseconds(now - state.placed_at);
  }
  if (next.Is(kRunning) && !state.status.Is(kRunning)) {
    // Its homes took it: what did not work before says nothing about the next time.
    state.withdrawals = 0;
    state.excluded.clear();
  }
  if (next.Is(kRunning) && !state.status.Is(kRunning) && next.Is(kBound)) {
    metrics_.start_seconds.With({}).Observe(now - state.bound_at);
    next.timings.start_ms = absl::ToInt64Milliseconds(now - state.bound_at);
  }
}

}  // namespace asterism::operators
