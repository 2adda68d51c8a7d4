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
    {"bloom A100-80", {0.74, 0.55, 0.502, 167, 680, 0.805, 1.58, 0.762, 0.309, 300}},
    {"dgxc GB200", {0.553, 0.131, 0.45, 85.5, 210, 0.8, 0.78, 0.702, 0.3, 300}},
    {"dgxc H100", {0.785, 0.55, 0.375, 90.8, 284, 0.713, 0.442, 0.401, 0.51, 300}},
    {"kort22 A100-80", {0.813, 0.55, 0.333, 109, 152, 1.1, 0.783, 0.759, 0.3, 300}},
    {"mlperf B200", {0.74, 0.55, 0.302, 107, 376, 0.959, 1.22, 0.573, 0.319, 300}},
    {"mlperf H100", {0.74, 0.55, 0.587, 91.6, 261, 0.713, 0.593, 0.774, 0.284, 300}},
    {"simumax B200", {0.47, 0.587, 0.375, 122, 417, 0.865, 2.26, 0.7, 0.336, 300}},
    {"vtrain-m A100-80", {0.795, 0.55, 0.256, 71.4, 329, 0.81, 0.756, 0.362, 0.321, 300}},
    {"vtrain-s A100-80", {0.947, 0.55, 0.754, 108, 228, 1.52, 1.16, 0.7, 0.284, 843}},
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
