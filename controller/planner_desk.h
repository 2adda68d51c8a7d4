// File: controller/planner_desk.h
//
// What each method of asterism.v1.Planner answers: functions of the request alone.
//
//   ASSIGN_OR_RETURN(v1::PlanResponse response, AnswerPlan(request));
//
// Errors: a request that makes no sense, with the field and the way out. That nothing fits is an
// answer, not an error.
// Thread-safety: pure. Cost: a search, up to about a tenth of a second; where nothing fits up to
// seconds; Calibrate up to a second.
#pragma once

#include "absl/status/statusor.h"

namespace asterism::v1 {
class CalibrateRequest;
class CalibrateResponse;
class ExplainPlanRequest;
class ExplainPlanResponse;
class PlanRequest;
class PlanResponse;
class ReplanRequest;
class ReplanResponse;
class ValidateRequest;
class ValidateResponse;
}  // namespace asterism::v1

namespace asterism::controller {

inline constexpr int kPlansMax = 20;
inline constexpr int kMeasurementsMax = 64;

absl::StatusOr<v1::PlanResponse> AnswerPlanRequest(const v1::PlanRequest& request);
absl::StatusOr<v1::ExplainPlanResponse> AnswerExplainPlan(const v1::ExplainPlanRequest& request);
absl::StatusOr<v1::ValidateResponse> AnswerValidate(const v1::ValidateRequest& request);
absl::StatusOr<v1::ReplanResponse> AnswerReplan(const v1::ReplanRequest& request);
absl::StatusOr<v1::CalibrateResponse> AnswerCalibrate(const v1::CalibrateRequest& request);

}  // namespace asterism::controller
