// File: controller/call_gate.h
//
// How many calls and streams are served at once, and how each ended, for the metrics.
//
//   CallGate gate(clock, registry, {});
//   if (!gate.Enter(CallKind::kUnary)) ...  // kResourceExhausted
//   gate.Leave(CallKind::kUnary);
//   gate.Count("Place", status.code(), began);
//
// Thread-safety: any thread. Cost: an atomic; two lookups under a lock for Count.
#pragma once

#include <array>
#include <atomic>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/metrics.h"

namespace asterism::controller {

enum class CallKind { kUnary, kStream };

struct CallGateOptions {
  int calls_max = 64;
  int streams_max = 256;
};

class CallGate {
 public:
  CallGate(const base::Clock& clock, base::MetricRegistry& registry, CallGateOptions options);

  // Not OK where as many are served as may be; then there is no Leave.
  absl::Status Enter(CallKind kind);
  void Leave(CallKind kind);

  base::SteadyTime Now() const { return clock_.SteadyNow(); }
  // `method` is one of the service's.
  void Count(std::string_view method, absl::StatusCode code, base::SteadyTime began);

 private:
  const base::Clock& clock_;
  const CallGateOptions options_;
  base::CounterFamily& calls_;
  base::HistogramFamily& seconds_;
  std::array<std::atomic<int>, 2> open_{};
};

}  // namespace asterism::controller
