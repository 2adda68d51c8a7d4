// File: cli/explain_view.h
//
// One TrainingJob in words: why it waits and what would help, or where it runs; what it restarted
// for, and what its author should know.
//
//   Print(ExplainLines({.job = job, .queue = queue, .now = clock.Now()}, {.width = 100}), paper);
//
// Thread-safety: pure. Cost: linear in the runs of the placement; without `wide` at most
// kRunsShown of them are printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/queue_row.h"
#include "cli/styled_text.h"
#include "nlohmann/json_fwd.hpp"
#include "operator/training_job.h"

namespace asterism::cli {

inline constexpr size_t kRunsShown = 24;

struct Explanation {
  operators::TrainingJob job;
  std::optional<QueueRow> queue;
  std::string queue_note;  // why `queue` is absent
  absl::Time now;
};

struct ExplainViewOptions {
  size_t width = 0;  // to wrap messages at; 0: not
  bool wide = false;
};

std::vector<Line> ExplainLines(const Explanation& explanation, const ExplainViewOptions& options);

// Documented in docs/kubectl-asterism.md.
nlohmann::ordered_json ExplainJson(const Explanation& explanation);

}  // namespace asterism::cli
