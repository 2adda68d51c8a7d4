#include "cli/explain_view.h"

#include <algorithm>
#include <utility>

#include "cli/age_text.h"
#include "cli/job_outcome.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/conditions.h"
#include "operator/job_plan.h"
#include "operator/node_ranges.h"

namespace asterism::cli {
namespace {

using operators::TrainingJob;

constexpr size_t kLabelWidth = 16;

std::string CountOf(int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

class Explainer {
 public:
  Explainer(const Explanation& explanation, const ExplainViewOptions& options)
      : explanation_(explanation),
        job_(explanation.job),
        status_(explanation.job.status),
        options_(options) {}

  std::vector<Line> Render() {
    AddHeadline();
    AddWaiting();
    AddEnd();
    AddRequest();
    AddQueue();
    AddPlan();
    AddPlacement();
    AddTimings();
    AddRestarts();
    for (const JobWarning& warning : WarningsOf(job_)) {
      Field("warning", warning.message.empty() ? warning.type : warning.message, Tone::kWarn);
    }
    AddConditions();
    return std::move(lines_);
  }

 private:
  void Field(std::string_view label, std::string_view text, Tone tone = Tone::kPlain) {
    AddWrapped(fmt::format("  {:<{}}", label, kLabelWidth), text, tone, options_.width, lines_);
  }

  void AddHeadline() {
    const JobOutcome outcome = OutcomeOf(job_);
    Line& line = lines_.emplace_back();
    line.Add(job_.Key(), Tone::kBold).Add(": ");
    const std::string state = StateOf(job_);
    if (state == "Suspended" || job_.spec.suspend) {
      line.Add("suspended", Tone::kWarn).Add(": set spec.suspend to false and it queues again");
    } else if (status_.observed_generation == 0 && status_.conditions.empty()) {
      line.Add("no controller has looked at it yet", Tone::kWarn)
          .Add(": kubectl asterism version shows whether one runs");
    } else if (HasEnded(job_)) {
      line.Add(state, outcome == JobOutcome::kPlaced ? Tone::kGood : Tone::kBad);
    } else if (outcome == JobOutcome::kPlaced) {
      line.Add(state, Tone::kGood)
          .Add(fmt::format(", {} pods, epoch {}", status_.placed, status_.placement.epoch));
    } else {
      const bool never = outcome == JobOutcome::kNever;
      line.Add(never ? "will not run as it is" : "waits", never ? Tone::kBad : Tone::kWarn);
      if (!status_.waiting.reason.empty()) {
        line.Add(": ").Add(status_.waiting.reason, Tone::kBold);
      }
    }
  }

  void AddWaiting() {
    const operators::WaitingStatus& waiting = status_.waiting;
    if (waiting.reason.empty()) {
      return;
    }
    if (!waiting.message.empty()) {
      Field("why", waiting.message);
    }
    if (!waiting.nearest_change.empty()) {
      Field("nearest change", waiting.nearest_change, Tone::kGood);
    }
    if (waiting.predicted_start.has_value()) {
      Field("may start",
            fmt::format("{}, when enough jobs are expected to have ended (expectedDurationSeconds)",
                        TimeText(*waiting.predicted_start)));
    }
    if (waiting.queue_position > 0) {
      Field("position",
            fmt::format("{} in the order in which waiting jobs are tried", waiting.queue_position));
    }
  }

  void AddEnd() {
    if (status_.state == "Failed") {
      const kube::Condition* failed = kube::FindCondition(status_.conditions, "Failed");
      if (failed != nullptr) {
        Field("why", failed->message.empty() ? failed->reason : failed->message, Tone::kBad);
      }
    }
    if (status_.completion_time.has_value()) {
      Field("ended",
            fmt::format("{} ago ({})", AgeText(explanation_.now - *status_.completion_time),
                        TimeText(*status_.completion_time)));
    }
  }

  void AddRequest() {
    const operators::EffectiveStatus& effective = status_.effective;
    std::string text = CountOf(job_.spec.gpus, "GPU");
    if (effective.pods > 0) {
      text += fmt::format(" in {} of {}", CountOf(effective.pods, "pod"), effective.gpus_per_pod);
    }
    if (!effective.gpu_product.empty()) {
      text += fmt::format(", {}", effective.gpu_product);
    }
    if (!effective.job_class.empty()) {
      text += fmt::format(", class {}", effective.job_class);
    }
    Field("asks for", text);
    for (const operators::JobLevelRule& rule : job_.spec.levels) {
      Field("", fmt::format("each {} inside one {}{}", CountOf(rule.block_gpus, "GPU"), rule.level,
                            rule.required ? "" : ", if that is possible"));
    }
    if (job_.meta.creation_time != absl::InfinitePast()) {
      Field("created",
            fmt::format("{} ago ({})", AgeText(explanation_.now - job_.meta.creation_time),
                        TimeText(job_.meta.creation_time)));
    }
  }

  void AddQueue() {
    const std::string note =
        explanation_.queue.has_value() ? UseText(*explanation_.queue) : explanation_.queue_note;
    Field("queue", note.empty() ? job_.spec.queue : fmt::format("{}: {}", job_.spec.queue, note));
    if (explanation_.queue.has_value() && explanation_.queue->pending_jobs > 0) {
      Field("",
            fmt::format("{} with {} wait in it", CountOf(explanation_.queue->pending_jobs, "job"),
                        CountOf(explanation_.queue->pending_gpus, "GPU")));
    }
    if (explanation_.queue.has_value() && !explanation_.queue->problem.empty()) {
      Field("", explanation_.queue->problem, Tone::kBad);
    }
  }

  void AddPlan() {
    const operators::PlanStatus& plan = status_.plan;
    const kube::Condition* planned = kube::FindCondition(status_.conditions, operators::kPlanned);
    if (plan.gpus == 0) {
      // That there is no model is no news to its author.
      if (planned != nullptr && job_.spec.has_model && planned->status != "True" &&
          status_.waiting.reason != operators::wait_reason::kPlanFailed) {
        Field("plan", planned->message.empty() ? planned->reason : planned->message, Tone::kFaint);
      }
      return;
    }
    Field("plan", planned != nullptr && planned->status == "True" && !planned->message.empty()
                      ? planned->message
                      : operators::SummaryOf(plan));
    if (!plan.bound_by.empty()) {
      Field("", fmt::format("bound by {}", plan.bound_by));
    }
    if (options_.wide) {
      Field("", fmt::format("{}", fmt::join(plan.arguments, " ")), Tone::kFaint);
    }
  }

  void AddPlacement() {
    const operators::PlacementStatus& placement = status_.placement;
    if (placement.runs.empty()) {
      return;
    }
    std::vector<std::string> parts;
    for (const operators::PlacementLevelStatus& level : placement.levels) {
      parts.push_back(fmt::format("{} x {}", level.domains, level.level));
    }
    Field(HasEnded(job_) ? "ran on" : "placed on", fmt::format("{}", fmt::join(parts, ", ")));
    const size_t count = placement.runs.size();
    const size_t shown = options_.wide || count <= kRunsShown ? count : kRunsShown - 1;
    for (size_t i = 0; i < shown; ++i) {
      const operators::PlacementRun& run = placement.runs[i];
      Line& line = lines_.emplace_back();
      line.AddSpaces(2 + kLabelWidth);
      const int64_t last = run.first_rank + run.ranks - 1;
      line.Add(run.ranks == 1 ? fmt::format("rank {}", run.first_rank)
                              : fmt::format("ranks {}-{}", run.first_rank, last));
      if (!run.domain.empty()) {
        line.Add(fmt::format("  {}", run.domain), Tone::kBold);
      }
      line.Add(fmt::format("  {}", operators::FormatNodeRanges(run.nodes)));
      if (run.epoch != placement.epoch) {
        line.Add(fmt::format("  since epoch {}", run.epoch), Tone::kFaint);
      }
    }
    if (shown < count) {
      Field("", fmt::format("and {} runs more (-o wide shows them)", count - shown), Tone::kFaint);
    }
    AddSpares();
  }

  void AddSpares() {
    std::vector<std::string> nodes;
    for (const operators::SpareRun& run : status_.placement.spares) {
      nodes.insert(nodes.end(), run.nodes.begin(), run.nodes.end());
    }
    const auto held = static_cast<int64_t>(nodes.size());
    const int64_t wanted = status_.effective.spares;
    if (HasEnded(job_) || (held == 0 && wanted == 0)) {
      return;
    }
    const std::string count =
        held == wanted ? fmt::format("{}", held) : fmt::format("{} of {}", held, wanted);
    Field("spares", held == 0 ? fmt::format("{}: no other node has room", count)
                              : fmt::format("{}: {}", count, operators::FormatNodeRanges(nodes)));
  }

  void AddTimings() {
    const operators::TimingStatus& timings = status_.timings;
    std::vector<std::string> parts;
    const auto add = [&parts](std::string_view what, absl::Duration duration) {
      parts.push_back(fmt::format("{} {}", what, ShortDuration(duration)));
    };
    if (timings.queued_ms.has_value()) {
      add("queued", absl::Milliseconds(*timings.queued_ms));
    }
    if (timings.decide_us.has_value()) {
      add("decided in", absl::Microseconds(*timings.decide_us));
    }
    if (timings.commit_ms.has_value()) {
      add("committed in", absl::Milliseconds(*timings.commit_ms));
    }
    if (timings.start_ms.has_value()) {
      add("started in", absl::Milliseconds(*timings.start_ms));
    }
    if (!parts.empty()) {
      Field("timings", fmt::format("{}", fmt::join(parts, ", ")));
    }
  }

  void AddRestarts() {
    const operators::RestartStatus& restarts = status_.restarts;
    if (restarts.count == 0 && !restarts.last.has_value()) {
      return;
    }
    Field("restarts", fmt::format("{}, {} of them counted; {} are allowed", restarts.count,
                                  restarts.counted, job_.spec.failure_policy.max_restarts));
    if (!restarts.last.has_value()) {
      return;
    }
    const operators::FirstCause& cause = *restarts.last;
    std::string text = fmt::format("{} of rank {}", cause.reason, cause.rank);
    if (cause.exit_code.has_value()) {
      text += fmt::format(", exit code {}", *cause.exit_code);
    }
    if (cause.signal.has_value()) {
      text += fmt::format(", signal {}", *cause.signal);
    }
    text += fmt::format(", pod {} on {}", cause.pod, cause.node);
    if (cause.time != absl::InfinitePast()) {
      text += fmt::format(", {} ago", AgeText(explanation_.now - cause.time));
    }
    Field("first cause", text, Tone::kWarn);
    if (!cause.message.empty()) {
      Field("", cause.message);
    }
  }

  void AddConditions() {
    if (!options_.wide) {
      return;
    }
    for (const kube::Condition& condition : status_.conditions) {
      const std::string reason =
          condition.reason.empty() ? "" : fmt::format(" ({})", condition.reason);
      Field("condition",
            fmt::format("{}={}{}{}{}", condition.type, condition.status, reason,
                        condition.message.empty() ? "" : ": ", condition.message),
            Tone::kFaint);
    }
  }

  const Explanation& explanation_;
  const TrainingJob& job_;
  const operators::TrainingJobStatus& status_;
  const ExplainViewOptions options_;
  std::vector<Line> lines_;
};

using nlohmann::ordered_json;

ordered_json PlacementJsonOf(const operators::PlacementStatus& placement) {
  ordered_json object = {{"epoch", placement.epoch}};
  object["levels"] = ordered_json::array();
  for (const operators::PlacementLevelStatus& level : placement.levels) {
    object["levels"].push_back({{"level", level.level},
                                {"domains", level.domains},
                                {"ringCuts", level.ring_cuts},
                                {"ringCutsMinimum", level.ring_cuts_minimum}});
  }
  object["runs"] = ordered_json::array();
  for (const operators::PlacementRun& run : placement.runs) {
    object["runs"].push_back({{"domain", run.domain},
                              {"nodes", operators::FormatNodeRanges(run.nodes)},
                              {"firstRank", run.first_rank},
                              {"ranks", run.ranks},
                              {"epoch", run.epoch}});
  }
  object["spares"] = ordered_json::array();
  for (const operators::SpareRun& run : placement.spares) {
    object["spares"].push_back(
        {{"nodes", operators::FormatNodeRanges(run.nodes)}, {"epoch", run.epoch}});
  }
  return object;
}

ordered_json PlanJsonOf(const operators::PlanStatus& plan) {
  ordered_json object = {{"gpuProduct", plan.gpu_product}, {"gpus", plan.gpus}};
  for (const auto& [name, degree] : plan.degrees) {
    object["degrees"][name] = degree;
  }
  object["microBatchSize"] = plan.micro_batch_size;
  object["stepTimeMilliseconds"] = {{"value", plan.step_time_ms.value},
                                    {"low", plan.step_time_ms.low},
                                    {"high", plan.step_time_ms.high}};
  object["memoryBytes"] = {{"allocated", plan.allocated_bytes},
                           {"reserved", plan.reserved_bytes},
                           {"device", plan.device_bytes}};
  object["boundBy"] = plan.bound_by;
  object["arguments"] = plan.arguments;
  object["tablesVersion"] = plan.tables_version;
  return object;
}

ordered_json RestartsJsonOf(const operators::RestartStatus& restarts) {
  ordered_json object = {{"count", restarts.count}, {"counted", restarts.counted}};
  if (restarts.last.has_value()) {
    const operators::FirstCause& cause = *restarts.last;
    ordered_json& last = object["last"];
    last = {{"time", TimeText(cause.time)}, {"reason", cause.reason}, {"message", cause.message},
            {"rank", cause.rank},           {"pod", cause.pod},       {"node", cause.node}};
    if (cause.exit_code.has_value()) {
      last["exitCode"] = *cause.exit_code;
    }
    if (cause.signal.has_value()) {
      last["signal"] = *cause.signal;
    }
  }
  return object;
}

ordered_json TimingsJsonOf(const operators::TimingStatus& timings) {
  ordered_json object = ordered_json::object();
  const auto put = [&object](const char* name, const std::optional<int64_t>& value) {
    if (value.has_value()) {
      object[name] = *value;
    }
  };
  put("queuedMilliseconds", timings.queued_ms);
  put("decideMicroseconds", timings.decide_us);
  put("commitMilliseconds", timings.commit_ms);
  put("startMilliseconds", timings.start_ms);
  return object;
}

}  // namespace

std::vector<Line> ExplainLines(const Explanation& explanation, const ExplainViewOptions& options) {
  return Explainer(explanation, options).Render();
}

ordered_json ExplainJson(const Explanation& explanation) {
  const TrainingJob& job = explanation.job;
  const operators::TrainingJobStatus& status = job.status;
  ordered_json object = {{"namespace", job.meta.namespace_name},
                         {"name", job.meta.name},
                         {"uid", job.meta.uid},
                         {"outcome", ToString(OutcomeOf(job))},
                         {"state", StateOf(job)},
                         {"created", TimeText(job.meta.creation_time)},
                         {"gpus", job.spec.gpus},
                         {"pods", status.effective.pods},
                         {"placed", status.placed},
                         {"class", status.effective.job_class}};
  object["queue"] = {{"name", job.spec.queue}};
  if (explanation.queue.has_value()) {
    object["queue"] = QueueRowJson(*explanation.queue);
  }
  if (!status.waiting.reason.empty()) {
    object["waiting"] = {{"reason", status.waiting.reason},
                         {"message", status.waiting.message},
                         {"nearestChange", status.waiting.nearest_change},
                         {"queuePosition", status.waiting.queue_position}};
    if (status.waiting.predicted_start.has_value()) {
      object["waiting"]["predictedStartTime"] = TimeText(*status.waiting.predicted_start);
    }
  }
  if (status.plan.gpus > 0) {
    object["plan"] = PlanJsonOf(status.plan);
  }
  if (!status.placement.runs.empty()) {
    object["placement"] = PlacementJsonOf(status.placement);
  }
  object["timings"] = TimingsJsonOf(status.timings);
  object["restarts"] = RestartsJsonOf(status.restarts);
  object["warnings"] = ordered_json::array();
  for (const JobWarning& warning : WarningsOf(job)) {
    object["warnings"].push_back({{"type", warning.type}, {"message", warning.message}});
  }
  return object;
}

}  // namespace asterism::cli
