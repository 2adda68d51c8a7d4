// File: kube/token_bucket.h
//
// So many at once, and then so many a second.
//
//   TokenBucket bucket(clock, /*burst=*/25, absl::Minutes(5));
//   if (bucket.Take()) Send();
//
// Thread-safety: none. Cost: one reading of the clock.
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::kube {

class TokenBucket {
 public:
  // Full at first; one token comes back every `refill`.
  TokenBucket(const base::Clock& clock, double burst, absl::Duration refill)
      : clock_(&clock),
        burst_(burst),
        refill_(refill),
        tokens_(burst),
        updated_(clock.SteadyNow()) {}

  bool Take() {
    Update();
    if (tokens_ < kWhole) {
      return false;
    }
    tokens_ -= 1;
    return true;
  }
  // As at first.
  bool full() {
    Update();
    return tokens_ >= burst_;
  }
  // Until Take succeeds.
  absl::Duration Wait() {
    Update();
    return tokens_ >= kWhole ? absl::ZeroDuration() : refill_ * (1 - tokens_);
  }
  // Takes a token that may not be there yet, and returns when it will be.
  absl::Duration Reserve() {
    const absl::Duration wait = Wait();
    tokens_ -= 1;
    return wait;
  }

 private:
  // Waiting for exactly the missing part must end in a token, whatever floating point makes of it.
  static constexpr double kWhole = 1 - 1e-6;

  void Update() {
    const base::SteadyTime now = clock_->SteadyNow();
    tokens_ = std::min(burst_, tokens_ + absl::FDivDuration(now - updated_, refill_));
    updated_ = now;
  }

  const base::Clock* clock_;
  double burst_;
  absl::Duration refill_;
  double tokens_;
  base::SteadyTime updated_;
};

}  // namespace asterism::kube
