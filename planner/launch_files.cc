#include "planner/launch_files.h"

#include "base/status_macros.h"
#include "planner/emit_accelerate.h"
#include "planner/emit_deepspeed.h"
#include "planner/emit_megatron.h"
#include "planner/emit_torchtitan.h"
#include "planner/setting.h"
#include "planner/setting_reader.h"

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

absl::StatusOr<LaunchPlan> ReadLaunch(const ModelSpec& model, Framework framework,
                                      const WrittenLaunch& launch, const WrittenJob& job) {
  const FieldTable arguments = ReadArguments(launch.arguments, MegatronSwitches());
  switch (framework) {
    case Framework::kMegatron: {
      ASSIGN_OR_RETURN(LaunchPlan read, ParseMegatron(arguments, job.gpus));
      ParallelPlan& plan = read.plan;
      plan.micro_batch = plan.micro_batch == 0 ? 1 : plan.micro_batch;
      plan.global_batch = plan.global_batch == 0 ? job.global_batch : plan.global_batch;
      plan.sequence = plan.sequence == 0 ? job.sequence : plan.sequence;
      return read;
    }
    case Framework::kDeepSpeed: {
      ASSIGN_OR_RETURN(const FieldTable file, ParseNestedJson(launch.file));
      return ParseDeepSpeed(file, {.gpus = job.gpus, .sequence = job.sequence});
    }
    case Framework::kTorchTitan: {
      if (launch.file.empty()) {
        return ParseTorchTitan(model, arguments);
      }
      ASSIGN_OR_RETURN(const FieldTable file, ParseToml(launch.file));
      return ParseTorchTitan(model, file);
    }
    case Framework::kAccelerate: {
      ASSIGN_OR_RETURN(const FieldTable file, ParseNestedYaml(launch.file));
      return ParseAccelerate(file, arguments, {.gpus = job.gpus, .sequence = job.sequence});
    }
  }
  return absl::InternalError("a framework without a format");
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
