// File: planner/calibration_set.h
//
// Constants of the time model that were fitted on the measured jobs of one cluster, by GPU and
// framework. Where there are none, those of the shipped tables hold.
//
//   CalibrationSet kept;
//   kept.Put("H100", Framework::kMegatron, {.version = 3, .constants = fitted});
//   const TablesInForce tables = TablesFor(kept, "H100", Framework::kMegatron);
//   tables.constants; tables.version                  // "2026-12-01+H100.MegatronLM.3"
//
// CheckConstants says whether constants are believable on a GPU: each within a factor of
// kCalibrationFactorMax of the shipped one, and no kernel faster than the hardware. Its error names
// the constant and the range.
//
// Thread-safety: a value. Cost: a look-up of a few keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "planner/calibrate.h"
#include "planner/parallel_plan.h"
#include "planner/time_constants.h"

namespace asterism::planner {

inline constexpr size_t kRememberedPointsMax = 64;

struct KeptCalibration {
  int64_t version = 0;  // counts from 1
  TimeConstants constants;
  // What they were fitted on, as seen from them; the oldest first, at most kRememberedPointsMax.
  std::vector<RememberedPoint> points;

  friend bool operator==(const KeptCalibration&, const KeptCalibration&) = default;
};

// "H100.MegatronLM": the words are those of spec.framework. Nothing for a framework that no job can
// name (torchtitan).
std::optional<std::string> CalibrationKey(std::string_view gpu, Framework framework);

struct CalibrationSubject {
  std::string gpu;
  Framework framework = Framework::kMegatron;
};
// Nothing: not such a key, or a GPU that gpu_table.cc does not have.
std::optional<CalibrationSubject> SubjectOfKey(std::string_view key);

class CalibrationSet {
 public:
  // Null: there is none.
  const KeptCalibration* Find(std::string_view key) const;
  void Put(std::string key, KeptCalibration calibration);
  size_t size() const { return kept_.size(); }

  friend bool operator==(const CalibrationSet&, const CalibrationSet&) = default;

 private:
  std::map<std::string, KeptCalibration, std::less<>> kept_;
};

struct TablesInForce {
  TimeConstants constants;
  std::string version;
};
// Of the shipped tables; the general ones for a GPU that nothing was measured on.
const TimeConstants& ShippedConstantsOf(std::string_view gpu);
TablesInForce TablesFor(const CalibrationSet& kept, std::string_view gpu, Framework framework);

absl::Status CheckConstants(const TimeConstants& constants, std::string_view gpu);

}  // namespace asterism::planner
