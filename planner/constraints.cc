#include "planner/constraints.h"

#include "fmt/format.h"
#include "planner/constraint_rule.h"

namespace asterism::planner {
namespace {

const LaunchSwitches kNoSwitches;
const LaunchEnvironment kNoEnvironment;

void AddViolations(std::span<const ConstraintRule> rules, const ConstraintQuestion& question,
                   std::vector<Violation>& violations) {
  for (const ConstraintRule& rule : rules) {
    if ((rule.frameworks & FrameworkBit(question.plan.framework)) == 0) {
      continue;
    }
    if (ConstraintReason reason = rule.check(question); reason.has_value()) {
      violations.push_back({rule.id, *std::move(reason)});
    }
  }
}

bool HoldAll(std::span<const ConstraintRule> rules, const ConstraintQuestion& question) {
  for (const ConstraintRule& rule : rules) {
    if ((rule.frameworks & FrameworkBit(question.plan.framework)) != 0 &&
        rule.check(question).has_value()) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<Violation> CheckPlan(const ModelSpec& model, const ParallelPlan& plan, int64_t gpus) {
  const ConstraintQuestion question{model, plan, gpus, plan.degrees, kNoSwitches, kNoEnvironment};
  std::vector<Violation> violations;
  AddViolations(PlanRules(), question, violations);
  AddViolations(FeatureRules(), question, violations);
  return violations;
}

std::vector<Violation> CheckLaunch(const ModelSpec& model, const LaunchPlan& launch,
                                   const LaunchEnvironment& environment, int64_t gpus) {
  const ConstraintQuestion question{model,           launch.plan, gpus, launch.plan.degrees,
                                    launch.switches, environment};
  std::vector<Violation> violations;
  AddViolations(PlanRules(), question, violations);
  AddViolations(FeatureRules(), question, violations);
  AddViolations(SwitchRules(), question, violations);
  return violations;
}

bool IsLegal(const ModelSpec& model, const ParallelPlan& plan, int64_t gpus) {
  const ConstraintQuestion question{model, plan, gpus, plan.degrees, kNoSwitches, kNoEnvironment};
  return HoldAll(PlanRules(), question) && HoldAll(FeatureRules(), question);
}

absl::Status CheckDegrees(const ParallelPlan& plan) {
  struct Named {
    std::string_view name;
    int64_t value;
    int64_t low;
  };
  const Degrees& d = plan.degrees;
  for (const Named& each :
       {Named{"tensor", d.tensor, 1}, Named{"pipeline", d.pipeline, 1},
        Named{"context", d.context, 1}, Named{"data", d.data, 1}, Named{"expert", d.expert, 1},
        Named{"expert_tensor", d.expert_tensor, 1}, Named{"virtual_stages", plan.virtual_stages, 1},
        Named{"group_size", plan.group_size, 0}, Named{"first_layers", plan.first_layers, 0},
        Named{"last_layers", plan.last_layers, 0}, Named{"replicas", plan.replicas, 1},
        Named{"micro_batch", plan.micro_batch, 1},
        Named{"recompute.layers", plan.recompute.layers, 0}}) {
    if (each.value < each.low || each.value > kDegreeMax) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} is out of range: use a whole number from {} to {}", each.name,
                      each.value, each.low, kDegreeMax));
    }
  }
  if (plan.global_batch < 1 || plan.sequence < 1 || plan.sequence > (int64_t{1} << 32) ||
      plan.global_batch > (int64_t{1} << 32)) {
    return absl::InvalidArgumentError(
        fmt::format("global_batch, sequence: {} and {} are out of range: use 1 to 2^32",
                    plan.global_batch, plan.sequence));
  }
  // Each product stays below 2^63.
  if (static_cast<double>(d.tensor) * static_cast<double>(d.pipeline) *
              static_cast<double>(d.context) * static_cast<double>(d.data) >
          static_cast<double>(kDegreeMax) ||
      static_cast<double>(d.expert) * static_cast<double>(d.expert_tensor) *
              static_cast<double>(d.pipeline) >
          static_cast<double>(kDegreeMax) ||
      static_cast<double>(d.pipeline) * static_cast<double>(plan.virtual_stages) > kLayersMax) {
    return absl::InvalidArgumentError(
        fmt::format("degrees: their product is more than {} GPUs or {} stages: use less",
                    kDegreeMax, kLayersMax));
  }
  return absl::OkStatus();
}

std::vector<std::string_view> ConstraintIds(Framework framework) {
  std::vector<std::string_view> ids;
  for (const std::span<const ConstraintRule> rules : {PlanRules(), FeatureRules(), SwitchRules()}) {
    for (const ConstraintRule& rule : rules) {
      if ((rule.frameworks & FrameworkBit(framework)) != 0) {
        ids.push_back(rule.id);
      }
    }
  }
  return ids;
}

std::string_view FrameworkName(Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
      return "Megatron-LM";
    case Framework::kDeepSpeed:
      return "DeepSpeed";
    case Framework::kTorchTitan:
      return "torchtitan";
    case Framework::kAccelerate:
      return "Accelerate";
  }
  return "";
}

}  // namespace asterism::planner
