#include "controller/calibration_desk.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "controller/planner_messages.h"
#include "fmt/format.h"
#include "planner/calibrate.h"
#include "planner/plan_answer.h"

namespace asterism::controller {
namespace {

// A step that is still so far off after the fit is no matter of constants.
constexpr double kKeptErrorMax = 1;  // of its logarithm

struct Measured {
  PlannerQuestion question;
  planner::LaunchPlan launch;
  double seconds = 0;

  planner::TimePoint Point() const {
    return {.model = &question.request.model,
            .plan = &launch.plan,
            .cluster = &question.request.cluster,
            .profile = &planner::ProfileOf(question.request.runtime),
            .measured_seconds = seconds};
  }
};

absl::StatusOr<Measured> ReadMeasured(const v1::Measurement& message, size_t index,
                                      const planner::CalibrationSet& kept) {
  if (!(message.step_seconds() > 0) || !std::isfinite(message.step_seconds())) {
    return absl::InvalidArgumentError(
        fmt::format("measurements[{}].step_seconds: {} is no time: state seconds above 0", index,
                    message.step_seconds()));
  }
  Measured measured{.seconds = message.step_seconds()};
  ASSIGN_OR_RETURN(measured.question, ReadPlannerQuestion(message.question(), kept));
  ASSIGN_OR_RETURN(measured.launch, ReadLaunchText(measured.question, message.launch()));
  RETURN_IF_ERROR(CheckStages(measured.question, measured.launch.plan));
  return measured;
}

absl::StatusOr<std::vector<Measured>> ReadMeasurements(const v1::CalibrateRequest& request,
                                                       const planner::CalibrationSet& kept) {
  const int count = request.measurements_size();
  if (count < 1 || count > kMeasurementsMax) {
    return absl::InvalidArgumentError(
        fmt::format("measurements: there are {}: give 1 to {}", count, kMeasurementsMax));
  }
  std::vector<Measured> all;
  for (const v1::Measurement& each : request.measurements()) {
    ASSIGN_OR_RETURN(Measured measured, ReadMeasured(each, all.size(), kept));
    const planner::SearchRequest& first =
        all.empty() ? measured.question.request : all.front().question.request;
    if (measured.question.request.cluster.gpu.name != first.cluster.gpu.name ||
        measured.question.request.framework != first.framework) {
      return absl::InvalidArgumentError(fmt::format(
          "measurements[{}].question: is another GPU or framework than measurements[0]: constants "
          "hold for one of each: calibrate them apart",
          all.size()));
    }
    if (request.keep() && each.question().has_constants()) {
      return absl::InvalidArgumentError(fmt::format(
          "measurements[{}].question.constants: what is kept is fitted from the constants in "
          "force: leave them out, or keep nothing",
          all.size()));
    }
    all.push_back(std::move(measured));
  }
  return all;
}

std::vector<planner::RememberedPoint> PointsSeenFrom(const std::vector<planner::TimePoint>& points,
                                                     const planner::TimeConstants& constants) {
  std::vector<planner::RememberedPoint> seen;
  seen.reserve(points.size());
  for (const planner::TimePoint& point : points) {
    seen.push_back(planner::RememberPoint(point, constants));
  }
  return seen;
}

double ErrorOf(const planner::RememberedPoint& point) {
  return std::exp(point.log_error) - 1;
}

double MeanError(const std::vector<planner::RememberedPoint>& points) {
  double sum = 0;
  for (const planner::RememberedPoint& point : points) {
    sum += std::abs(ErrorOf(point));
  }
  return sum / static_cast<double>(points.size());
}

absl::Status CheckNotWorse(const planner::RememberedPoint& before,
                           const planner::RememberedPoint& after, std::string_view what) {
  if (std::abs(ErrorOf(before)) > planner::kTimeErrorCalibrated ||
      std::abs(ErrorOf(after)) <= planner::kTimeErrorCalibrated) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(fmt::format(
      "{} would be predicted {:+.0f} % off where it is {:+.0f} % now, and nothing was kept: leave "
      "out what was measured on other software or on a disturbed cluster, or delete the key to "
      "start anew",
      what, 100 * ErrorOf(after), 100 * ErrorOf(before)));
}

struct Fit {
  planner::TimeConstants prior;
  planner::TimeConstants constants;
  std::vector<planner::RememberedPoint> before;  // the new points, seen from the prior
  std::vector<planner::RememberedPoint> after;   // and from the new constants
};

absl::StatusOr<CalibrationToKeep> WhatToKeep(const planner::SearchRequest& asked, const Fit& fit,
                                             const planner::CalibrationSet& kept, absl::Time now) {
  const std::optional<std::string> key =
      planner::CalibrationKey(asked.cluster.gpu.name, asked.framework);
  if (!key.has_value()) {
    return absl::InvalidArgumentError(
        "keep: no job can name this framework: use MegatronLM, DeepSpeed or FSDP");
  }
  RETURN_IF_ERROR(planner::CheckConstants(fit.constants, asked.cluster.gpu.name));
  CalibrationToKeep result{.key = *key};
  std::vector<planner::RememberedPoint>& points = result.value.kept.points;
  if (const planner::KeptCalibration* const in_force = kept.Find(*key); in_force != nullptr) {
    result.base_version = in_force->version;
    for (const planner::RememberedPoint& point : in_force->points) {
      points.push_back(planner::MovePoint(point, fit.prior, fit.constants));
      RETURN_IF_ERROR(CheckNotWorse(point, points.back(), "a job that was measured earlier"));
    }
  }
  for (size_t index = 0; index < fit.after.size(); ++index) {
    const std::string what = fmt::format("measurements[{}]", index);
    RETURN_IF_ERROR(CheckNotWorse(fit.before[index], fit.after[index], what));
    if (std::abs(fit.after[index].log_error) > kKeptErrorMax) {
      return absl::FailedPreconditionError(fmt::format(
          "{}.step_seconds: is {:.3g} times what the model can come to, and nothing was kept: "
          "check its unit, or leave it out",
          what, std::exp(-fit.after[index].log_error)));
    }
    points.push_back(fit.after[index]);
  }
  if (points.size() > planner::kRememberedPointsMax) {
    points.erase(points.begin(), points.end() - planner::kRememberedPointsMax);
  }
  result.value.kept.version = result.base_version + 1;
  result.value.kept.constants = fit.constants;
  result.value.measurements = static_cast<int64_t>(fit.after.size());
  result.value.mean_error_before = MeanError(fit.before);
  result.value.mean_error_after = MeanError(fit.after);
  result.value.time = now;
  return result;
}

}  // namespace

absl::StatusOr<CalibrationAnswer> AnswerCalibrate(const v1::CalibrateRequest& request,
                                                  const planner::CalibrationSet& kept,
                                                  absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<Measured> measured, ReadMeasurements(request, kept));
  std::vector<planner::TimePoint> points;
  points.reserve(measured.size());
  for (const Measured& each : measured) {
    points.push_back(each.Point());
  }
  const planner::SearchRequest& asked = measured.front().question.request;
  const std::optional<std::string> key =
      planner::CalibrationKey(asked.cluster.gpu.name, asked.framework);
  const bool own_constants = request.measurements(0).question().has_constants();
  const planner::KeptCalibration* const in_force =
      key.has_value() && !own_constants ? kept.Find(*key) : nullptr;
  Fit fit{.prior = asked.constants};
  fit.constants = in_force == nullptr ? planner::CalibrateTime(points, fit.prior)
                                      : planner::CalibrateTime(points, fit.prior, in_force->points);
  fit.before = PointsSeenFrom(points, fit.prior);
  fit.after = PointsSeenFrom(points, fit.constants);
  CalibrationAnswer answer;
  FillConstants(fit.constants, *answer.response.mutable_constants());
  for (size_t index = 0; index < points.size(); ++index) {
    answer.response.add_error_before(ErrorOf(fit.before[index]));
    answer.response.add_error_after(ErrorOf(fit.after[index]));
  }
  answer.response.set_tables_version(asked.tables_version);
  if (request.keep()) {
    ASSIGN_OR_RETURN(answer.to_keep, WhatToKeep(asked, fit, kept, now));
    planner::CalibrationSet next;
    next.Put(answer.to_keep->key, answer.to_keep->value.kept);
    answer.response.set_tables_version(
        planner::TablesFor(next, asked.cluster.gpu.name, asked.framework).version);
  }
  return answer;
}

}  // namespace asterism::controller
