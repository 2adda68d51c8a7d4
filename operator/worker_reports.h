// File: operator/worker_reports.h
//
// What the launchers of pods told their agents, and these told us: to the nanosecond when a process
// ended, which rank it was, how far the job is. More than the API server knows of a pod, and
// sooner; but only hints: where there is no agent, everything works from the pods alone.
//
//   reports.Put(pod_uid, report, now);
//   if (const WorkerReport* report = reports.Find(pod.meta.uid, pod.node_name)) ...
//
// What another node's agent says about the pod is a report of its own, which nobody looks for.
//
// Bounds: 32,768 pods, 2,048 of one node; beyond it the one that was heard of longest ago goes, of
// the node's own first: a node that lies costs others nothing.
//
// Thread-safety: core executor only. Cost: O(log n).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::operators {

struct ProcessEnd {
  absl::Time time;              // by the clock of the node
  std::optional<int64_t> rank;  // empty: the command itself
  std::optional<int32_t> exit_code;
  std::optional<int32_t> signal;

  bool operator==(const ProcessEnd&) const = default;
};

struct WorkerProgress {
  int64_t step = 0;
  double step_time_milliseconds = 0;  // 0: not told
  double tokens_per_second = 0;       // 0: not told

  bool operator==(const WorkerProgress&) const = default;
};

struct WorkerReport {
  std::optional<ProcessEnd> first_cause;  // the first rank that ended badly
  std::optional<ProcessEnd> exit;         // the command
  std::optional<WorkerProgress> progress;
  base::SteadyTime progressed;  // when the step last grew, by our own clock
  std::string progress_problem;
  bool connected = false;
  // Since when its launcher speaks to us without a break; empty: it does not, or its agent does
  // not.
  std::optional<base::SteadyTime> speaks_since;
  std::string node;  // of the agent that told it
};

// The command has ended, and in a way that no kubelet has to explain: what SIGKILL ended may have
// run out of memory.
bool EndedBadly(const WorkerReport* report);

class WorkerReports {
 public:
  // `progressed` and `speaks_since` are set here.
  void Put(const std::string& pod_uid, WorkerReport report, base::SteadyTime now);
  const WorkerReport* Find(std::string_view pod_uid, std::string_view node) const;
  void Erase(std::string_view pod_uid, std::string_view node);
  // The agent of the node said something, and be it that it lives.
  void Hear(std::string_view node, base::SteadyTime now);
  // When it did last; SteadyTime() where it told of no pod.
  base::SteadyTime Heard(std::string_view node) const;
  // The agent is gone: nobody speaks for the pods of its node until they are Put again.
  void Silence(std::string_view node);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    WorkerReport report;
    uint64_t heard = 0;
  };
  using Key = std::pair<std::string, std::string>;  // UID, node
  std::map<Key, Entry> entries_;
  std::map<uint64_t, Key> by_age_;
  struct Voice {
    std::set<uint64_t> ages;  // of the node's reports
    base::SteadyTime heard;
  };
  std::map<std::string, Voice, std::less<>> by_node_;
  uint64_t number_ = 0;
};

}  // namespace asterism::operators
