// File: planner/emit_torchtitan.h
//
// A plan as torchtitan's configuration: the TOML of the releases that read one, and arguments
// (`--parallelism.tensor_parallel_degree 8`) of the newer ones, which take the same fields over
// Python configurations; and back.
//
//   TomlOf(EmitTorchTitan(model, launch))
//   ArgumentsOf(EmitTorchTitanArguments(model, launch))
//   ASSIGN_OR_RETURN(LaunchPlan launch, ParseTorchTitan(model, fields));
//
// ParseTorchTitan reads both. The model gives the layers of a stage. Newer releases count the batch
// in tokens. Names: torchtitan's job_config (TOML) and configs.py, b5bcd76c6.
//
// Errors: a value of a wrong kind or no word of its field; names field and way out.
// Thread-safety: pure. Cost: about 10 us.
#pragma once

#include "absl/status/statusor.h"
#include "planner/field_table.h"
#include "planner/launch_plan.h"
#include "planner/model_spec.h"
#include "planner/setting.h"

namespace asterism::planner {

SettingList EmitTorchTitan(const ModelSpec& model, const LaunchPlan& launch);
SettingList EmitTorchTitanArguments(const ModelSpec& model, const LaunchPlan& launch);
absl::StatusOr<LaunchPlan> ParseTorchTitan(const ModelSpec& model, const FieldTable& fields);

}  // namespace asterism::planner
