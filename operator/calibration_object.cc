#include "operator/calibration_object.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/cut_text.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr int64_t kFormat = 1;
constexpr int64_t kVersionMax = int64_t{1} << 53;
constexpr size_t kShownKeyBytesMax = 64;
constexpr std::string_view kRemedy = "calibrate again, or delete the key";

// Beyond any time that a model and a cluster can be apart.
constexpr double kLogErrorMax = 10;

absl::Status Unusable(std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", why, kRemedy));
}

// [error, ten changes with smaller constants, ten with larger ones] of one point; digits beyond the
// fifth say nothing.
json PointJson(const planner::RememberedPoint& point) {
  const auto rounded = [](double value) { return std::round(value * 1e5) / 1e5; };
  json numbers = json::array({rounded(point.log_error)});
  for (const std::array<double, 10>* const changes : {&point.smaller, &point.larger}) {
    for (const double change : *changes) {
      numbers.push_back(rounded(change));
    }
  }
  return numbers;
}

std::optional<planner::RememberedPoint> PointOf(const json& numbers) {
  planner::RememberedPoint point;
  if (!numbers.is_array() || numbers.size() != 1 + point.smaller.size() + point.larger.size()) {
    return std::nullopt;
  }
  for (size_t index = 0; index < numbers.size(); ++index) {
    const double value = numbers[index].is_number() ? numbers[index].get<double>() : kLogErrorMax;
    if (!(std::abs(value) < kLogErrorMax)) {
      return std::nullopt;
    }
    const size_t constant = (index + point.smaller.size() - 1) % point.smaller.size();
    (index == 0                      ? point.log_error
     : index <= point.smaller.size() ? point.smaller[constant]
                                     : point.larger[constant]) = value;
  }
  return point;
}

void ParsePoints(const JsonFields& root, std::vector<planner::RememberedPoint>& points) {
  const json* const list = root.Find("points");
  if (list == nullptr) {
    return;
  }
  if (!list->is_array() || list->size() > planner::kRememberedPointsMax) {
    root.Fail("points",
              fmt::format("has to be a list of at most {}", planner::kRememberedPointsMax));
    return;
  }
  for (const json& each : *list) {
    const std::optional<planner::RememberedPoint> point = PointOf(each);
    if (!point.has_value()) {
      root.Fail("points",
                fmt::format("each has to be 21 numbers between -{0} and {0}", kLogErrorMax));
      return;
    }
    points.push_back(*point);
  }
}

void ParseConstants(const JsonFields& fields, planner::TimeConstants& constants) {
  for (size_t i = 0; i < planner::CalibratedConstants().size(); ++i) {
    const std::string_view name = planner::kCalibratedConstantNames[i];
    if (!fields.Has(name)) {
      fields.Fail(name, "missing");
    }
    constants.*planner::CalibratedConstants()[i] = fields.Number(name).value_or(0);
  }
}

}  // namespace

absl::StatusOr<CalibrationObject> ParseCalibrationObject(std::string_view text) {
  ASSIGN_OR_RETURN(const json object, ParseObjectText(text, kCalibrationMaps.kind));
  absl::Status error;
  const JsonFields root(&object, "", &error);
  CalibrationObject parsed;
  parsed.meta = ParseObjectMeta(root.Object("metadata"));
  root.Object("data");  // its type
  RETURN_IF_ERROR(error);
  const json& data = Member(object, "data");
  if (data.is_object()) {
    for (const auto& [key, value] : data.items()) {
      // The API server lets no other type in.
      parsed.data[key] = value.is_string() ? value.get<std::string>() : std::string();
    }
  }
  return parsed;
}

absl::StatusOr<planner::KeptCalibration> ParseCalibration(std::string_view key,
                                                          std::string_view text) {
  const std::optional<planner::CalibrationSubject> subject = planner::SubjectOfKey(key);
  if (!subject.has_value()) {
    return absl::InvalidArgumentError(
        "is no GPU of the planner's table and framework, such as H100.MegatronLM: delete the key");
  }
  if (text.size() > kCalibrationBytesMax) {
    return Unusable(fmt::format("{} bytes are more than a calibration may have ({})", text.size(),
                                kCalibrationBytesMax));
  }
  const absl::StatusOr<json> object = ParseObjectText(text, "calibration");
  if (!object.ok()) {
    return Unusable(base::ToStd(object.status().message()));
  }
  absl::Status error;
  const JsonFields root(&*object, "", &error);
  const std::optional<int64_t> format = root.Int("format", kFormat, kFormat);
  const std::optional<int64_t> version = root.Int("version", 1, kVersionMax);
  const std::optional<std::string> tables = root.String("tables");
  planner::KeptCalibration kept{.version = version.value_or(1),
                                .constants = planner::ShippedConstantsOf(subject->gpu)};
  ParseConstants(root.Object("constants"), kept.constants);
  ParsePoints(root, kept.points);
  if (error.ok() && (!format.has_value() || !version.has_value() || !tables.has_value())) {
    error = absl::InvalidArgumentError("format, version and tables have to be there");
  }
  if (error.ok() && *tables != planner::kTimeTablesVersion) {
    error = absl::InvalidArgumentError(
        fmt::format("tables: \"{}\" is not the time model of this program (\"{}\")",
                    base::CutText(*tables, kShownKeyBytesMax), planner::kTimeTablesVersion));
  }
  if (error.ok()) {
    error = planner::CheckConstants(kept.constants, subject->gpu);
  }
  if (!error.ok()) {
    return Unusable(base::ToStd(error.message()));
  }
  return kept;
}

CalibrationReading ReadCalibrations(const CalibrationObject& object,
                                    const planner::CalibrationSet& last_good) {
  CalibrationReading reading;
  size_t count = 0;
  for (const auto& [key, text] : object.data) {
    const std::string shown = base::CutText(key, kShownKeyBytesMax);
    if (++count > kCalibrationsMax) {
      reading.problems.push_back(
          {shown, fmt::format("this key and those behind it are more than {}: delete what is not "
                              "needed",
                              kCalibrationsMax)});
      break;
    }
    const absl::StatusOr<planner::KeptCalibration> kept = ParseCalibration(key, text);
    if (kept.ok()) {
      reading.set.Put(key, *kept);
      continue;
    }
    reading.problems.push_back({shown, std::string(base::ToStd(kept.status().message()))});
    if (const planner::KeptCalibration* before = last_good.Find(key); before != nullptr) {
      reading.set.Put(key, *before);
    }
  }
  return reading;
}

std::string WriteCalibration(const CalibrationValue& value) {
  json constants = json::object();
  for (size_t i = 0; i < planner::CalibratedConstants().size(); ++i) {
    constants[std::string(planner::kCalibratedConstantNames[i])] =
        value.kept.constants.*planner::CalibratedConstants()[i];
  }
  json points = json::array();
  for (const planner::RememberedPoint& point : value.kept.points) {
    points.push_back(PointJson(point));
  }
  return DumpJson({{"format", kFormat},
                   {"version", value.kept.version},
                   {"tables", planner::kTimeTablesVersion},
                   {"time", FormatSeconds(value.time)},
                   {"measurements", value.measurements},
                   {"meanErrorBefore", value.mean_error_before},
                   {"meanErrorAfter", value.mean_error_after},
                   {"constants", constants},
                   {"points", points}});
}

}  // namespace asterism::operators
