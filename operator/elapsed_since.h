// File: operator/elapsed_since.h
//
// How long ago a moment was that an object of the API server records by a wall clock. What had
// passed at the first look comes from our wall clock, all that follows from the steady one: a step
// of the wall clock neither ends a job early nor lets it outlive its deadline.
//
//   const absl::Duration placed_for = state.since_placed.At(placed.last_transition_time, clock);
//
// A process that starts after the step knows only the wall clock, as every other program.
// Thread-safety: none. Cost: one read of a clock, two at the first look.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::operators {

class ElapsedSince {
 public:
  // Never below zero. Another `moment` begins anew.
  absl::Duration At(absl::Time moment, const base::Clock& clock) {
    // The API server keeps whole seconds: what it gives back is still the same moment.
    const int64_t second = absl::ToUnixSeconds(moment);
    if (second_ != second) {
      second_ = second;
      before_ = std::max(absl::ZeroDuration(), clock.Now() - moment);
      seen_ = clock.SteadyNow();
    }
    return before_ + (clock.SteadyNow() - seen_);
  }

 private:
  std::optional<int64_t> second_;
  absl::Duration before_;
  base::SteadyTime seen_;
};

}  // namespace asterism::operators
