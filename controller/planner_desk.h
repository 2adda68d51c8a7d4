// File: controller/planner_desk.h
//
// What each method of asterism.v1.Planner but Calibrate answers: functions of the request and of
// the constants that the cluster keeps, which hold where the request states none.
//
//   ASSIGN_OR_RETURN(v1::PlanResponse response, AnswerPlanRequest(request, *keeper.current()));
//
// Errors: a request that makes no sense, with the field and the way out. That nothing fits is an
// answer, not an error.
// Thread-safety: pure. Cost: a search, up to about a tenth of a second; where nothing fits up to
// seconds.
#pragma once

#include "absl/status/statusor.h"

namespace asterism::v1 {
class ExplainPlanRequest;
class ExplainPlanResponse;
class PlanRequest;
class PlanResponse;
class ReplanRequest;
class ReplanResponse;
class ValidateRequest;
class ValidateResponse;
}  // namespace asterism::v1

namespace asterism::planner {
class CalibrationSet;
}  // namespace asterism::planner

namespace asterism::controller {

inline constexpr int kPlansMax = 20;

absl::StatusOr<v1::PlanResponse> AnswerPlanRequest(const v1::PlanRequest& request,
                                                   const planner::CalibrationSet& kept);
absl::StatusOr<v1::ExplainPlanResponse> AnswerExplainPlan(const v1::ExplainPlanRequest& request,
                                                          const planner::CalibrationSet& kept);
absl::StatusOr<v1::ValidateResponse> AnswerValidate(const v1::ValidateRequest& request,
                                                    const planner::CalibrationSet& kept);
absl::StatusOr<v1::ReplanResponse> AnswerReplan(const v1::ReplanRequest& request,
                                                const planner::CalibrationSet& kept);

}  // namespace asterism::controller
