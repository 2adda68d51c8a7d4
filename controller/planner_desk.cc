#include "controller/planner_desk.h"

#include <algorithm>
#include <cmath>

#include "asterism/v1/planner.pb.h"
#include "base/status_macros.h"
#include "controller/planner_messages.h"
#include "fmt/format.h"
#include "planner/constraints.h"
#include "planner/plan_answer.h"
#include "planner/replan.h"

namespace asterism::controller {
absl::StatusOr<v1::PlanResponse> AnswerPlanRequest(const v1::PlanRequest& request,
                                                   const planner::CalibrationSet& kept) {
  if (request.plans() < 0 || request.plans() > kPlansMax) {
    return absl::InvalidArgumentError(
        fmt::format("plans: {} is out of range: use 0 to {}", request.plans(), kPlansMax));
  }
  ASSIGN_OR_RETURN(PlannerQuestion question, ReadPlannerQuestion(request.question(), kept));
  question.request.top_k = static_cast<size_t>(std::max<int64_t>(1, request.plans()));
  ASSIGN_OR_RETURN(const planner::PlanAnswer answer, planner::AnswerPlan(question.request));
  v1::PlanResponse response;
  FillCertificate(answer.outcome.certificate, *response.mutable_certificate());
  response.set_tables_version(question.request.tables_version);
  if (answer.outcome.best.empty()) {
    response.set_reason(answer.impossible);
    response.set_minimum_gpus(answer.minimum_gpus);
    return response;
  }
  FillPlan(question, answer, *response.add_plans());
  for (size_t index = 1; index < answer.outcome.best.size(); ++index) {
    FillPlan(question, planner::DescribePlan(question.request, answer.outcome.best[index].plan),
             *response.add_plans());
  }
  return response;
}

absl::StatusOr<v1::ExplainPlanResponse> AnswerExplainPlan(const v1::ExplainPlanRequest& request,
                                                          const planner::CalibrationSet& kept) {
  ASSIGN_OR_RETURN(const PlannerQuestion question, ReadPlannerQuestion(request.question(), kept));
  ASSIGN_OR_RETURN(const planner::LaunchPlan launch, ReadLaunchText(question, request.launch()));
  RETURN_IF_ERROR(CheckStages(question, launch.plan));
  v1::ExplainPlanResponse response;
  FillPlan(question, planner::DescribePlan(question.request, launch.plan),
           *response.mutable_plan());
  response.set_tables_version(question.request.tables_version);
  return response;
}

absl::StatusOr<v1::ValidateResponse> AnswerValidate(const v1::ValidateRequest& request,
                                                    const planner::CalibrationSet& kept) {
  ASSIGN_OR_RETURN(const PlannerQuestion question, ReadPlannerQuestion(request.question(), kept));
  ASSIGN_OR_RETURN(const planner::LaunchPlan launch, ReadLaunchText(question, request.launch()));
  ASSIGN_OR_RETURN(const planner::LaunchEnvironment environment,
                   ReadLaunchEnvironment(question, request.launch()));
  const planner::SearchRequest& asked = question.request;
  v1::ValidateResponse response;
  for (const planner::Violation& each :
       planner::CheckLaunch(asked.model, launch, environment, asked.gpus)) {
    v1::Violation& violation = *response.add_violations();
    violation.set_rule(std::string(each.id));
    violation.set_reason(each.message);
  }
  if (!CheckStages(question, launch.plan).ok()) {
    return response;
  }
  const planner::RuntimeProfile& profile = planner::ProfileOf(asked.runtime);
  const planner::DeviceMemory memory = planner::EstimateDevice(
      planner::EstimateMemory(asked.model, launch.plan, profile).allocated(), profile);
  response.mutable_device_bytes()->set_value(memory.device.value);
  response.mutable_device_bytes()->set_low(memory.device.low);
  response.mutable_device_bytes()->set_high(memory.device.high);
  response.set_fits(planner::Fits(memory, asked.cluster.gpu.memory_bytes));
  if (!response.fits()) {
    v1::Violation& violation = *response.add_violations();
    violation.set_rule("memory.fits");
    violation.set_reason(fmt::format(
        "needs up to {:.1f} GiB of a GPU's {:.1f}: shard or recompute more, or use more GPUs",
        memory.device.high / (1 << 30), asked.cluster.gpu.memory_bytes / (1 << 30)));
  }
  return response;
}

absl::StatusOr<v1::ReplanResponse> AnswerReplan(const v1::ReplanRequest& request,
                                                const planner::CalibrationSet& kept) {
  ASSIGN_OR_RETURN(const PlannerQuestion question, ReadPlannerQuestion(request.question(), kept));
  ASSIGN_OR_RETURN(const planner::LaunchPlan launch, ReadLaunchText(question, request.launch()));
  RETURN_IF_ERROR(CheckStages(question, launch.plan));
  ASSIGN_OR_RETURN(const planner::Replanned next,
                   planner::Replan(question.request, launch.plan, request.lost_gpus()));
  v1::ReplanResponse response;
  FillPlan(question, planner::DescribePlan(question.request, next.next.plan),
           *response.mutable_plan());
  response.set_keeps_shards(next.keeps_shards);
  if (std::isfinite(next.regret)) {
    response.set_regret(next.regret);
  }
  response.set_bytes_to_move(next.bytes_to_move);
  return response;
}

}  // namespace asterism::controller
