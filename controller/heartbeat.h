// File: controller/heartbeat.h
//
// Whether the core executor still runs: it leaves a mark every few seconds, and /healthz looks how
// old the last one is. A process whose core hangs (a blocked file, a swapped-out machine) is then
// restarted by its kubelet.
//
//   Heartbeat heartbeat(clock, core);
//   core.Post([&] { heartbeat.Start(); });
//   AddDiagnosisRoutes(..., [&] { return heartbeat.Complaints(); });
//
// Thread-safety: Start and the destructor belong to the executor, Complaints to any thread. Cost: a
// timer each 5 s.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "fmt/format.h"

namespace asterism::controller {

class Heartbeat {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(5);
  static constexpr absl::Duration kSilenceMax = absl::Seconds(30);

  Heartbeat(const base::Clock& clock, base::Executor& executor)
      : clock_(clock), last_nanos_(clock.SteadyNow().nanos), timer_(executor) {}

  void Start() {
    last_nanos_ = clock_.SteadyNow().nanos;
    timer_.Start(kPeriod, [this] { Start(); });
  }

  // Empty while all is well.
  std::vector<std::string> Complaints() const {
    const absl::Duration silence = absl::Nanoseconds(clock_.SteadyNow().nanos - last_nanos_);
    if (silence <= kSilenceMax) {
      return {};
    }
    return {fmt::format("the core has not run for {} s", absl::ToInt64Seconds(silence))};
  }

 private:
  const base::Clock& clock_;
  std::atomic<int64_t> last_nanos_;
  base::OwnedTimer timer_;
};

}  // namespace asterism::controller
