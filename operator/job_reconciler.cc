#include "operator/job_reconciler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/cut_text.h"
#include "fmt/format.h"
#include "operator/conditions.h"
#include "operator/gang_pods.h"
#include "operator/job_progress.h"

namespace asterism::operators {
namespace {

// kube-scheduler's first refusal may come from a cache that has not seen a deletion yet; it tries
// again within its back-off of 1 s.
constexpr absl::Duration kUnschedulableSettle = absl::Seconds(3);
constexpr int64_t kBindDeadlinesMax = 10;
// How often status.progress is written: a status of thousands of nodes is a large object.
constexpr int64_t kPodsToldOften = 256;
constexpr absl::Duration kProgressPeriod = absl::Seconds(10);
constexpr absl::Duration kProgressPeriodOfMany = absl::Seconds(60);

class Decider {
 public:
  explicit Decider(const JobObservation& seen) : seen_(seen) { out_.status = *seen.status; }

  JobDecision Run() {
    InitialConditions();
    if (seen_.job->meta.deletion_time) {
      RemoveAllPods(/*keep_ended=*/false);
      out_.release = true;
    } else if (Finished(out_.status)) {
      DecideFinished();
    } else if (seen_.job->spec.suspend) {
      DecideSuspended();
    } else if (seen_.blocks->empty() || out_.status.placement.runs.empty()) {
      DecideWaiting();
    } else if (seen_.drained) {
      DecideDrained();
    } else {
      DecidePlaced();
    }
    out_.status.observed_generation = seen_.job->meta.generation;
    const bool placed = !seen_.blocks->empty() && !out_.release && !out_.restart;
    out_.status.state = StateOf(out_.status, placed);
    return std::move(out_);
  }

 private:
  bool Set(std::string_view type, std::string_view status, std::string_view reason,
           std::string message = "") {
    return SetCondition(out_.status.conditions,
                        {.type = type,
                         .status = status,
                         .reason = reason,
                         .message = std::move(message),
                         .observed_generation = seen_.job->meta.generation},
                        seen_.now);
  }

  void Event(std::string reason, std::string message, bool warning = false) {
    out_.events.push_back({warning, std::move(reason), std::move(message)});
  }

  void LookAgainIn(absl::Duration delay) {
    out_.look_again = std::min(out_.look_again, std::max(absl::Milliseconds(10), delay));
  }

  // Every condition is there from the first visit, so that nobody has to tell absent from unknown.
  void InitialConditions() {
    for (const std::string_view type :
         {kAdmitted, kPlanned, kPlaced, kBound, kRunning, kSucceeded}) {
      if (kube::FindCondition(out_.status.conditions, type) == nullptr) {
        Set(type, "Unknown", "Pending");
      }
    }
    if (kube::FindCondition(out_.status.conditions, kFailed) == nullptr) {
      Set(kFailed, "False", "NotFailed");
    }
    if (kube::FindCondition(out_.status.conditions, kSuspended) == nullptr) {
      Set(kSuspended, "False", "NotSuspended");
    }
  }

  void Remove(const JobPod& job_pod) {
    const kube::Pod& pod = *job_pod.pod;
    const bool node_lost = !pod.node_name.empty() && !seen_.node_exists(pod.node_name);
    const auto asked = seen_.deleting->find(pod.meta.uid);
    if (asked == seen_.deleting->end() || (node_lost && !asked->second)) {
      out_.remove.push_back({pod.meta.name, pod.meta.uid, node_lost});
    }
  }

  void RemoveAllPods(bool keep_ended) {
    for (const auto& [name, job_pod] : *seen_.pods) {
      if (!keep_ended || !job_pod.pod->Terminal()) {
        Remove(job_pod);
      }
    }
  }

  // A pod whose kubelet is away may terminate for ever, and its address would be published as its
  // rank's as long.
  bool MayLinger(const JobPod& job_pod) const {
    const kube::Pod& pod = *job_pod.pod;
    return !pod.Terminal() && !pod.node_name.empty() && seen_.node_exists(pod.node_name) &&
           !seen_.node_ready(pod.node_name);
  }

  // Superseded pods go; the one that failed first stays, without its live label, for its logs.
  void RemoveSuperseded(const std::vector<const JobPod*>& superseded) {
    const std::string kept = out_.status.restarts.last ? out_.status.restarts.last->pod : "";
    for (const JobPod* job_pod : superseded) {
      if (job_pod->pod->Terminal() && job_pod->pod->meta.name == kept) {
        if (!job_pod->pod->meta.Label(kLiveLabel).empty()) {
          out_.supersede.push_back(job_pod->pod->meta.name);
        }
        continue;
      }
      if (MayLinger(*job_pod) && !job_pod->pod->meta.Label(kLiveLabel).empty()) {
        out_.supersede.push_back(job_pod->pod->meta.name);
      }
      Remove(*job_pod);
    }
  }

  void ClearPlacement(std::string_view reason, const std::string& message) {
    out_.release = true;
    out_.status.placement.runs.clear();
    out_.status.placement.levels.clear();
    out_.status.placement.digest.clear();
    out_.status.placement.spares.clear();
    out_.status.gpus = 0;
    out_.status.placed = fmt::format("0/{}", seen_.shape.pods);
    out_.status.pods = {.desired = seen_.shape.pods};
    Set(kPlaced, "False", reason, message);
    Set(kBound, "False", reason);
    Set(kRunning, "False", reason);
  }

  void DecideFinished() {
    RemoveAllPods(/*keep_ended=*/true);
    out_.release = true;
    out_.status.gpus = 0;
    const auto ttl = seen_.job->spec.ttl_seconds_after_finished;
    if (ttl && out_.status.completion_time) {
      const absl::Duration left = absl::Seconds(*ttl) - seen_.since_completed;
      if (left <= absl::ZeroDuration()) {
        out_.delete_job = true;
      } else {
        LookAgainIn(left);
      }
    }
  }

  void DecideSuspended() {
    RemoveAllPods(/*keep_ended=*/false);
    ClearPlacement("Suspended", "");
    out_.status.waiting = {};
    if (Set(kSuspended, "True", "Suspended", "spec.suspend is true: set it to false to go on") &&
        seen_.status->Is(kPlaced)) {
      Event("Suspended", "pods and GPUs are released");
    }
  }

  // Back into its queue, which is stopped, as if it had never been placed.
  void DecideDrained() {
    RemoveAllPods(/*keep_ended=*/false);
    ClearPlacement(seen_.drained->reason, seen_.drained->message);
    Event("Preempted", seen_.drained->message, true);
    SetWaiting(*seen_.drained);
  }

  // Returns false when the job may not go on to the gang queue.
  bool DecideAdmission() {
    out_.status.effective = {.job_class = std::string(ToString(seen_.shape.job_class)),
                             .gpus_per_pod = seen_.shape.gpus_per_pod,
                             .gpu_product = out_.status.effective.gpu_product,
                             .processes_per_pod = seen_.shape.processes_per_pod,
                             .pods = seen_.shape.pods,
                             .spares = seen_.shape.spares};
    if (seen_.refusal) {
      Set(kAdmitted, "False", seen_.refusal->reason, seen_.refusal->message);
      SetWaiting(*seen_.refusal);
      return false;
    }
    if (!DecidePlan() || seen_.admission_pending) {
      return false;
    }
    if (!out_.status.Is(kAdmitted)) {
      Event("Admitted",
            fmt::format("{} pods of {} GPUs", seen_.shape.pods, seen_.shape.gpus_per_pod));
    }
    Set(kAdmitted, "True", "Admitted");
    DecideWarnings();
    return true;
  }

  void DecideWarnings() {
    Warn(kCommandSuspect, "NobodyStartsTheOtherRanks", seen_.command_warning);
    Warn(kFieldsIgnored, "NotAvailable", seen_.ignored_fields);
    Warn(kCommitFallback, "NotDirect", seen_.not_direct);
  }

  // A warning's condition is there only while there is something to warn of.
  void Warn(std::string_view type, std::string_view reason, const std::string& message) {
    if (message.empty()) {
      std::erase_if(out_.status.conditions,
                    [&](const auto& condition) { return condition.type == type; });
    } else {
      Set(type, "True", reason, message);
    }
  }

  // Returns false when the job may not go on: its plan is being made, or cannot be.
  bool DecidePlan() {
    const PlanObservation& plan = seen_.plan;
    if (plan.reason.empty()) {
      Set(kPlanned, "False", "NoModel",
          "spec.model is absent: the job runs with its own arguments");
      return true;
    }
    const std::string_view now = plan.made ? "True" : plan.pending ? "Unknown" : "False";
    if (Set(kPlanned, now, plan.reason, plan.message) && plan.made && !seen_.status->Is(kPlanned)) {
      Event("Planned", plan.message);
    }
    if (plan.refused && !plan.pending) {
      const Refusal refusal{std::string(wait_reason::kPlanFailed), plan.message};
      Set(kAdmitted, "False", refusal.reason, refusal.message);
      SetWaiting(refusal);
      return false;
    }
    return !plan.pending;
  }

  // The pods keep the plan that they were made with; whether it is still that of the job's model.
  void TellPlan() {
    const PlanObservation& plan = seen_.plan;
    const kube::Condition* before = kube::FindCondition(seen_.status->conditions, kPlanned);
    const bool same = before != nullptr && before->reason == plan.reason;
    if (plan.made && Set(kPlanned, "True", plan.reason, plan.message) && !same &&
        plan.reason == kModelChanged) {
      Event(std::string(kModelChanged), plan.message, true);
    }
  }

  void SetWaiting(const Refusal& refusal) {
    if (out_.status.waiting.reason != refusal.reason) {
      Event("Waiting", fmt::format("{}: {}", refusal.reason, refusal.message), true);
    }
    out_.status.waiting.reason = refusal.reason;
    out_.status.waiting.message = refusal.message;
    Set(kPlaced, "False", refusal.reason, refusal.message);
  }

  void DecideWaiting() {
    if (Set(kSuspended, "False", "NotSuspended") && out_.status.waiting.reason.empty()) {
      out_.status.waiting.reason = wait_reason::kBehindInQueue;
      out_.status.waiting.message = "waits for its turn in the gang queue";
    }
    std::vector<const JobPod*> all;
    for (const auto& [name, job_pod] : *seen_.pods) {
      all.push_back(&job_pod);
    }
    RemoveSuperseded(all);
    out_.release = true;  // homes that the status has given up
    out_.status.placed = fmt::format("0/{}", seen_.shape.pods);
    out_.status.pods = {.desired = seen_.shape.pods};
    if (!DecideAdmission()) {
      return;
    }
    if (seen_.steady_now < seen_.start_after) {
      LookAgainIn(seen_.start_after - seen_.steady_now);
      return;
    }
    out_.want_place = true;
  }

  void TakeCounts(const PodCounts& counts) {
    out_.status.pods = counts;
    out_.status.placed = fmt::format("{}/{}", counts.desired, counts.desired);
    out_.status.gpus = counts.desired * seen_.shape.gpus_per_pod;
  }

  void Finish(std::string_view type, std::string_view reason, const std::string& message) {
    Set(type, "True", reason, message);
    if (type == kSucceeded) {
      Set(kFailed, "False", "NotFailed");
    } else {
      Set(kSucceeded, "False", reason);
    }
    Set(kRunning, "False", reason);
    out_.status.completion_time = seen_.now;
    out_.status.waiting = {};
    Event(std::string(type), message.empty() ? std::string(reason) : message, type == kFailed);
    // The pods are taken down by the next visit, when the end is on record.
    out_.look_again = absl::ZeroDuration();
  }

  void DecideFailure(const FirstCause& cause) {
    RestartDecision decision = DecideRestart(seen_.job->spec.failure_policy, out_.status.restarts,
                                             cause, seen_.since_restart);
    if (!decision.restart) {
      out_.status.restarts.last = cause;
      Finish(kFailed, decision.failed_reason, decision.message);
      return;
    }
    Set(kBound, "False", "Restarting");
    Set(kRunning, "False", "Restarting", decision.message);
    out_.status.restarts = decision.restarts;
    Event("Restarting", decision.message, true);
    out_.restart = Restart{cause, std::move(decision)};
  }

  // Creates what is missing. After a restart the old pods must be gone first: they hold the GPUs.
  void DecideCreate(const GangPods& pods) {
    const bool old_pods_live =
        std::any_of(pods.superseded().begin(), pods.superseded().end(), [&](const JobPod* job_pod) {
          const kube::Pod& pod = *job_pod->pod;
          return !pod.Terminal() && !pod.node_name.empty() &&
                 (seen_.node_ready(pod.node_name) ||
                  (MayLinger(*job_pod) && !pod.meta.Label(kLiveLabel).empty()));
        });
    if (old_pods_live) {
      return;
    }
    if (seen_.steady_now < seen_.start_after) {
      LookAgainIn(seen_.start_after - seen_.steady_now);
      return;
    }
    std::vector<size_t> missing;
    for (size_t i = 0; i < pods.present().size(); ++i) {
      if (pods.Missing(i)) {
        missing.push_back(i);
      }
    }
    if (!seen_.can_build) {
      if (!missing.empty()) {
        out_.withdraw = seen_.refusal.value_or(
            Refusal{std::string(wait_reason::kBindFailed), "pods are missing and cannot be made"});
      }
      return;
    }
    out_.want_service = true;
    for (const size_t i : missing) {
      const scheduler::RankBlock& block = (*seen_.blocks)[i];
      if (!seen_.creating->contains(PodName(seen_.job->meta, block.first_rank, block.epoch))) {
        out_.create.push_back(i);
      }
    }
  }

  // While pods of gangs are being bound, one that waits for its turn is not stuck, up to a point.
  base::SteadyTime BindDeadline(const JobPod& job_pod) const {
    const base::SteadyTime by_turn =
        std::max(job_pod.first_seen, seen_.last_bind) + seen_.bind_deadline;
    return std::min(by_turn, job_pod.first_seen + kBindDeadlinesMax * seen_.bind_deadline);
  }

  // A gang of which some pods cannot be made holds GPUs for nothing.
  bool CreationHopeless() {
    for (const auto& [name, error] : *seen_.create_errors) {
      if (seen_.steady_now >= error.since + seen_.bind_deadline) {
        out_.withdraw = Refusal{
            std::string(wait_reason::kBindFailed),
            fmt::format("pod {} could not be created for {}: {}", name,
                        absl::FormatDuration(seen_.steady_now - error.since), error.message)};
        return true;
      }
      LookAgainIn(error.since + seen_.bind_deadline - seen_.steady_now);
    }
    return false;
  }

  // Pods that were created and cannot be bound: their block must find another home.
  void DecideMoves(const GangPods& pods) {
    for (size_t i = 0; i < pods.present().size(); ++i) {
      const scheduler::RankBlock& block = (*seen_.blocks)[i];
      const JobPod* job_pod = pods.present()[i];
      if (job_pod != nullptr && !out_.status.Is(kRunning) && RefusedByKubelet(*job_pod->pod)) {
        out_.moves.push_back(
            {i, fmt::format("the kubelet of {} refuses it: {}", block.node, job_pod->pod->reason)});
        continue;
      }
      if (job_pod == nullptr || !job_pod->pod->node_name.empty()) {
        if (pods.Missing(i) && !seen_.node_exists(block.node)) {
          out_.moves.push_back({i, fmt::format("node {} is gone", block.node)});
        }
        continue;
      }
      const kube::Pod& pod = *job_pod->pod;
      if (!seen_.node_exists(block.node)) {
        out_.moves.push_back({i, fmt::format("node {} is gone", block.node)});
        continue;
      }
      const kube::Condition* scheduled = kube::FindCondition(pod.conditions, "PodScheduled");
      const base::SteadyTime deadline = BindDeadline(*job_pod);
      if (job_pod->unschedulable_since) {
        const base::SteadyTime settled = *job_pod->unschedulable_since + kUnschedulableSettle;
        if (seen_.steady_now >= std::min(settled, deadline)) {
          out_.moves.push_back({i, scheduled != nullptr ? scheduled->message : "unschedulable"});
          continue;
        }
        LookAgainIn(settled - seen_.steady_now);
      } else if (seen_.steady_now >= deadline) {
        out_.moves.push_back(
            {i, fmt::format("not bound within {}", absl::FormatDuration(seen_.bind_deadline))});
        continue;
      }
      LookAgainIn(deadline - seen_.steady_now);
    }
  }

  void DecideProgress() {
    const PodCounts& pods = out_.status.pods;
    if (pods.bound == pods.desired) {
      if (Set(kBound, "True", "Bound") && !seen_.status->Is(kBound)) {
        Event("Bound", fmt::format("{} pods are bound", pods.desired));
      }
    }
    if (pods.running + pods.succeeded == pods.desired && pods.running > 0) {
      const bool first = !out_.status.start_time.has_value();
      if (first) {
        out_.status.start_time = seen_.now;
      }
      if (!out_.status.Is(kRunning)) {
        Event("Started", fmt::format("{} pods run", pods.desired));
      }
      Set(kRunning, "True", "Running");
    } else if (!out_.status.Is(kRunning)) {
      TellWhatCannotStart();
    }
  }

  // The first container of the gang, by rank, that its kubelet cannot start; the image may be
  // mended, so nothing is given up.
  void TellWhatCannotStart() {
    const JobPod* first = nullptr;
    for (const auto& [name, job_pod] : *seen_.pods) {
      const bool stuck = !job_pod.pod->waiting.empty() && !job_pod.pod->Deleting();
      if (stuck && (first == nullptr || job_pod.mark.first_rank < first->mark.first_rank)) {
        first = &job_pod;
      }
    }
    const kube::Condition* running = kube::FindCondition(out_.status.conditions, kRunning);
    if (first == nullptr) {
      if (running != nullptr && running->reason != "Restarting") {
        Set(kRunning, "False", "Starting");
      }
      return;
    }
    const kube::WaitingContainer& waiting = first->pod->waiting.front();
    const std::string message =
        fmt::format("rank {} (pod {} on {}): container {} cannot start: {}", first->mark.first_rank,
                    first->pod->meta.name, first->pod->node_name, waiting.name,
                    base::CutText(waiting.message, 512));
    if (running == nullptr || running->reason != waiting.reason) {
      Event("CannotStart", fmt::format("{}: {}", waiting.reason, message), true);
    }
    Set(kRunning, "False", waiting.reason, message);
  }

  void TakeProgress(const GangPods& pods) {
    const JobProgress progress(seen_, pods, out_.status.Is(kRunning));
    if (!progress.Problem().empty()) {
      Warn(kProgressUnreadable, "NotReadable",
           "spec.progress.file: " + base::CutText(progress.Problem(), 512));
    } else {
      Warn(kProgressUnreadable, "NotHeard", progress.WhoIsNotHeard());
    }
    const std::optional<WorkerProgress>& newest = progress.Newest();
    if (!newest) {
      return;
    }
    const ProgressStatus next{.step = newest->step,
                              .step_time_ms = newest->step_time_milliseconds,
                              .tokens_per_second = newest->tokens_per_second,
                              .updated = seen_.now};
    const std::optional<ProgressStatus>& told = out_.status.progress;
    if (told && told->step == next.step) {
      return;
    }
    const absl::Duration period =
        seen_.shape.pods <= kPodsToldOften ? kProgressPeriod : kProgressPeriodOfMany;
    const absl::Duration since = told ? seen_.now - told->updated : absl::InfiniteDuration();
    if (since >= period || since < absl::ZeroDuration()) {
      out_.status.progress = next;
    } else {
      LookAgainIn(period - since);
    }
  }

  std::optional<FirstCause> FindHang(const GangPods& pods) {
    if (!seen_.job->spec.progress_deadline_seconds) {
      return std::nullopt;
    }
    HangLook look = JobProgress(seen_, pods, out_.status.Is(kRunning)).LookForHang();
    if (look.look_again < absl::InfiniteDuration()) {
      LookAgainIn(look.look_again);
    }
    return std::move(look.cause);
  }

  bool DeadlinePassed() {
    const auto seconds = seen_.job->spec.active_deadline_seconds;
    const kube::Condition* placed = kube::FindCondition(out_.status.conditions, kPlaced);
    if (!seconds || placed == nullptr || placed->status != "True") {
      return false;
    }
    const absl::Duration left = absl::Seconds(*seconds) - seen_.since_placed;
    if (left <= absl::ZeroDuration()) {
      Finish(kFailed, "DeadlineExceeded",
             fmt::format("spec.activeDeadlineSeconds: {} s since it was placed have passed",
                         *seconds));
      return true;
    }
    LookAgainIn(left);
    return false;
  }

  void DecidePlaced() {
    const GangPods pods(seen_);
    out_.status.waiting = {};
    if (!seen_.refusal) {
      out_.status.effective.spares = seen_.shape.spares;
    }
    DecideWarnings();
    TellPlan();
    TakeCounts(pods.Count());
    if (pods.GangSucceeded()) {
      Finish(kSucceeded, "Completed",
             seen_.job->spec.success_policy == SuccessPolicy::kRankZero ? "rank 0 succeeded"
                                                                        : "all ranks succeeded");
      return;
    }
    if (DeadlinePassed()) {
      return;
    }
    if (const std::vector<LostPod> lost =
            pods.FindLost(out_.status.Is(kBound), out_.status.Is(kRunning));
        !lost.empty()) {
      DecideFailure(FindFirstCause(lost, seen_.now));
      return;
    }
    if (const std::optional<FirstCause> hang = FindHang(pods)) {
      DecideFailure(*hang);
      return;
    }
    RemoveSuperseded(pods.superseded());
    if (CreationHopeless()) {
      return;
    }
    DecideMoves(pods);
    if (out_.moves.empty()) {
      DecideCreate(pods);
      DecideProgress();
      TakeProgress(pods);
    } else {
      // Its next pod does not exist yet, and is not lost for that.
      Set(kBound, "False", "Moving");
    }
  }

  const JobObservation& seen_;
  JobDecision out_;
};

}  // namespace

JobDecision DecideJob(const JobObservation& observation) {
  return Decider(observation).Run();
}

bool Finished(const TrainingJobStatus& status) {
  return status.Is(kSucceeded) || status.Is(kFailed);
}

std::string StateOf(const TrainingJobStatus& status, bool placed) {
  if (status.Is(kSucceeded)) {
    return "Succeeded";
  }
  if (status.Is(kFailed)) {
    return "Failed";
  }
  if (status.Is(kSuspended)) {
    return "Suspended";
  }
  if (placed && status.Is(kRunning)) {
    return "Running";
  }
  if (status.restarts.count > 0) {
    return "Recovering";
  }
  if (placed) {
    return status.Is(kBound) ? "Starting" : "Placed";
  }
  return status.Is(kAdmitted) ? "Admitted" : "Pending";
}

std::vector<PlacementRun> RunsOf(const std::vector<scheduler::RankBlock>& blocks,
                                 int64_t ranks_per_block,
                                 const std::function<std::string(std::string_view)>& domain_of) {
  std::vector<PlacementRun> runs;
  for (const scheduler::RankBlock& block : blocks) {
    std::string domain = domain_of(block.node);
    if (runs.empty() || runs.back().domain != domain || runs.back().epoch != block.epoch) {
      runs.push_back(
          {.domain = std::move(domain), .first_rank = block.first_rank, .epoch = block.epoch});
    }
    runs.back().nodes.push_back(block.node);
    runs.back().ranks += ranks_per_block;
  }
  return runs;
}

std::vector<SpareRun> SpareRunsOf(const std::vector<scheduler::Spare>& spares) {
  std::vector<SpareRun> runs;
  for (const scheduler::Spare& spare : spares) {
    if (runs.empty() || runs.back().epoch != spare.epoch) {
      runs.push_back({.epoch = spare.epoch});
    }
    runs.back().nodes.push_back(spare.node);
  }
  return runs;
}

std::vector<scheduler::Spare> SparesOf(const PlacementStatus& placement) {
  std::vector<scheduler::Spare> spares;
  for (const SpareRun& run : placement.spares) {
    for (const std::string& node : run.nodes) {
      spares.push_back({node, run.epoch});
    }
  }
  return spares;
}

std::vector<scheduler::RankBlock> BlocksOf(const PlacementStatus& placement) {
  std::vector<scheduler::RankBlock> blocks;
  for (const PlacementRun& run : placement.runs) {
    if (run.nodes.empty()) {
      continue;
    }
    const int64_t ranks_per_block = run.ranks / static_cast<int64_t>(run.nodes.size());
    int64_t first_rank = run.first_rank;
    for (const std::string& node : run.nodes) {
      blocks.push_back({first_rank, node, run.epoch});
      first_rank += ranks_per_block;
    }
  }
  return blocks;
}

}  // namespace asterism::operators
