// File: controller/planner_messages.h
//
// Plans as messages of asterism.v1.Planner, and its questions as the planner takes them.
//
//   ASSIGN_OR_RETURN(const PlannerQuestion asked, ReadPlannerQuestion(request.question(), kept));
//   FillPlan(asked, answer, *response.add_plans());
//
// Errors name the field of the message or of the TrainingJob, and the way out.
// Thread-safety: pure. Cost: microseconds, beside the JSON of the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/calibration_set.h"
#include "planner/launch_plan.h"
#include "planner/plan_answer.h"
#include "planner/search.h"

namespace asterism::v1 {
class Certificate;
class LaunchText;
class ParallelPlan;
class PlanQuestion;
class TimeConstants;
}  // namespace asterism::v1

namespace asterism::controller {

struct PlannerQuestion {
  planner::SearchRequest request;
  int64_t gpus_per_node = 1;  // of the first level
  std::vector<std::string> command;
};

// `kept`: constants for where the question states none.
absl::StatusOr<PlannerQuestion> ReadPlannerQuestion(const v1::PlanQuestion& question,
                                                    const planner::CalibrationSet& kept);

// A launch without arguments is read from the job's command.
absl::StatusOr<planner::LaunchPlan> ReadLaunchText(const PlannerQuestion& question,
                                                   const v1::LaunchText& text);
// More pipeline ranks than layers is nothing that the models can be asked about.
absl::Status CheckStages(const PlannerQuestion& question, const planner::ParallelPlan& plan);
absl::StatusOr<planner::LaunchEnvironment> ReadLaunchEnvironment(const PlannerQuestion& question,
                                                                 const v1::LaunchText& text);

void FillPlan(const PlannerQuestion& question, const planner::PlanAnswer& answer,
              v1::ParallelPlan& plan);
void FillCertificate(const planner::SearchCertificate& certificate, v1::Certificate& message);
void FillConstants(const planner::TimeConstants& constants, v1::TimeConstants& message);

}  // namespace asterism::controller
