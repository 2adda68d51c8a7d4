// File: planner/emit_megatron.h
//
// A plan as arguments of Megatron-LM, and back; and as overrides of Megatron Bridge, whose
// configuration has the same fields under other names.
//
//   ArgumentsOf(EmitMegatron(launch))        // {"--tensor-model-parallel-size", "8", ...}
//   OverridesOf(EmitBridge(launch))          // {"model.tensor_model_parallel_size=8", ...}
//   ASSIGN_OR_RETURN(LaunchPlan launch, ParseMegatron(ReadArguments(words, MegatronSwitches()),
//   512));
//
// Of a launch that CheckLaunch allows ParseMegatron(EmitMegatron(launch)) is the same launch. What
// is absent has the framework's default; the data degree is what the GPUs leave. Arguments of the
// model itself are the user's. Names: Megatron-LM core 0.20, Bridge 067f987df.
//
// Errors: a value that is no number or no word of the option; names option, value and way out.
// Thread-safety: pure. Cost: about 10 us.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/field_table.h"
#include "planner/launch_plan.h"
#include "planner/setting.h"

namespace asterism::planner {

SettingList EmitMegatron(const LaunchPlan& launch);
absl::StatusOr<LaunchPlan> ParseMegatron(const FieldTable& fields, int64_t gpus);
// Options without a value that a launch or a user's command may have.
std::span<const std::string_view> MegatronSwitches();

SettingList EmitBridge(const LaunchPlan& launch);
absl::StatusOr<LaunchPlan> ParseBridge(const FieldTable& fields, int64_t gpus);

}  // namespace asterism::planner
