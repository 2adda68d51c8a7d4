#include "launch/clocks.h"

#include <ctime>

#include "absl/time/clock.h"

namespace asterism::launch {

// base::SystemClock is the same, in a library that brings more than this program wants to link.
base::SteadyTime SteadyNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return base::SteadyTime{int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
}

absl::Time WallNow() {
  return absl::Now();
}

}  // namespace asterism::launch
