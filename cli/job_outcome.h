// File: cli/job_outcome.h
//
// What a TrainingJob's status means for a script: it has its place, it waits, or it will never run
// as it is.
//
//   return ExitCodeOf(OutcomeOf(job));   // 0, 3 or 4
//
// Never: the reasons that no passing of time cures (NeverFits, InvalidSpec, InvalidTemplate,
// NotAllowed, PlanFailed), and a job that has failed. A suspended job waits.
//
// Thread-safety: pure. Cost: a few comparisons.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/training_job.h"

namespace asterism::cli {

enum class JobOutcome { kPlaced, kNotNow, kNever };

JobOutcome OutcomeOf(const operators::TrainingJob& job);
int ExitCodeOf(JobOutcome outcome);
std::string_view ToString(JobOutcome outcome);  // "Placed", "NotNow", "Never"

// status.state; "Pending" where no controller has looked yet.
std::string StateOf(const operators::TrainingJob& job);
bool HasEnded(const operators::TrainingJob& job);

// Conditions that are True although they tell no stage of life: CommandSuspect, FieldsIgnored, ...
struct JobWarning {
  std::string type;
  std::string message;
};
std::vector<JobWarning> WarningsOf(const operators::TrainingJob& job);

}  // namespace asterism::cli
