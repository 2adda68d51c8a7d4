// File: cli/plan_command.h
//
// The verb plan: reads its files, asks the planner, prints. It asks no server.
//
//   ASSIGN_OR_RETURN(int code, RunPlan(arguments, surroundings));
//
// Thread-safety: one at a time. Cost: a search, up to about a tenth of a second; a model that does
// not fit up to a second.
#pragma once

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/command.h"

namespace asterism::cli {

absl::StatusOr<int> RunPlan(const Arguments& arguments, const Surroundings& around);

}  // namespace asterism::cli
