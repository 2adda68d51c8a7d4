#include "planner/time_constants.h"

namespace asterism::planner {
namespace {

struct TimeEntry {
  std::string_view name;
  TimeConstants constants;
};

constexpr TimeConstants kShippedConstants;

// Version kTimeTablesVersion.
constexpr TimeEntry kTimeTable[] = {
    {"shipped", kShippedConstants},
    {"bloom A100-80", {0.776, 0.55, 0.469, 120, 724, 0.761, 1.64, 0.774, 0.3, 326}},
    {"dgxc GB200", {0.555, 0.13, 0.493, 84.7, 204, 0.771, 0.706, 0.702, 0.299, 296}},
    {"dgxc H100", {0.79, 0.55, 0.391, 90.8, 282, 0.695, 0.431, 0.401, 0.517, 262}},
    {"kort22 A100-80", {0.818, 0.55, 0.345, 103, 161, 1.11, 0.763, 0.752, 0.3, 298}},
    {"mlperf B200", {0.74, 0.55, 0.302, 104, 346, 0.881, 1.11, 0.629, 0.31, 320}},
    {"mlperf H100", {0.74, 0.55, 0.619, 89.9, 256, 0.71, 0.536, 0.776, 0.281, 280}},
    {"simumax B200", {0.465, 0.559, 0.375, 121, 396, 0.868, 1.88, 0.7, 0.334, 363}},
    {"vtrain-m A100-80", {0.895, 0.55, 0.262, 75.7, 292, 0.956, 0.61, 0.602, 0.32, 291}},
    {"vtrain-s A100-80", {0.912, 0.55, 0.46, 102, 236, 0.895, 1.13, 0.7, 0.315, 839}},
};

}  // namespace

const std::array<double TimeConstants::*, 10>& CalibratedConstants() {
  static constexpr std::array<double TimeConstants::*, 10> kFields = {
      &TimeConstants::product_efficiency,   &TimeConstants::grouped_efficiency,
      &TimeConstants::attention_efficiency, &TimeConstants::half_width,
      &TimeConstants::half_tokens,          &TimeConstants::elementwise,
      &TimeConstants::exposed_exchange,     &TimeConstants::network_share,
      &TimeConstants::exposed_data,         &TimeConstants::launch_us};
  return kFields;
}

const TimeConstants& ShippedConstants() {
  return kShippedConstants;
}

const TimeConstants& ConstantsOf(std::string_view entry) {
  for (const TimeEntry& each : kTimeTable) {
    if (each.name == entry) {
      return each.constants;
    }
  }
  return kShippedConstants;
}

std::vector<std::string_view> TimeTableEntries() {
  std::vector<std::string_view> names;
  for (const TimeEntry& each : kTimeTable) {
    names.push_back(each.name);
  }
  return names;
}

const TimeConstants* ConstantsOfGpu(std::string_view gpu) {
  struct GpuEntry {
    std::string_view gpu;
    std::string_view entry;
  };
  // H200 computes as H100, GB300 as GB200.
  static constexpr GpuEntry kEntries[] = {
      {"A100-40", "kort22 A100-80"}, {"A100-80", "kort22 A100-80"}, {"H100", "dgxc H100"},
      {"H200", "dgxc H100"},         {"B200", "mlperf B200"},       {"GB200", "dgxc GB200"},
      {"GB300", "dgxc GB200"},
  };
  for (const GpuEntry& each : kEntries) {
    if (each.gpu == gpu) {
      return &ConstantsOf(each.entry);
    }
  }
  return nullptr;
}

}  // namespace asterism::planner
