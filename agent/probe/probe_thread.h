// File: agent/probe/probe_thread.h
//
// Runs a probe on a thread of its own, so that a call that never returns costs one thread and not
// the agent.
//
//   ProbeThread thread(std::move(probe), executor, [this](ProbeResult result, absl::Duration took)
//   {
//     ...   // on the executor
//   });
//   thread.Ask();   // false: the last call has not come back; it is not asked twice
//
// The destructor waits a second for a call that runs; one that hangs is left behind with its probe
// and reports to nobody.
//
// Thread-safety: on the executor. Cost: one thread, which sleeps between calls.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "agent/probe/probe.h"
#include "base/executor.h"

namespace asterism::agent {

class ProbeThread {
 public:
  using Done = std::function<void(ProbeResult, absl::Duration)>;

  ProbeThread(std::unique_ptr<Probe> probe, base::Executor& executor, Done done);
  ~ProbeThread();
  ProbeThread(const ProbeThread&) = delete;
  ProbeThread& operator=(const ProbeThread&) = delete;

  bool Ask();
  const std::string& name() const { return name_; }
  absl::Duration period() const { return period_; }

 private:
  struct Shared;
  static void Loop(const std::shared_ptr<Shared>& shared);

  const std::string name_;
  const absl::Duration period_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace asterism::agent
