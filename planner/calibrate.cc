#include "planner/calibrate.h"

#include <algorithm>
#include <cmath>

#include "planner/time_model.h"

namespace asterism::planner {
namespace {

double CalibrationLoss(std::span<const TimePoint> points, const TimeConstants& constants,
                       const TimeConstants& prior) {
  double loss = 0;
  for (const TimePoint& point : points) {
    const double predicted =
        EstimateTime(*point.model, *point.plan, *point.cluster, *point.profile, constants)
            .Seconds();
    const double residual = std::log(predicted / point.measured_seconds);
    loss += std::sqrt(residual * residual + 1e-4);
  }
  double distance = 0;
  for (double TimeConstants::*const each : CalibratedConstants()) {
    const double ratio = std::log(constants.*each / prior.*each);
    distance += ratio * ratio;
  }
  return loss / static_cast<double>(points.size()) +
         kPriorWeight * distance / static_cast<double>(CalibratedConstants().size());
}

bool StaysNear(double value, double prior) {
  return value <= prior * kCalibrationFactorMax && value >= prior / kCalibrationFactorMax;
}

// No kernel runs faster than the hardware.
bool IsPossible(const TimeConstants& constants) {
  constexpr double kEfficiencyMax = 0.95;
  return constants.product_efficiency <= kEfficiencyMax &&
         constants.attention_efficiency <= kEfficiencyMax && constants.grouped_efficiency <= 1 &&
         constants.network_share <= 1;
}

struct Found {
  TimeConstants constants;
  double loss = 0;
};

Found SearchFrom(std::span<const TimePoint> points, const TimeConstants& start,
                 const TimeConstants& prior) {
  constexpr double kFirstStep = 0.4;
  constexpr double kLastStep = 0.002;
  constexpr int kSweepsMax = 400;
  Found best{start, CalibrationLoss(points, start, prior)};
  double step = kFirstStep;
  for (int sweep = 0; sweep < kSweepsMax && step > kLastStep; ++sweep) {
    bool moved = false;
    for (double TimeConstants::*const each : CalibratedConstants()) {
      for (const double sign : {1.0, -1.0}) {
        TimeConstants other = best.constants;
        other.*each *= std::exp(sign * step);
        if (!StaysNear(other.*each, prior.*each) || !IsPossible(other)) {
          continue;
        }
        const double loss = CalibrationLoss(points, other, prior);
        if (loss < best.loss - 1e-12) {
          best = {other, loss};
          moved = true;
          break;
        }
      }
    }
    step = moved ? step : step / 2;
  }
  return best;
}

}  // namespace

TimeConstants CalibrateTime(std::span<const TimePoint> points, const TimeConstants& prior) {
  if (points.empty()) {
    return prior;
  }
  points = points.first(std::min(points.size(), kCalibrationPointsMax));
  // The host's launches show only where they are the longer part, so a small change of them shows
  // nothing: a second start where they are.
  TimeConstants launching = prior;
  launching.launch_us *= 3;
  const Found first = SearchFrom(points, prior, prior);
  const Found second = SearchFrom(points, launching, prior);
  return second.loss < first.loss ? second.constants : first.constants;
}

}  // namespace asterism::planner
