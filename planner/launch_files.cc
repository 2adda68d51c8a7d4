#include "planner/launch_files.h"

#include "planner/emit_accelerate.h"
#include "planner/emit_deepspeed.h"
#include "planner/emit_megatron.h"
#include "planner/emit_torchtitan.h"
#include "planner/setting.h"

namespace asterism::planner {

LaunchFiles WriteLaunch(const ModelSpec& model, const LaunchPlan& launch, const LaunchNodes& nodes,
                        LaunchFormat format) {
  switch (format) {
    case LaunchFormat::kMegatron:
      return {.arguments = ArgumentsOf(EmitMegatron(launch))};
    case LaunchFormat::kBridge:
      return {.arguments = OverridesOf(EmitBridge(launch))};
    case LaunchFormat::kDeepSpeed:
      return {.arguments = DeepSpeedArguments("deepspeed.json"),
              .name = "deepspeed.json",
              .text = JsonOf(EmitDeepSpeed(launch))};
    case LaunchFormat::kTorchTitan:
      return {.arguments = ArgumentsOf(EmitTorchTitanArguments(model, launch)),
              .name = "torchtitan.toml",
              .text = TomlOf(EmitTorchTitan(model, launch))};
    case LaunchFormat::kAccelerate:
      return {.arguments = ArgumentsOf(EmitTrainer(launch)),
              .name = "accelerate.yaml",
              .text = YamlOf(EmitAccelerate(launch, nodes.nodes))};
    case LaunchFormat::kTorchrun:
      return {.arguments = ArgumentsOf(
                  EmitTorchrun({.nodes = nodes.nodes, .processes = nodes.gpus_per_node}))};
  }
  return {};
}

std::optional<Framework> FrameworkOf(LaunchFormat format) {
  switch (format) {
    case LaunchFormat::kMegatron:
    case LaunchFormat::kBridge:
      return Framework::kMegatron;
    case LaunchFormat::kDeepSpeed:
      return Framework::kDeepSpeed;
    case LaunchFormat::kTorchTitan:
      return Framework::kTorchTitan;
    case LaunchFormat::kAccelerate:
      return Framework::kAccelerate;
    case LaunchFormat::kTorchrun:
      return std::nullopt;
  }
  return std::nullopt;
}

LaunchFormat FormatOf(Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
      return LaunchFormat::kMegatron;
    case Framework::kDeepSpeed:
      return LaunchFormat::kDeepSpeed;
    case Framework::kTorchTitan:
      return LaunchFormat::kTorchTitan;
    case Framework::kAccelerate:
      return LaunchFormat::kAccelerate;
  }
  return LaunchFormat::kMegatron;
}

}  // namespace asterism::planner
