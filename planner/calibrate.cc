#include "planner/calibrate.h"

#include <algorithm>
#include <cmath>

#include "planner/time_model.h"

namespace asterism::planner {
namespace {

struct Evidence {
  std::span<const TimePoint> points;
  std::span<const RememberedPoint> remembered;
  const TimeConstants& prior;
};

double LogError(const TimePoint& point, const TimeConstants& constants) {
  return std::log(
      EstimateTime(*point.model, *point.plan, *point.cluster, *point.profile, constants).Seconds() /
      point.measured_seconds);
}

// Nearly the absolute value, so that one wrong measurement does not draw the others along.
double PointLoss(double log_error) {
  return std::sqrt(log_error * log_error + 1e-4);
}

double CalibrationLoss(const Evidence& evidence, const TimeConstants& constants) {
  double loss = 0;
  for (const TimePoint& point : evidence.points) {
    loss += PointLoss(LogError(point, constants));
  }
  for (const RememberedPoint& point : evidence.remembered) {
    loss += PointLoss(MovePoint(point, evidence.prior, constants).log_error);
  }
  double distance = 0;
  for (double TimeConstants::*const each : CalibratedConstants()) {
    const double ratio = std::log(constants.*each / evidence.prior.*each);
    distance += ratio * ratio;
  }
  return loss / static_cast<double>(evidence.points.size() + evidence.remembered.size()) +
         kPriorWeight * distance / static_cast<double>(CalibratedConstants().size());
}

bool StaysNear(double value, const Evidence& evidence, double prior) {
  const double factor = evidence.remembered.empty() ? kCalibrationFactorMax : kTrustedFactor;
  return value <= prior * factor && value >= prior / factor;
}

struct Found {
  TimeConstants constants;
  double loss = 0;
};

Found SearchFrom(const Evidence& evidence, const TimeConstants& start) {
  constexpr double kFirstStep = 0.4;
  constexpr double kLastStep = 0.002;
  constexpr int kSweepsMax = 400;
  Found best{start, CalibrationLoss(evidence, start)};
  double step = kFirstStep;
  for (int sweep = 0; sweep < kSweepsMax && step > kLastStep; ++sweep) {
    bool moved = false;
    for (double TimeConstants::*const each : CalibratedConstants()) {
      for (const double sign : {1.0, -1.0}) {
        TimeConstants other = best.constants;
        other.*each *= std::exp(sign * step);
        if (!StaysNear(other.*each, evidence, evidence.prior.*each) || !ArePossible(other)) {
          continue;
        }
        const double loss = CalibrationLoss(evidence, other);
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

bool ArePossible(const TimeConstants& constants) {
  constexpr double kEfficiencyMax = 0.95;
  return constants.product_efficiency <= kEfficiencyMax &&
         constants.attention_efficiency <= kEfficiencyMax && constants.grouped_efficiency <= 1 &&
         constants.network_share <= 1;
}

RememberedPoint RememberPoint(const TimePoint& point, const TimeConstants& constants) {
  RememberedPoint remembered{.log_error = LogError(point, constants)};
  for (size_t index = 0; index < CalibratedConstants().size(); ++index) {
    TimeConstants other = constants;
    other.*CalibratedConstants()[index] /= kRememberedFactor;
    remembered.smaller[index] = LogError(point, other) - remembered.log_error;
    other = constants;
    other.*CalibratedConstants()[index] *= kRememberedFactor;
    remembered.larger[index] = LogError(point, other) - remembered.log_error;
  }
  return remembered;
}

RememberedPoint MovePoint(const RememberedPoint& point, const TimeConstants& from,
                          const TimeConstants& to) {
  RememberedPoint moved = point;
  for (size_t index = 0; index < CalibratedConstants().size(); ++index) {
    double TimeConstants::*const each = CalibratedConstants()[index];
    if (to.*each == from.*each) {
      continue;
    }
    const double slope = (point.larger[index] - point.smaller[index]) / 2;
    const double bend = (point.larger[index] + point.smaller[index]) / 2;
    // In steps of kRememberedFactor.
    const auto change = [&](double steps) { return slope * steps + bend * steps * steps; };
    const double steps = std::log(to.*each / from.*each) / std::log(kRememberedFactor);
    moved.log_error += change(steps);
    moved.smaller[index] = change(steps - 1) - change(steps);
    moved.larger[index] = change(steps + 1) - change(steps);
  }
  return moved;
}

TimeConstants CalibrateTime(std::span<const TimePoint> points, const TimeConstants& prior,
                            std::span<const RememberedPoint> remembered) {
  if (points.empty()) {
    return prior;
  }
  const Evidence evidence{points.first(std::min(points.size(), kCalibrationPointsMax)), remembered,
                          prior};
  // The host's launches show only where they are the longer part, so a small change of them shows
  // nothing: a second start where they are.
  TimeConstants launching = prior;
  launching.launch_us *= evidence.remembered.empty() ? 3 : kTrustedFactor;
  const Found first = SearchFrom(evidence, prior);
  const Found second = SearchFrom(evidence, launching);
  return second.loss < first.loss ? second.constants : first.constants;
}

}  // namespace asterism::planner
