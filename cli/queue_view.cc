#include "cli/queue_view.h"

#include <algorithm>
#include <iterator>
#include <limits>
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

Table QueueTable(const std::vector<QueueRow>& queues) {
  Table table({{"QUEUE"},
               {"PARENT"},
               {"USED", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"LIMIT", Align::kRight},
               {"WAITING JOBS", Align::kRight},
               {"WAITING GPUS", Align::kRight},
               {"STATE"}});
  for (const QueueRow& row : queues) {
    const bool full = row.limit.has_value() && row.used >= *row.limit;
    Cell state{"Ready", Tone::kGood};
    if (!row.problem.empty()) {
      state = {row.problem, Tone::kBad};
    } else if (row.stop_policy != "None") {
      state = {row.stop_policy, Tone::kWarn};
    }
    table.AddRow({{row.name},
                  {row.parent.empty() ? "-" : row.parent},
                  {fmt::to_string(row.used), full ? Tone::kWarn : Tone::kPlain},
                  {fmt::to_string(row.guaranteed)},
                  {row.limit.has_value() ? fmt::to_string(*row.limit) : "-"},
                  {fmt::to_string(row.pending_jobs)},
                  {fmt::to_string(row.pending_gpus)},
                  state});
  }
  return table;
}

Table WaitingTable(const QueuePicture& picture, bool wide) {
  std::vector<Column> columns = {{"#", Align::kRight},    {"NAMESPACE"}, {"JOB"},   {"QUEUE"},
                                 {"GPUS", Align::kRight}, {"AGE"},       {"REASON"}};
  if (wide) {
    columns.push_back({"MESSAGE"});
  }
  Table table(std::move(columns));
  for (const TrainingJob& job : picture.waiting) {
    const operators::WaitingStatus& waiting = job.status.waiting;
    const bool never = OutcomeOf(job) == JobOutcome::kNever;
    std::vector<Cell> row = {
        {waiting.queue_position > 0 ? fmt::to_string(waiting.queue_position) : "-"},
        {job.meta.namespace_name},
        {job.meta.name},
        {job.spec.queue},
        {fmt::to_string(job.spec.gpus)},
        {AgeText(picture.now - job.meta.creation_time)},
        {waiting.reason, never ? Tone::kBad : Tone::kWarn}};
    if (wide) {
      row.push_back({waiting.message});
    }
    table.AddRow(std::move(row));
  }
  return table;
}

void Append(std::vector<Line> more, std::vector<Line>& lines) {
  lines.insert(lines.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<TrainingJob> WaitingJobs(std::vector<TrainingJob> jobs, std::string_view queue) {
  std::erase_if(jobs, [queue](const TrainingJob& job) {
    return job.status.waiting.reason.empty() || HasEnded(job) ||
           (!queue.empty() && job.spec.queue != queue);
  });
  const auto order = [](const TrainingJob& job) {
    const int64_t position = job.status.waiting.queue_position;
    return std::tuple(position > 0 ? position : std::numeric_limits<int64_t>::max(),
                      job.meta.creation_time, job.Key());
  };
  std::sort(jobs.begin(), jobs.end(), [&order](const TrainingJob& left, const TrainingJob& right) {
    return order(left) < order(right);
  });
  return jobs;
}

std::vector<Line> QueueLines(const QueuePicture& picture, const QueueViewOptions& options) {
  std::vector<Line> lines;
  if (picture.queues.empty()) {
    lines.emplace_back("there is no Queue: apply one (examples/queue.yaml)");
  } else {
    Append(QueueTable(picture.queues).Lines(), lines);
  }
  lines.emplace_back();
  if (picture.waiting.empty()) {
    lines.emplace_back("no job waits");
  } else {
    Append(WaitingTable(picture, options.wide).Lines(), lines);
  }
  if (!picture.note.empty()) {
    lines.emplace_back("note: " + picture.note, Tone::kWarn);
  }
  return lines;
}

nlohmann::ordered_json QueueJson(const QueuePicture& picture) {
  nlohmann::ordered_json object;
  object["queues"] = nlohmann::ordered_json::array();
  for (const QueueRow& row : picture.queues) {
    object["queues"].push_back(QueueRowJson(row));
  }
  object["waiting"] = nlohmann::ordered_json::array();
  for (const TrainingJob& job : picture.waiting) {
    const operators::WaitingStatus& waiting = job.status.waiting;
    object["waiting"].push_back({{"position", waiting.queue_position},
                                 {"namespace", job.meta.namespace_name},
                                 {"name", job.meta.name},
                                 {"queue", job.spec.queue},
                                 {"gpus", job.spec.gpus},
                                 {"created", TimeText(job.meta.creation_time)},
                                 {"outcome", ToString(OutcomeOf(job))},
                                 {"reason", waiting.reason},
                                 {"message", waiting.message}});
  }
  if (!picture.note.empty()) {
    object["note"] = picture.note;
  }
  return object;
}

}  // namespace asterism::cli
