// File: cli/plan_view.h
//
// A plan for people, for programs and as a picture.
//
//   Print(PlanLines(question, answer, {.wide = true}), paper);
//   PlanJson(question, answer)          // documented in docs/kubectl-asterism.md
//   PlanPicture(question, answer)       // SVG: bars of memory and of the step
//
// Sizes are GiB for people, bytes for programs; seconds.
// Thread-safety: pure. Cost: linear in stages and groups.
#pragma once

#include <string>
#include <vector>

#include "cli/plan_request.h"
#include "cli/styled_text.h"
#include "nlohmann/json_fwd.hpp"
#include "planner/plan_answer.h"

namespace asterism::cli {

struct PlanViewOptions {
  size_t width = 0;   // to wrap at; 0: not
  bool wide = false;  // groups and stages too
};

// `answer` has a plan.
std::vector<Line> PlanLines(const PlanQuestion& question, const planner::PlanAnswer& answer,
                            const PlanViewOptions& options);
std::string PlanPicture(const PlanQuestion& question, const planner::PlanAnswer& answer);
// Also where there is no plan.
nlohmann::ordered_json PlanJson(const PlanQuestion& question, const planner::PlanAnswer& answer);

}  // namespace asterism::cli
