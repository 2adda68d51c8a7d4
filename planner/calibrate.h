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
// What an earlier fit was made from can be remembered without the jobs themselves: the error of a
// point, and how much it changes where a constant is kRememberedFactor smaller or larger. Between
// the three a parabola over the logarithm of the constant is taken for the model: a straight line
// would not see a term that is hidden now and would show (launches behind kernels). What two
// constants do together is not remembered, so a fit with remembered points moves each of them by
// kTrustedFactor at most; what is measured again moves it on. The next fit counts the point among
// its own, so that what was measured before stays predicted:
//
//   std::vector<RememberedPoint> known = {RememberPoint(point, fitted)};
//   TimeConstants next = CalibrateTime(more, fitted, known);       // `fitted` is where they stand
//   known[0] = MovePoint(known[0], fitted, next);
//
// Bounds: kCalibrationPointsMax points are used, the first ones. Points are checked models, plans
// and clusters with measured_seconds above 0; the pointers outlive the call. Without points the
// prior is the answer.
// Thread-safety: pure. Cost: about 5,000 evaluations of the time model per point.
#pragma once

#include <array>
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

// No kernel and no network that is faster than its hardware.
bool ArePossible(const TimeConstants& constants);

inline constexpr double kRememberedFactor = 3;
inline constexpr double kTrustedFactor = 1.25;

struct RememberedPoint {
  double log_error = 0;  // log(predicted / measured)
  // What is added to it with one of CalibratedConstants so much smaller, or larger.
  std::array<double, 10> smaller = {};
  std::array<double, 10> larger = {};

  friend bool operator==(const RememberedPoint&, const RememberedPoint&) = default;
};
RememberedPoint RememberPoint(const TimePoint& point, const TimeConstants& constants);
// The same point, seen from other constants.
RememberedPoint MovePoint(const RememberedPoint& point, const TimeConstants& from,
                          const TimeConstants& to);

// `remembered` as seen from `prior`.
TimeConstants CalibrateTime(std::span<const TimePoint> points, const TimeConstants& prior,
                            std::span<const RememberedPoint> remembered = {});

}  // namespace asterism::planner
