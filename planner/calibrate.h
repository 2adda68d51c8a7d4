// File: planner/calibrate.h
//
// New constants of the time model from measured steps: a robust fit of the ten calibrated ones with
// the given values as prior, so that two measured jobs move what they tell about and no more.
//
//   TimeConstants fitted = CalibrateTime(points, ShippedConstants());
//
// Minimises the mean of sqrt(r^2 + 1e-4), r = log(predicted / measured), plus kPriorWeight times
// the mean squared log distance from the prior, by a coordinate search with a step that halves:
// same points, same bytes. Each constant stays within a factor of kCalibrationFactorMax of its
// prior.
//
// Bounds: kCalibrationPointsMax points are used, the first ones. Points are checked models, plans
// and clusters with measured_seconds above 0; the pointers outlive the call. Without points the
// prior is the answer.
// Thread-safety: pure. Cost: about 5,000 evaluations of the time model per point.
#pragma once

#include <cstddef>
#include <span>

#include "planner/cluster_spec.h"
#include "planner/model_spec.h"
#include "planner/parallel_plan.h"
#include "planner/runtime_profile.h"
#include "planner/time_constants.h"

namespace asterism::planner {

inline constexpr double kPriorWeight = 0.05;
inline constexpr double kCalibrationFactorMax = 5;
inline constexpr size_t kCalibrationPointsMax = 256;

struct TimePoint {
  const ModelSpec* model = nullptr;
  const ParallelPlan* plan = nullptr;
  const ClusterSpec* cluster = nullptr;
  const RuntimeProfile* profile = nullptr;
  double measured_seconds = 0;
};

TimeConstants CalibrateTime(std::span<const TimePoint> points, const TimeConstants& prior);

}  // namespace asterism::planner
