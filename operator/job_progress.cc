#include "operator/job_progress.h"

#include <algorithm>

#include "fmt/format.h"

namespace asterism::operators {
namespace {

constexpr absl::Duration kAgentLookPeriod = absl::Seconds(2);  // an agent beats every 10 s

}  // namespace

JobProgress::JobProgress(const JobObservation& seen, const GangPods& pods, bool running)
    : seen_(seen), running_(running) {
  std::vector<Witness> that_told;
  for (const JobPod* job_pod : pods.present()) {
    const WorkerReport* report = job_pod == nullptr ? nullptr : seen_.report_of(*job_pod->pod);
    if (report == nullptr) {
      continue;
    }
    if (report->progress && (!newest_ || report->progress->step > newest_->step)) {
      newest_ = report->progress;
    }
    if (problem_.empty()) {
      problem_ = report->progress_problem;
    }
    if (!report->exit) {
      (report->progress ? that_told : witnesses_).emplace_back(job_pod, report);
    }
  }
  if (!that_told.empty()) {
    witnesses_ = std::move(that_told);
  }
}

std::string JobProgress::WhoIsNotHeard() const {
  if (!seen_.job->spec.progress_deadline_seconds || !running_ || witnesses_.empty() ||
      std::ranges::any_of(witnesses_, [](const Witness& witness) {
        return witness.second->speaks_since.has_value();
      })) {
    return "";
  }
  const kube::Pod& pod = *witnesses_.front().first->pod;
  return fmt::format(
      "nobody hears of the job's progress: the agent of node {} is away, or the launcher of pod {} "
      "is; spec.progress.deadlineSeconds counts again when both are back (kubectl -n "
      "asterism-agents get pods -o wide)",
      pod.node_name, pod.meta.name);
}

HangLook JobProgress::LookForHang() const {
  const auto deadline = seen_.job->spec.progress_deadline_seconds;
  if (!deadline || !running_) {
    return {};
  }
  std::optional<base::SteadyTime> last;
  const JobPod* speaker = nullptr;
  std::optional<int64_t> step;
  for (const auto& [job_pod, report] : witnesses_) {
    if (!report->speaks_since) {
      continue;
    }
    const base::SteadyTime told = std::max(report->progressed, *report->speaks_since);
    if (!last || told > *last) {
      last = told;
      speaker = job_pod;
      step = report->progress ? std::optional(report->progress->step) : std::nullopt;
    }
  }
  if (!last) {
    return {};
  }
  const base::SteadyTime end = *last + absl::Seconds(*deadline);
  if (seen_.steady_now < end) {
    return {.cause = std::nullopt, .look_again = end - seen_.steady_now};
  }
  // An agent that has fallen silent may know of a step that it cannot tell.
  if (seen_.agent_heard(speaker->pod->node_name) < end) {
    return {.cause = std::nullopt, .look_again = kAgentLookPeriod};
  }
  const std::string where =
      step ? fmt::format("step {} was the last", *step) : std::string("no step was told");
  return {.cause = FirstCause{
              .time = seen_.now,
              .reason = "AppError",
              .message = fmt::format("no progress for {} s (spec.progress.deadlineSeconds): {}",
                                     *deadline, where),
              .rank = speaker->mark.first_rank,
              .pod = speaker->pod->meta.name,
              .node = speaker->pod->node_name}};
}

}  // namespace asterism::operators
