#include "agent/probe/node_measurer.h"

#include <algorithm>
#include <utility>

#include "agent/probe/measurement_merge.h"
#include "base/log.h"
#include "fmt/format.h"

namespace asterism::agent {

struct NodeMeasurer::Entry {
  explicit Entry(base::Executor& executor) : next(executor), deadline(executor) {}

  std::unique_ptr<ProbeThread> thread;
  std::optional<ProbeResult> last;  // that was no failure
  std::string problem;
  bool heard = false;  // it has answered, or its time was up
  absl::Duration took;
  base::OwnedTimer next;
  base::OwnedTimer deadline;
};

NodeMeasurer::NodeMeasurer(base::Executor& executor, std::vector<std::unique_ptr<Probe>> probes,
                           NodeMeasurerOptions options, Tell tell)
    : executor_(executor), options_(options), tell_(std::move(tell)) {
  for (std::unique_ptr<Probe>& probe : probes) {
    Entry& entry = *entries_.emplace_back(std::make_unique<Entry>(executor_));
    entry.thread = std::make_unique<ProbeThread>(
        std::move(probe), executor_, [this, &entry](ProbeResult result, absl::Duration took) {
          OnAnswer(entry, std::move(result), took);
        });
  }
}

NodeMeasurer::~NodeMeasurer() = default;

void NodeMeasurer::Start() {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    Ask(*entry);
  }
}

std::vector<std::string> NodeMeasurer::Complaints() const {
  std::vector<std::string> complaints;
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (!entry->problem.empty()) {
      complaints.push_back(fmt::format("{}: {}", entry->thread->name(), entry->problem));
    }
  }
  return complaints;
}

void NodeMeasurer::Ask(Entry& entry) {
  if (entry.thread->Ask()) {
    entry.deadline.Start(options_.deadline, [this, &entry] { OnDeadline(entry); });
  }
}

void NodeMeasurer::OnDeadline(Entry& entry) {
  entry.heard = true;
  SetProblem(entry, fmt::format("no answer within {}: its facts are stale",
                                absl::FormatDuration(options_.deadline)));
  TellAll();
}

void NodeMeasurer::OnAnswer(Entry& entry, ProbeResult result, absl::Duration took) {
  entry.deadline.Cancel();
  entry.heard = true;
  entry.took = took;
  const absl::Duration period = entry.thread->period();
  const absl::Duration wait =
      result.again > absl::ZeroDuration() ? std::min(result.again, period) : period;
  SetProblem(entry, result.problem);
  if (result.problem.empty()) {
    entry.last = std::move(result);
  }
  entry.next.Start(wait, [this, &entry] { Ask(entry); });
  TellAll();
}

void NodeMeasurer::SetProblem(Entry& entry, const std::string& problem) {
  if (problem == entry.problem) {
    return;
  }
  entry.problem = problem;
  if (problem.empty()) {
    base::LogInfo("probe_answers", {{"probe", entry.thread->name()}});
  } else {
    base::LogWarning("probe_failed", {{"probe", entry.thread->name()}, {"error", problem}});
  }
}

void NodeMeasurer::TellAll() {
  if (!std::ranges::all_of(entries_, [](const auto& entry) { return entry->heard; })) {
    return;
  }
  std::vector<std::pair<std::string_view, const ProbeResult*>> results;
  for (const std::unique_ptr<Entry>& entry : entries_) {
    results.emplace_back(entry->thread->name(), entry->last.has_value() ? &*entry->last : nullptr);
  }
  v1::NodeMeasurement measured = MergeMeasurement(results);
  for (const std::unique_ptr<Entry>& entry : entries_) {
    v1::ProbeOutcome& outcome = *measured.add_probes();
    outcome.set_name(entry->thread->name());
    outcome.set_problem(entry->problem);
    outcome.set_duration_nanoseconds(static_cast<uint64_t>(absl::ToInt64Nanoseconds(entry->took)));
    if (entry->last.has_value()) {
      for (size_t i = 0; i < std::min(entry->last->gaps.size(), kProbeGapsMax); ++i) {
        outcome.add_gaps(entry->last->gaps[i]);
      }
    }
  }
  MakePrintable(measured);
  tell_(std::move(measured));
}

}  // namespace asterism::agent
