// File: planner/constraint_rule.h
//
// One row of the constraint table, and the three parts of the table. For constraints.cc and the
// files that hold the rows; everybody else asks planner/constraints.h.
//
//   constexpr ConstraintRule kRows[] = {{"heads.tp", kOfMegatron | kOfTorchTitan, HeadsTensor}};
//
// A check gives no text when the rule holds, else the numbers and the way out.
//
// Thread-safety: immutable. Cost: none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/launch_plan.h"
#include "planner/model_spec.h"

namespace asterism::planner {

struct ConstraintQuestion {
  const ModelSpec& model;
  const ParallelPlan& plan;
  int64_t gpus;
  const Degrees& degrees;
  // Of the rules on switches only.
  const LaunchSwitches& switches;
  const LaunchEnvironment& environment;
};

using ConstraintReason = std::optional<std::string>;

struct ConstraintRule {
  std::string_view id;
  uint32_t frameworks;
  ConstraintReason (*check)(const ConstraintQuestion&);
};

constexpr uint32_t FrameworkBit(Framework framework) {
  return 1U << static_cast<uint32_t>(framework);
}
inline constexpr uint32_t kOfMegatron = FrameworkBit(Framework::kMegatron);
inline constexpr uint32_t kOfDeepSpeed = FrameworkBit(Framework::kDeepSpeed);
inline constexpr uint32_t kOfTorchTitan = FrameworkBit(Framework::kTorchTitan);
inline constexpr uint32_t kOfAccelerate = FrameworkBit(Framework::kAccelerate);

// Divisibility and the like: how the model and the GPUs are cut.
std::span<const ConstraintRule> PlanRules();
// What the framework has, or what its files can say.
std::span<const ConstraintRule> FeatureRules();
// Of the switches; with CheckLaunch only.
std::span<const ConstraintRule> SwitchRules();

}  // namespace asterism::planner
