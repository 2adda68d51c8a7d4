// File: controller/calibration_desk.h
//
// What asterism.v1.Planner's Calibrate answers, and what of it is to be kept.
//
//   ASSIGN_OR_RETURN(CalibrationAnswer answer, AnswerCalibrate(request, *keeper.current(), now));
//   if (answer.to_keep.has_value()) keeper.Keep(*answer.to_keep, ...);
//
// The fit starts at the constants in force and counts what they were fitted on before, so that jobs
// that were measured earlier stay predicted. What would be kept is refused (kFailedPrecondition)
// where a job, of this call or an earlier one, that was inside kTimeErrorCalibrated would come to
// be outside, or where the constants are not believable.
//
// Errors: a request that makes no sense, with the field and the way out.
// Thread-safety: pure. Cost: up to a second.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asterism/v1/planner.pb.h"
#include "controller/calibration_keeper.h"
#include "planner/calibration_set.h"

namespace asterism::controller {

inline constexpr int kMeasurementsMax = 64;

struct CalibrationAnswer {
  v1::CalibrateResponse response;  // as it is once to_keep is kept
  std::optional<CalibrationToKeep> to_keep;
};

absl::StatusOr<CalibrationAnswer> AnswerCalibrate(const v1::CalibrateRequest& request,
                                                  const planner::CalibrationSet& kept,
                                                  absl::Time now);

}  // namespace asterism::controller
