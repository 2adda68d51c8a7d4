// File: planner/constraints.h
//
// Which plans a framework can run. One table: it names each rule, says which frameworks have it,
// and gives the reason of a violation with the numbers and the way out.
//
//   for (const Violation& violation : CheckPlan(model, plan, 512)) ...   // empty: legal
//   RETURN_IF_ERROR(CheckDegrees(plan));     // before any arithmetic on a plan
//
// The same table makes the search's space, checks what a user wrote (CheckLaunch, with switches and
// environment), and names the reason of a rejection. Sources: the argument checks of Megatron-LM
// core 0.20, DeepSpeed 0.19.6, torchtitan b5bcd76c6, accelerate 16cb6eb8.
//
// Thread-safety: pure. Cost: about 1 us for a legal plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "planner/launch_plan.h"
#include "planner/model_spec.h"

namespace asterism::planner {

inline constexpr int64_t kDegreeMax = 1'048'576;

struct Violation {
  std::string_view id;
  std::string message;
};

// In the order of the table. The plan has passed CheckDegrees.
std::vector<Violation> CheckPlan(const ModelSpec& model, const ParallelPlan& plan, int64_t gpus);

// The same, and the rules on switches.
std::vector<Violation> CheckLaunch(const ModelSpec& model, const LaunchPlan& launch,
                                   const LaunchEnvironment& environment, int64_t gpus);

// Whether CheckPlan would find nothing; stops at the first violation.
bool IsLegal(const ModelSpec& model, const ParallelPlan& plan, int64_t gpus);

// Every count is at least 1 and small enough for arithmetic.
absl::Status CheckDegrees(const ParallelPlan& plan);

// Ids that apply to a framework, in the order of the table.
std::vector<std::string_view> ConstraintIds(Framework framework);

std::string_view FrameworkName(Framework framework);

}  // namespace asterism::planner
