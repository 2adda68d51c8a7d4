#include "planner/calibration_set.h"

#include <utility>

#include "fmt/format.h"
#include "planner/cluster_spec.h"

namespace asterism::planner {
namespace {

struct FrameworkWord {
  std::string_view word;
  Framework framework;
};
constexpr FrameworkWord kFrameworkWords[] = {
    {"MegatronLM", Framework::kMegatron},
    {"DeepSpeed", Framework::kDeepSpeed},
    {"FSDP", Framework::kAccelerate},
};

}  // namespace

std::optional<std::string> CalibrationKey(std::string_view gpu, Framework framework) {
  for (const FrameworkWord& each : kFrameworkWords) {
    if (each.framework == framework) {
      return fmt::format("{}.{}", gpu, each.word);
    }
  }
  return std::nullopt;
}

std::optional<CalibrationSubject> SubjectOfKey(std::string_view key) {
  const size_t point = key.find('.');
  if (point == std::string_view::npos || FindGpu(key.substr(0, point)) == nullptr) {
    return std::nullopt;
  }
  for (const FrameworkWord& each : kFrameworkWords) {
    if (each.word == key.substr(point + 1)) {
      return CalibrationSubject{std::string(key.substr(0, point)), each.framework};
    }
  }
  return std::nullopt;
}

const KeptCalibration* CalibrationSet::Find(std::string_view key) const {
  const auto found = kept_.find(key);
  return found == kept_.end() ? nullptr : &found->second;
}

void CalibrationSet::Put(std::string key, KeptCalibration calibration) {
  kept_.insert_or_assign(std::move(key), std::move(calibration));
}

const TimeConstants& ShippedConstantsOf(std::string_view gpu) {
  const TimeConstants* const measured = ConstantsOfGpu(gpu);
  return measured == nullptr ? ShippedConstants() : *measured;
}

TablesInForce TablesFor(const CalibrationSet& kept, std::string_view gpu, Framework framework) {
  const std::optional<std::string> key = CalibrationKey(gpu, framework);
  const KeptCalibration* const found = key.has_value() ? kept.Find(*key) : nullptr;
  if (found == nullptr) {
    return {ShippedConstantsOf(gpu), std::string(kTimeTablesVersion)};
  }
  return {found->constants, fmt::format("{}+{}.{}", kTimeTablesVersion, *key, found->version)};
}

absl::Status CheckConstants(const TimeConstants& constants, std::string_view gpu) {
  const TimeConstants& shipped = ShippedConstantsOf(gpu);
  for (size_t index = 0; index < CalibratedConstants().size(); ++index) {
    const double value = constants.*CalibratedConstants()[index];
    const double middle = shipped.*CalibratedConstants()[index];
    // Rounded numbers may stand a little beyond the end that a fit has stopped at.
    constexpr double kRoom = 1 + 1e-9;
    if (!(value * kCalibrationFactorMax * kRoom >= middle &&
          value <= middle * kCalibrationFactorMax * kRoom)) {
      return absl::InvalidArgumentError(
          fmt::format("constants.{}: {} is out of range: {:.4g} to {:.4g} are believable on {}",
                      kCalibratedConstantNames[index], value, middle / kCalibrationFactorMax,
                      middle * kCalibrationFactorMax, gpu));
    }
  }
  if (!ArePossible(constants)) {
    return absl::InvalidArgumentError(
        "constants: productEfficiency and attentionEfficiency have to be at most 0.95, "
        "groupedEfficiency and networkShare at most 1: no GPU is faster");
  }
  return absl::OkStatus();
}

}  // namespace asterism::planner
