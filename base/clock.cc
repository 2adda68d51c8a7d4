#include "base/clock.h"

#include <ctime>

#include "absl/time/clock.h"

namespace asterism::base {

absl::Time SystemClock::Now() const {
  return absl::Now();
}

SteadyTime SystemClock::SteadyNow() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return SteadyTime{int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
}

SimClock::SimClock()
    : wall_nanos_(
          absl::ToUnixNanos(absl::FromCivil(absl::CivilSecond(2026, 1, 1), absl::UTCTimeZone()))) {}

absl::Time SimClock::Now() const {
  return absl::FromUnixNanos(wall_nanos_);
}

SteadyTime SimClock::SteadyNow() const {
  return SteadyTime{steady_nanos_};
}

void SimClock::Advance(absl::Duration delta) {
  steady_nanos_ += absl::ToInt64Nanoseconds(delta);
  wall_nanos_ += absl::ToInt64Nanoseconds(delta);
}

void SimClock::StepWall(absl::Duration delta) {
  wall_nanos_ += absl::ToInt64Nanoseconds(delta);
}

}  // namespace asterism::base
