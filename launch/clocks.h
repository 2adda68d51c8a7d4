// File: launch/clocks.h
//
// The two clocks of this folder. An interval, a deadline, a period is measured by the monotonic
// one, which nobody sets; the wall clock may step by hours, and is for reports only.
//
//   const base::SteadyTime end = SteadyNow() + limit;
//   state.set_started_unix_nanos(absl::ToUnixNanos(WallNow()));
//
// Thread-safety: pure. Cost: no system call on most machines.
#pragma once

#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::launch {

base::SteadyTime SteadyNow();
absl::Time WallNow();

}  // namespace asterism::launch
