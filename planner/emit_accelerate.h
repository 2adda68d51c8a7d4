// File: planner/emit_accelerate.h
//
// A plan as Accelerate's YAML file (FSDP2) with the arguments of a Hugging Face Trainer that it
// does not hold, and back; and the counts of torchrun.
//
//   YamlOf(EmitAccelerate(launch, /*nodes=*/8))
//   ArgumentsOf(EmitTrainer(launch))            // --per_device_train_batch_size 2 ...
//   ArgumentsOf(EmitTorchrun({.nodes = 8, .processes = 8}))
//   ASSIGN_OR_RETURN(LaunchPlan launch, ParseAccelerate(file, arguments, {.sequence = 4096}));
//
// Neither holds the length of a sequence: it is the job's. Addresses and ranks come from the pod's
// environment. Names: accelerate 16cb6eb8, torchrun of torch 2.
//
// Errors: a value of a wrong kind or no word of its field; names field and way out.
// Thread-safety: pure. Cost: about 10 us.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/emit_deepspeed.h"
#include "planner/field_table.h"
#include "planner/launch_plan.h"
#include "planner/setting.h"

namespace asterism::planner {

SettingList EmitAccelerate(const LaunchPlan& launch, int64_t nodes);
SettingList EmitTrainer(const LaunchPlan& launch);
// The file as the variables that `accelerate launch` makes of it, for programs that torchrun
// starts.
SettingList EmitAccelerateVariables(const LaunchPlan& launch);
absl::StatusOr<LaunchPlan> ParseAccelerate(const FieldTable& file, const FieldTable& arguments,
                                           const LaunchJob& job);

struct TorchrunCounts {
  int64_t nodes = 1;
  int64_t processes = 1;  // a node

  friend bool operator==(const TorchrunCounts&, const TorchrunCounts&) = default;
};

SettingList EmitTorchrun(const TorchrunCounts& counts);
// "1:4" nodes (an elastic range) is its upper end.
absl::StatusOr<TorchrunCounts> ParseTorchrun(const FieldTable& fields);

}  // namespace asterism::planner
