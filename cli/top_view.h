// File: cli/top_view.h
//
// The table of TrainingJobs that `top` draws: what runs first, then what waits, then what has
// ended.
//
//   Print(TopLines(jobs, {.now = clock.Now(), .all_namespaces = true, .rows_max = 40}), paper);
//
// Thread-safety: pure. Cost: O(jobs log jobs).
#pragma once

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "cli/styled_text.h"
#include "nlohmann/json_fwd.hpp"
#include "operator/training_job.h"

namespace asterism::cli {

struct TopViewOptions {
  absl::Time now;
  bool all_namespaces = false;
  bool wide = false;
  size_t rows_max = 0;  // lines of the terminal; 0: no limit
};

std::vector<Line> TopLines(std::vector<operators::TrainingJob> jobs, const TopViewOptions& options);

// Documented in docs/kubectl-asterism.md. In the order of the table.
nlohmann::ordered_json TopJson(std::vector<operators::TrainingJob> jobs);

}  // namespace asterism::cli
