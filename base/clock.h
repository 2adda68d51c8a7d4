// File: base/clock.h
//
// The only source of time. Code takes a Clock& so that tests and the simulator own the time.
//
//   absl::Time Now()         wall time: for people and API fields only
//   SteadyTime SteadyNow()   monotonic: for every interval, deadline and lease
//
// Thread-safety: all implementations may be called from any thread. Cost: one system call at most.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>

#include "absl/time/time.h"

namespace asterism::base {

// A point on a monotonic clock. Only differences mean something.
struct SteadyTime {
  int64_t nanos = 0;

  auto operator<=>(const SteadyTime&) const = default;
  friend absl::Duration operator-(SteadyTime later, SteadyTime earlier) {
    return absl::Nanoseconds(later.nanos - earlier.nanos);
  }
  friend SteadyTime operator+(SteadyTime time, absl::Duration delta) {
    return SteadyTime{time.nanos + absl::ToInt64Nanoseconds(delta)};
  }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  virtual SteadyTime SteadyNow() const = 0;
};

// The machine's clocks.
class SystemClock final : public Clock {
 public:
  absl::Time Now() const override;
  SteadyTime SteadyNow() const override;
};

// A clock that stands still until it is moved. Starts at 2026-01-01 00:00:00 UTC.
class SimClock final : public Clock {
 public:
  SimClock();
  absl::Time Now() const override;
  SteadyTime SteadyNow() const override;

  // Moves both clocks forward. `delta` >= 0.
  void Advance(absl::Duration delta);
  // Steps only the wall clock, as an administrator or NTP does.
  void StepWall(absl::Duration delta);

 private:
  std::atomic<int64_t> steady_nanos_{1};
  std::atomic<int64_t> wall_nanos_;
};

}  // namespace asterism::base
