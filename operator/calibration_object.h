// File: operator/calibration_object.h
//
// The ConfigMap in which a cluster keeps what calibration has found: a key for each GPU and
// framework, whose value is JSON (docs/operations.md shows one).
//
//   ASSIGN_OR_RETURN(CalibrationObject object, ParseCalibrationObject(json));
//   CalibrationReading reading = ReadCalibrations(object, last_good);
//   reading.set                            // what plans are made with
//   for (const CalibrationProblem& each : reading.problems) ...     // key and reason
//   WriteCalibration({.kept = ..., .measurements = 4, .time = now})   // the value of a key
//
// A value is taken only where it is whole: its format is 1, its constants were fitted with the
// tables of this program and are believable on the GPU (planner/calibration_set.h). A key whose
// value is not keeps what it had before in `last_good`; one that is gone has nothing any more.
//
// Bounds: kCalibrationsMax keys, kCalibrationBytesMax a value; of others the first in order count.
// Errors name key, field and the way out. Thread-safety: pure. Cost: some 10 us a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/client.h"
#include "kube/object.h"
#include "planner/calibration_set.h"

namespace asterism::operators {

// As JSON: what is wanted of it are single keys.
inline constexpr kube::ResourceType kCalibrationMaps{"",          "v1", "configmaps",
                                                     "ConfigMap", true, /*protobuf=*/false};
inline constexpr size_t kCalibrationsMax = 64;
inline constexpr size_t kCalibrationBytesMax = 16384;

struct CalibrationObject {
  kube::ObjectMeta meta;
  std::map<std::string, std::string> data;
};
absl::StatusOr<CalibrationObject> ParseCalibrationObject(std::string_view json);

struct CalibrationProblem {
  std::string key;  // cut to what can be shown
  std::string reason;

  friend bool operator==(const CalibrationProblem&, const CalibrationProblem&) = default;
};

struct CalibrationReading {
  planner::CalibrationSet set;
  std::vector<CalibrationProblem> problems;
};
CalibrationReading ReadCalibrations(const CalibrationObject& object,
                                    const planner::CalibrationSet& last_good);

// One value.
struct CalibrationValue {
  planner::KeptCalibration kept;
  int64_t measurements = 0;      // of the last fit
  double mean_error_before = 0;  // of their absolute values, as a fraction
  double mean_error_after = 0;
  absl::Time time;
};
std::string WriteCalibration(const CalibrationValue& value);
absl::StatusOr<planner::KeptCalibration> ParseCalibration(std::string_view key,
                                                          std::string_view text);

}  // namespace asterism::operators
