// File: controller/clock_watch.h
//
// Tells when the wall clock is stepped: intervals are measured on the steady clock, but the times
// in status, events and Leases are the wall clock's, and people compare them.
//
//   ClockWatch watch(clock, registry);
//   watch.Look();  // every few seconds
//
// Thread-safety: none. Cost: two reads of clocks.
#pragma once

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fmt/format.h"

namespace asterism::controller {

class ClockWatch {
 public:
  // More than a clock drifts, or is slewed, between two looks.
  static constexpr absl::Duration kStep = absl::Seconds(1);

  ClockWatch(const base::Clock& clock, base::MetricRegistry& registry)
      : clock_(clock),
        steps_(registry
                   .AddCounter("asterism_wall_clock_steps_total",
                               "Steps of this machine's wall clock by more than a second.")
                   .With({})),
        start_(Start()) {}

  void Look() {
    const absl::Time start = Start();
    const absl::Duration step = start - start_;
    if (step > kStep || step < -kStep) {
      steps_.Add();
      base::LogWarning("wall_clock_stepped", {{"seconds", absl::ToDoubleSeconds(step)}});
    }
    start_ = start;
  }

 private:
  // The wall clock's time at the origin of the steady one.
  absl::Time Start() const { return clock_.Now() - absl::Nanoseconds(clock_.SteadyNow().nanos); }

  const base::Clock& clock_;
  base::Counter& steps_;
  absl::Time start_;
};

}  // namespace asterism::controller
