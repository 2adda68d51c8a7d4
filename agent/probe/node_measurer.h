// File: agent/probe/node_measurer.h
//
// Runs the probes, each on its own thread and in its own period, and merges what they found.
//
//   NodeMeasurer measurer(executor, std::move(probes), {}, [this](v1::NodeMeasurement m) {
//     link_.Tell(std::move(m));
//   });
//   measurer.Start();
//
// The first measurement comes when every probe has answered or has had its time. Afterwards each
// answer that may change something makes one. A probe that fails, or does not come back, keeps what
// it found before; its outcome says so, once, and a late answer counts.
//
// Thread-safety: on the executor, which is stopped before the measurer is destroyed. Cost: that of
// the probes; a merge takes some 100 us at 8 GPUs and 10 cards.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/probe/probe.h"
#include "agent/probe/probe_thread.h"
#include "base/executor.h"

namespace asterism::agent {

struct NodeMeasurerOptions {
  absl::Duration deadline = absl::Seconds(5);  // of one run of a probe
};

class NodeMeasurer {
 public:
  using Tell = std::function<void(v1::NodeMeasurement)>;

  NodeMeasurer(base::Executor& executor, std::vector<std::unique_ptr<Probe>> probes,
               NodeMeasurerOptions options, Tell tell);
  ~NodeMeasurer();

  void Start();
  // What does not answer, for the health page; empty: all is well.
  std::vector<std::string> Complaints() const;

 private:
  struct Entry;

  void Ask(Entry& entry);
  void OnDeadline(Entry& entry);
  void OnAnswer(Entry& entry, ProbeResult result, absl::Duration took);
  void SetProblem(Entry& entry, const std::string& problem);
  void TellAll();

  base::Executor& executor_;
  const NodeMeasurerOptions options_;
  const Tell tell_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace asterism::agent
