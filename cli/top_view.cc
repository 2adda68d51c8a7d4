#include "cli/top_view.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "cli/age_text.h"
#include "cli/job_outcome.h"
#include "cli/table.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::cli {
namespace {

using operators::TrainingJob;

constexpr std::array<std::string_view, 9> kOrder = {"Running",   "Recovering", "Starting",
                                                    "Placed",    "Admitted",   "Pending",
                                                    "Suspended", "Succeeded",  "Failed"};
// Around the rows: the summary, a blank line, the titles, and the line that counts what is left
// out.
constexpr size_t kFrameLines = 4;

size_t Rank(const TrainingJob& job) {
  return static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), StateOf(job)) -
                             kOrder.begin());
}

void Sort(std::vector<TrainingJob>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const TrainingJob& left, const TrainingJob& right) {
    return std::tuple(Rank(left), left.meta.creation_time, left.Key()) <
           std::tuple(Rank(right), right.meta.creation_time, right.Key());
  });
}

Tone ToneOf(const TrainingJob& job) {
  const std::string state = StateOf(job);
  if (state == "Running" || state == "Succeeded") {
    return Tone::kGood;
  }
  if (state == "Failed" || OutcomeOf(job) == JobOutcome::kNever) {
    return Tone::kBad;
  }
  return state == "Starting" || state == "Placed" ? Tone::kPlain : Tone::kWarn;
}

std::string ReasonOf(const TrainingJob& job) {
  if (!job.status.waiting.reason.empty()) {
    return job.status.waiting.reason;
  }
  const kube::Condition* failed = kube::FindCondition(job.status.conditions, "Failed");
  return failed != nullptr && failed->status == "True" ? failed->reason : "";
}

int64_t DomainsOf(const TrainingJob& job) {
  const auto& levels = job.status.placement.levels;
  // Of the first level above the node, as in the column of kubectl get.
  return levels.empty() ? 0 : levels[levels.size() > 1 ? 1 : 0].domains;
}

Line Summary(const std::vector<TrainingJob>& jobs) {
  int64_t placed = 0;
  int64_t placed_gpus = 0;
  int64_t waiting = 0;
  int64_t waiting_gpus = 0;
  int64_t never = 0;
  int64_t ended = 0;
  for (const TrainingJob& job : jobs) {
    if (HasEnded(job)) {
      ++ended;
      continue;
    }
    switch (OutcomeOf(job)) {
      case JobOutcome::kPlaced:
        ++placed;
        placed_gpus += job.spec.gpus;
        break;
      case JobOutcome::kNotNow:
        ++waiting;
        waiting_gpus += job.spec.gpus;
        break;
      case JobOutcome::kNever:
        ++never;
        break;
    }
  }
  Line line(fmt::format("{} job{}: ", jobs.size(), jobs.size() == 1 ? "" : "s"), Tone::kBold);
  line.Add(fmt::format("{} placed on {} GPUs", placed, placed_gpus), Tone::kGood);
  line.Add(", ").Add(fmt::format("{} waiting for {}", waiting, waiting_gpus),
                     waiting > 0 ? Tone::kWarn : Tone::kPlain);
  if (never > 0) {
    line.Add(", ").Add(fmt::format("{} cannot run", never), Tone::kBad);
  }
  return line.Add(fmt::format(", {} ended", ended));
}

Table JobTable(const TopViewOptions& options) {
  std::vector<Column> columns;
  if (options.all_namespaces) {
    columns.push_back({"NAMESPACE"});
  }
  for (Column column : std::vector<Column>{{"JOB"},
                                           {"STATE"},
                                           {"GPUS", Align::kRight},
                                           {"PLACED", Align::kRight},
                                           {"QUEUE"},
                                           {"CLASS"},
                                           {"AGE"},
                                           {"RESTARTS", Align::kRight}}) {
    columns.push_back(std::move(column));
  }
  if (options.wide) {
    columns.push_back({"EPOCH", Align::kRight});
    columns.push_back({"DOMAINS", Align::kRight});
  }
  columns.push_back({"REASON"});
  if (options.wide) {
    columns.push_back({"MESSAGE"});
  }
  return Table(std::move(columns));
}

std::vector<Cell> RowOf(const TrainingJob& job, const TopViewOptions& options) {
  std::vector<Cell> row;
  if (options.all_namespaces) {
    row.push_back({job.meta.namespace_name});
  }
  row.push_back({job.meta.name});
  row.push_back({StateOf(job), ToneOf(job)});
  row.push_back({fmt::to_string(job.spec.gpus)});
  row.push_back({job.status.placed});
  row.push_back({job.spec.queue});
  row.push_back({job.status.effective.job_class});
  row.push_back({AgeText(options.now - job.meta.creation_time)});
  const int64_t restarts = job.status.restarts.count;
  row.push_back({fmt::to_string(restarts), restarts > 0 ? Tone::kWarn : Tone::kPlain});
  if (options.wide) {
    row.push_back({fmt::to_string(job.status.placement.epoch)});
    row.push_back({fmt::to_string(DomainsOf(job))});
  }
  row.push_back({ReasonOf(job)});
  if (options.wide) {
    row.push_back({job.status.waiting.message});
  }
  return row;
}

}  // namespace

std::vector<Line> TopLines(std::vector<TrainingJob> jobs, const TopViewOptions& options) {
  Sort(jobs);
  std::vector<Line> lines = {Summary(jobs)};
  if (jobs.empty()) {
    return lines;
  }
  lines.emplace_back();
  size_t shown = jobs.size();
  if (options.rows_max > 0 && shown + kFrameLines - 1 > options.rows_max) {
    shown = options.rows_max > kFrameLines ? options.rows_max - kFrameLines : 0;
  }
  Table table = JobTable(options);
  for (size_t i = 0; i < shown; ++i) {
    table.AddRow(RowOf(jobs[i], options));
  }
  for (Line& line : table.Lines()) {
    lines.push_back(std::move(line));
  }
  if (shown < jobs.size()) {
    lines.emplace_back(fmt::format("and {} more", jobs.size() - shown), Tone::kFaint);
  }
  return lines;
}

nlohmann::ordered_json TopJson(std::vector<TrainingJob> jobs) {
  Sort(jobs);
  nlohmann::ordered_json object;
  object["jobs"] = nlohmann::ordered_json::array();
  for (const TrainingJob& job : jobs) {
    object["jobs"].push_back({{"namespace", job.meta.namespace_name},
                              {"name", job.meta.name},
                              {"outcome", ToString(OutcomeOf(job))},
                              {"state", StateOf(job)},
                              {"gpus", job.spec.gpus},
                              {"placed", job.status.placed},
                              {"queue", job.spec.queue},
                              {"class", job.status.effective.job_class},
                              {"created", TimeText(job.meta.creation_time)},
                              {"restarts", job.status.restarts.count},
                              {"epoch", job.status.placement.epoch},
                              {"domains", DomainsOf(job)},
                              {"reason", ReasonOf(job)},
                              {"message", job.status.waiting.message}});
  }
  return object;
}

}  // namespace asterism::cli
