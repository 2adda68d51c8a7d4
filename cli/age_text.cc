#include "cli/age_text.h"

#include <algorithm>
#include <cstdint>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::cli {
namespace {

std::string TwoUnits(int64_t large, char large_unit, int64_t small, char small_unit) {
  return small == 0 ? fmt::format("{}{}", large, large_unit)
                    : fmt::format("{}{}{}{}", large, large_unit, small, small_unit);
}

}  // namespace

// The steps are those of k8s.io/apimachinery duration.HumanDuration.
std::string AgeText(absl::Duration age) {
  if (age == absl::InfiniteDuration()) {
    return "<unknown>";
  }
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(age));
  const int64_t minutes = seconds / 60;
  const int64_t hours = minutes / 60;
  const int64_t days = hours / 24;
  if (seconds < 120) {
    return fmt::format("{}s", seconds);
  }
  if (minutes < 10) {
    return TwoUnits(minutes, 'm', seconds % 60, 's');
  }
  if (minutes < 180) {
    return fmt::format("{}m", minutes);
  }
  if (hours < 8) {
    return TwoUnits(hours, 'h', minutes % 60, 'm');
  }
  if (hours < 48) {
    return fmt::format("{}h", hours);
  }
  if (days < 8) {
    return TwoUnits(days, 'd', hours % 24, 'h');
  }
  if (days < 730) {
    return fmt::format("{}d", days);
  }
  return TwoUnits(days / 365, 'y', days % 365, 'd');
}

std::string ShortDuration(absl::Duration duration) {
  if (duration < absl::Milliseconds(1)) {
    return fmt::format("{} us", absl::ToInt64Microseconds(duration));
  }
  if (duration < absl::Milliseconds(10)) {
    return fmt::format("{:.1f} ms", absl::ToDoubleMilliseconds(duration));
  }
  if (duration < absl::Seconds(1)) {
    return fmt::format("{} ms", absl::ToInt64Milliseconds(duration));
  }
  if (duration < absl::Seconds(120)) {
    return fmt::format("{:.1f} s", absl::ToDoubleSeconds(duration));
  }
  return AgeText(duration);
}

std::string TimeText(absl::Time time) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) {
    return "";
  }
  return operators::FormatSeconds(time);
}

}  // namespace asterism::cli
