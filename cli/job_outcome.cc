#include "cli/job_outcome.h"

#include <algorithm>
#include <array>

#include "cli/arguments.h"
#include "operator/conditions.h"
#include "operator/job_reconciler.h"

namespace asterism::cli {
namespace {

constexpr std::array<std::string_view, 5> kNeverReasons = {
    operators::wait_reason::kNeverFits, operators::wait_reason::kInvalidSpec,
    operators::wait_reason::kInvalidTemplate, operators::wait_reason::kNotAllowed,
    operators::wait_reason::kPlanFailed};

// Stages of a job's life; every other condition that is True is a warning.
constexpr std::array<std::string_view, 9> kStages = {
    operators::kAdmitted, operators::kPlanned,   operators::kPlaced,
    operators::kBound,    operators::kRunning,   operators::kSucceeded,
    operators::kFailed,   operators::kSuspended, "Migrating"};

template <typename Words>
bool IsAmong(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

JobOutcome OutcomeOf(const operators::TrainingJob& job) {
  const operators::TrainingJobStatus& status = job.status;
  if (status.Is(operators::kSucceeded)) {
    return JobOutcome::kPlaced;
  }
  if (status.Is(operators::kFailed) || IsAmong(kNeverReasons, status.waiting.reason)) {
    return JobOutcome::kNever;
  }
  const bool placed = status.Is(operators::kPlaced) && status.waiting.reason.empty();
  return placed ? JobOutcome::kPlaced : JobOutcome::kNotNow;
}

int ExitCodeOf(JobOutcome outcome) {
  switch (outcome) {
    case JobOutcome::kPlaced:
      return kExitDone;
    case JobOutcome::kNotNow:
      return kExitNotNow;
    case JobOutcome::kNever:
      return kExitNever;
  }
  return kExitError;
}

std::string_view ToString(JobOutcome outcome) {
  switch (outcome) {
    case JobOutcome::kPlaced:
      return "Placed";
    case JobOutcome::kNotNow:
      return "NotNow";
    case JobOutcome::kNever:
      return "Never";
  }
  return "";
}

std::string StateOf(const operators::TrainingJob& job) {
  return job.status.state.empty() ? "Pending" : job.status.state;
}

bool HasEnded(const operators::TrainingJob& job) {
  return operators::Finished(job.status);
}

std::vector<JobWarning> WarningsOf(const operators::TrainingJob& job) {
  std::vector<JobWarning> warnings;
  for (const kube::Condition& condition : job.status.conditions) {
    if (condition.status == "True" && !IsAmong(kStages, condition.type)) {
      warnings.push_back({condition.type, condition.message});
    }
  }
  return warnings;
}

}  // namespace asterism::cli
