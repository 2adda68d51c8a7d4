// File: cli/queue_view.h
//
// The Queues with what they use of what they may, and the waiting jobs in the order in which they
// are tried.
//
//   const std::vector<TrainingJob> waiting = WaitingJobs(jobs, /*queue=*/"");
//   Print(QueueLines({rows, waiting, now}, {.wide = true}), paper);
//
// Thread-safety: pure. Cost: O(jobs log jobs).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "cli/queue_row.h"
#include "cli/styled_text.h"
#include "nlohmann/json_fwd.hpp"
#include "operator/training_job.h"

namespace asterism::cli {

struct QueuePicture {
  std::vector<QueueRow> queues;
  std::vector<operators::TrainingJob> waiting;  // in order
  std::string note;                             // what is missing of it, and why; may be empty
  absl::Time now;
};

// Those that wait (status.waiting), of one queue or of all (empty): by position, then the older
// first, then by name.
std::vector<operators::TrainingJob> WaitingJobs(std::vector<operators::TrainingJob> jobs,
                                                std::string_view queue);

struct QueueViewOptions {
  bool wide = false;  // messages of the waiting jobs too
};
std::vector<Line> QueueLines(const QueuePicture& picture, const QueueViewOptions& options);

// Documented in docs/kubectl-asterism.md.
nlohmann::ordered_json QueueJson(const QueuePicture& picture);

}  // namespace asterism::cli
