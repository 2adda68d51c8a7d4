#include "controller/planner_desk.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "asterism/v1/planner.pb.h"
#include "base/status_macros.h"
#include "controller/planner_messages.h"
#include "fmt/format.h"
#include "planner/calibrate.h"
#include "planner/constraints.h"
#include "planner/plan_answer.h"
#include "planner/replan.h"
#include "planner/time_model.h"

namespace asterism::controller {
namespace {

std::string TablesVersion() {
  return std::string(planner::kTimeTablesVersion);
}

// More pipeline ranks than layers is nothing that the models can be asked about.
absl::Status CheckStages(const PlannerQuestion& question, const planner::ParallelPlan& plan) {
  if (plan.degrees.pipeline * plan.virtual_stages > question.request.model.layers + 2) {
    return absl::InvalidArgumentError(
        fmt::format("launch: {} stages are more than the {} layers: use fewer",
                    plan.degrees.pipeline * plan.virtual_stages, question.request.model.layers));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::PlanResponse> AnswerPlanRequest(const v1::PlanRequest& request) {
  if (request.plans() < 0 || request.plans() > kPlansMax) {
    return absl::InvalidArgumentError(
        fmt::format("plans: {} is out of range: use 0 to {}", request.plans(), kPlansMax));
  }
  ASSIGN_OR_RETURN(PlannerQuestion question, ReadPlannerQuestion(request.question()));
  question.request.top_k = static_cast<size_t>(std::max<int64_t>(1, request.plans()));
  ASSIGN_OR_RETURN(const planner::PlanAnswer answer, planner::AnswerPlan(question.request));
  v1::PlanResponse response;
  FillCertificate(answer.outcome.certificate, *response.mutable_certificate());
  response.set_tables_version(TablesVersion());
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

absl::StatusOr<v1::ExplainPlanResponse> AnswerExplainPlan(const v1::ExplainPlanRequest& request) {
  ASSIGN_OR_RETURN(const PlannerQuestion question, ReadPlannerQuestion(request.question()));
  ASSIGN_OR_RETURN(const planner::LaunchPlan launch, ReadLaunchText(question, request.launch()));
  RETURN_IF_ERROR(CheckStages(question, launch.plan));
  v1::ExplainPlanResponse response;
  FillPlan(question, planner::DescribePlan(question.request, launch.plan),
           *response.mutable_plan());
  response.set_tables_version(TablesVersion());
  return response;
}

absl::StatusOr<v1::ValidateResponse> AnswerValidate(const v1::ValidateRequest& request) {
  ASSIGN_OR_RETURN(const PlannerQuestion question, ReadPlannerQuestion(request.question()));
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

absl::StatusOr<v1::ReplanResponse> AnswerReplan(const v1::ReplanRequest& request) {
  ASSIGN_OR_RETURN(const PlannerQuestion question, ReadPlannerQuestion(request.question()));
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

absl::StatusOr<v1::CalibrateResponse> AnswerCalibrate(const v1::CalibrateRequest& request) {
  const int count = request.measurements_size();
  if (count < 1 || count > kMeasurementsMax) {
    return absl::InvalidArgumentError(
        fmt::format("measurements: there are {}: give 1 to {}", count, kMeasurementsMax));
  }
  std::vector<PlannerQuestion> questions;
  std::vector<planner::LaunchPlan> launches;
  for (const v1::Measurement& each : request.measurements()) {
    if (!(each.step_seconds() > 0) || !std::isfinite(each.step_seconds())) {
      return absl::InvalidArgumentError(
          fmt::format("measurements[{}].step_seconds: {} is no time: state seconds above 0",
                      questions.size(), each.step_seconds()));
    }
    ASSIGN_OR_RETURN(PlannerQuestion question, ReadPlannerQuestion(each.question()));
    ASSIGN_OR_RETURN(planner::LaunchPlan launch, ReadLaunchText(question, each.launch()));
    RETURN_IF_ERROR(CheckStages(question, launch.plan));
    questions.push_back(std::move(question));
    launches.push_back(launch);
  }
  std::vector<planner::TimePoint> points;
  for (size_t index = 0; index < questions.size(); ++index) {
    const planner::SearchRequest& asked = questions[index].request;
    points.push_back(
        {.model = &asked.model,
         .plan = &launches[index].plan,
         .cluster = &asked.cluster,
         .profile = &planner::ProfileOf(asked.runtime),
         .measured_seconds = request.measurements(static_cast<int>(index)).step_seconds()});
  }
  const planner::TimeConstants prior = questions.front().request.constants;
  const planner::TimeConstants fitted = planner::CalibrateTime(points, prior);
  v1::CalibrateResponse response;
  FillConstants(fitted, *response.mutable_constants());
  const auto error = [](const planner::TimePoint& point, const planner::TimeConstants& constants) {
    return planner::EstimateTime(*point.model, *point.plan, *point.cluster, *point.profile,
                                 constants)
                   .Seconds() /
               point.measured_seconds -
           1;
  };
  for (const planner::TimePoint& point : points) {
    response.add_error_before(error(point, prior));
    response.add_error_after(error(point, fitted));
  }
  response.set_tables_version(TablesVersion());
  return response;
}

}  // namespace asterism::controller
