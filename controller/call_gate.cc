#include "controller/call_gate.h"

#include <string>

#include "fmt/format.h"

namespace asterism::controller {

CallGate::CallGate(const base::Clock& clock, base::MetricRegistry& registry,
                   CallGateOptions options)
    : clock_(clock),
      options_(options),
      calls_(registry.AddCounter(
          "asterism_grpc_calls_total",
          "Calls of asterism.v1.Placement that have ended, by the gRPC code.", {"method", "code"})),
      seconds_(registry.AddHistogram("asterism_grpc_seconds",
                                     "From the start of a call to its end; of a stream, too.",
                                     {"method"})) {}

absl::Status CallGate::Enter(CallKind kind) {
  const bool stream = kind == CallKind::kStream;
  const int limit = stream ? options_.streams_max : options_.calls_max;
  std::atomic<int>& open = open_[stream ? 1 : 0];
  if (open.fetch_add(1) < limit) {
    return absl::OkStatus();
  }
  open.fetch_sub(1);
  return absl::ResourceExhaustedError(
      fmt::format("{} {} are served at this moment, which is the limit: call again later", limit,
                  stream ? "streams" : "calls"));
}

void CallGate::Leave(CallKind kind) {
  open_[kind == CallKind::kStream ? 1 : 0].fetch_sub(1);
}

void CallGate::Count(std::string_view method, absl::StatusCode code, base::SteadyTime began) {
  const std::string name(method);
  calls_.With({name, absl::StatusCodeToString(code)}).Add();
  seconds_.With({name}).Observe(clock_.SteadyNow() - began);
}

}  // namespace asterism::controller
