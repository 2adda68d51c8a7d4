// File: planner/emit_deepspeed.h
//
// A plan as DeepSpeed's JSON file with the arguments that name it, and back.
//
//   JsonOf(EmitDeepSpeed(launch))
//   DeepSpeedArguments("/etc/asterism/deepspeed.json")      // --deepspeed --deepspeed_config FILE
//   ASSIGN_OR_RETURN(const FieldTable fields, ParseNestedJson(text));
//   ASSIGN_OR_RETURN(LaunchPlan launch, ParseDeepSpeed(fields, {.gpus = 64, .sequence = 4096}));
//
// The file knows neither the GPUs nor the sequence; they are the job's. ZeRO's stage is the
// sharding, Ulysses' degree the context, MiCS' shards the replicas. With tensor ranks and no
// pipeline the batch of all is left out: it is the product of the other two and the data ranks.
// Full recompute is pipeline.activation_checkpoint_interval 1 in a pipeline, else the section
// activation_checkpointing (the model's code has to call it). Names: DeepSpeed 0.19.6.
//
// Errors: a value of a wrong kind, or three batch sizes that do not multiply out; names field and
// way out. Thread-safety: pure. Cost: about 10 us.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/field_table.h"
#include "planner/launch_plan.h"
#include "planner/setting.h"

namespace asterism::planner {

// What a launch file leaves to the job.
struct LaunchJob {
  int64_t gpus = 0;
  int64_t sequence = 0;
};

SettingList EmitDeepSpeed(const LaunchPlan& launch);
std::vector<std::string> DeepSpeedArguments(std::string_view file);
absl::StatusOr<LaunchPlan> ParseDeepSpeed(const FieldTable& fields, const LaunchJob& job);

}  // namespace asterism::planner
