// File: planner/command_flags.h
//
// A user's own command line beside a plan: what it says already is fixed, and is not said again.
//
//   ASSIGN_OR_RETURN(const FixedDegrees fixed, FixedByCommand(Framework::kMegatron, words));
//   WithoutGiven({"--tensor-model-parallel-size", "8", "--bf16"}, words)
//
// Of Megatron-LM the degrees and the micro-batch, of a Trainer (Accelerate) the micro-batch, of
// torchtitan the degrees; DeepSpeed has them in its file.
// Errors: a flag whose value is no whole number; names it.
// Thread-safety: pure. Cost: linear in the words.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/parallel_plan.h"
#include "planner/search.h"

namespace asterism::planner {

absl::StatusOr<FixedDegrees> FixedByCommand(Framework framework,
                                            std::span<const std::string> words);

// `arguments` without the options, and their values, that `words` has.
std::vector<std::string> WithoutGiven(const std::vector<std::string>& arguments,
                                      std::span<const std::string> words);

}  // namespace asterism::planner
