// Reads any bytes as the ConfigMap of calibrations, and as one value of it.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "operator/calibration_object.h"
#include "planner/calibration_set.h"

namespace asterism::operators {
namespace {

void CheckKept(const planner::KeptCalibration& kept) {
  CHECK_THAT(planner::CheckConstants(kept.constants, "H100").ok(), "constants beyond belief");
  CHECK_THAT(kept.version >= 1, "a version below 1");
  CHECK_THAT(kept.points.size() <= planner::kRememberedPointsMax, "more points than may be");
  const auto again =
      ParseCalibration("H100.MegatronLM", WriteCalibration({.kept = kept, .time = {}}));
  CHECK_THAT(again.ok() && again->constants == kept.constants && again->version == kept.version,
             "what was written is not what is read");
  for (const planner::RememberedPoint& point : again->points) {
    CHECK_THAT(
        std::isfinite(
            planner::MovePoint(point, kept.constants, planner::ShippedConstants()).log_error),
        "a point that leads nowhere");
  }
}

void FuzzCalibration(std::string_view text) {
  const auto value = ParseCalibration("H100.MegatronLM", text);
  CHECK_THAT(value.ok() || !value.status().message().empty(), "an error without a message");
  if (value.ok()) {
    CheckKept(*value);
  }
  const auto object = ParseCalibrationObject(text);
  if (!object.ok()) {
    CHECK_THAT(!object.status().message().empty(), "an error without a message");
    return;
  }
  planner::CalibrationSet good;
  good.Put("B200.FSDP",
           {.version = 1, .constants = planner::ShippedConstantsOf("B200"), .points = {}});
  const CalibrationReading reading = ReadCalibrations(*object, good);
  CHECK_THAT(reading.set.size() <= kCalibrationsMax, "more keys than may be");
  CHECK_THAT(reading.set.size() + reading.problems.size() >=
                 std::min(object->data.size(), kCalibrationsMax),
             "a key that is neither taken nor complained of");
  for (const CalibrationProblem& each : reading.problems) {
    CHECK_THAT(!each.reason.empty(), "a problem without a reason");
  }
}

}  // namespace
}  // namespace asterism::operators

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asterism::operators::FuzzCalibration(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
