// File: controller/queue_state.h
//
// All jobs that wait, as an immutable picture for those who watch the queue.
//
//   std::shared_ptr<const QueueState> now = CaptureQueue(*plane.jobs(), before);
//   if (now != before) ...    // something changed
//
// Rows that did not change are shared with the picture before, so a reader who is far behind costs
// a list of pointers.
//
// Thread-safety: CaptureQueue on the core executor; pictures may be read anywhere. Cost: about
// 1 us a job.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/job_controller.h"

namespace asterism::controller {

struct QueueRow {
  std::string namespace_name;
  std::string name;
  std::string queue;
  int32_t priority = 0;
  int64_t gpus = 0;
  int64_t position = 0;  // 1 is next; 0: not admitted to the queue
  std::string reason;
  std::string message;
  std::string nearest_change;
  absl::Time waiting_since;

  bool operator==(const QueueRow&) const = default;
};

struct QueueState {
  // In the order of the queue, then those that are not admitted to it, by namespace and name.
  std::vector<std::shared_ptr<const QueueRow>> rows;
  std::set<std::string> namespaces;
  int64_t gpus = 0;  // that all of them ask for
};

// `before` itself where nothing changed; it may be null.
std::shared_ptr<const QueueState> CaptureQueue(const operators::JobController& jobs,
                                               const std::shared_ptr<const QueueState>& before);

}  // namespace asterism::controller
