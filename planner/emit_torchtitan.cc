#include "planner/emit_torchtitan.h"

#include <algorithm>

#include "base/status_macros.h"
#include "planner/word_table.h"

namespace asterism::planner {
namespace {

constexpr int64_t kTitanTokensMax = int64_t{1} << 53;

constexpr Worded<Schedule> kSchedules[] = {
    {Schedule::kOneForwardOneBackward, "1F1B"},  {Schedule::kGPipe, "GPipe"},
    {Schedule::kInterleaved, "Interleaved1F1B"}, {Schedule::kZeroBubbleV, "ZBVZeroBubble"},
    {Schedule::kDualPipeV, "DualPipeV"},
};
constexpr Worded<Sharding> kReshard[] = {
    {Sharding::kFull, "always"},
    {Sharding::kGradients, "never"},
};
constexpr Worded<ContextExchange> kRotations[] = {
    {ContextExchange::kRing, "alltoall"},
    {ContextExchange::kAllGather, "allgather"},
};
constexpr Worded<RecomputeMode> kCheckpointModes[] = {
    {RecomputeMode::kNone, "none"},
    {RecomputeMode::kOperators, "selective"},
    {RecomputeMode::kFull, "full"},
};

int64_t CountedLayers(const ModelSpec& model, const ParallelPlan& plan) {
  return model.layers + int64_t{plan.count_embedding} + int64_t{plan.count_loss};
}

void EmitTitanDegrees(const ModelSpec& model, const LaunchPlan& launch, SettingList& list) {
  const ParallelPlan& plan = launch.plan;
  const Degrees& d = plan.degrees;
  const bool sharded = plan.sharding != Sharding::kNone;
  list.Whole("parallelism.data_parallel_replicate_degree", sharded ? plan.replicas : d.data);
  list.Whole("parallelism.data_parallel_shard_degree", sharded ? d.data / plan.replicas : 1);
  if (sharded) {
    list.Text("parallelism.fsdp_reshard_after_forward", WordOf(kReshard, plan.sharding));
  }
  list.Whole("parallelism.tensor_parallel_degree", d.tensor);
  list.Boolean("parallelism.enable_sequence_parallel", plan.sequence_parallel);
  list.Boolean("parallelism.enable_async_tensor_parallel", launch.switches.overlap_tensor);
  list.Whole("parallelism.pipeline_parallel_degree", d.pipeline);
  if (d.pipeline > 1) {
    const int64_t slots = d.pipeline * plan.virtual_stages;
    list.Text("parallelism.pipeline_parallel_schedule", WordOf(kSchedules, plan.schedule));
    list.Whole("parallelism.pipeline_parallel_layers_per_stage",
               (CountedLayers(model, plan) + slots - 1) / slots);
  }
  list.Whole("parallelism.pipeline_parallel_first_stage_less_layers",
             int64_t{plan.count_embedding});
  list.Whole("parallelism.pipeline_parallel_last_stage_less_layers", int64_t{plan.count_loss});
  list.Whole("parallelism.context_parallel_degree", d.context);
  if (d.context > 1) {
    list.Text("parallelism.context_parallel_rotate_method",
              WordOf(kRotations, plan.context_exchange));
  }
  list.Whole("parallelism.expert_parallel_degree", d.expert);
}

void EmitTitanRest(const LaunchPlan& launch, SettingList& list) {
  list.Boolean("training.enable_cpu_offload", launch.switches.parameter_offload);
  list.Text("training.mixed_precision_param", "bfloat16");
  list.Text("training.mixed_precision_reduce", "float32");
  list.Text("activation_checkpoint.mode", WordOf(kCheckpointModes, launch.plan.recompute.mode));
  if (launch.plan.recompute.mode == RecomputeMode::kOperators) {
    list.Text("activation_checkpoint.selective_ac_option", "op");
  }
  list.Boolean("compile.enable", launch.switches.compile);
  if (launch.switches.fp8 == Fp8Recipe::kMxfp8) {
    list.Words("model.converters", {"quantize.linear.mx"});
    list.Text("quantize.linear.mx.recipe_name", "mxfp8");
  } else if (launch.switches.fp8 != Fp8Recipe::kNone) {
    list.Words("model.converters", {"quantize.linear.float8"});
    list.Boolean("quantize.linear.float8.enable_fsdp_float8_all_gather",
                 launch.switches.fp8_parameters);
  }
}

absl::Status ParseTitanSharding(const FieldTable& fields, ParallelPlan& plan) {
  ASSIGN_OR_RETURN(const int64_t replicate,
                   fields.WholeOr("parallelism.data_parallel_replicate_degree", 1));
  ASSIGN_OR_RETURN(const int64_t shard,
                   fields.WholeOr("parallelism.data_parallel_shard_degree", 1));
  if (replicate < 1 || shard < 1 || replicate > kTitanTokensMax / shard) {
    return absl::InvalidArgumentError(
        fmt::format("data_parallel_replicate_degree, data_parallel_shard_degree: {} and {}: write "
                    "both as whole numbers above 0",
                    replicate, shard));
  }
  plan.degrees.data = replicate * shard;
  const Field* reshard = fields.Find("parallelism.fsdp_reshard_after_forward");
  if (reshard == nullptr && shard == 1) {
    plan.sharding = Sharding::kNone;
    return absl::OkStatus();
  }
  plan.replicas = replicate;
  plan.sharding = Sharding::kFull;
  if (reshard != nullptr && reshard->text != "default") {
    ASSIGN_OR_RETURN(plan.sharding,
                     FromWord(kReshard, "fsdp_reshard_after_forward", reshard->text));
  }
  return absl::OkStatus();
}

absl::Status ParseTitanPipeline(const ModelSpec& model, const FieldTable& fields,
                                ParallelPlan& plan) {
  ASSIGN_OR_RETURN(plan.degrees.pipeline,
                   fields.WholeOr("parallelism.pipeline_parallel_degree", 1));
  ASSIGN_OR_RETURN(const int64_t first,
                   fields.WholeOr("parallelism.pipeline_parallel_first_stage_less_layers", 1));
  ASSIGN_OR_RETURN(const int64_t last,
                   fields.WholeOr("parallelism.pipeline_parallel_last_stage_less_layers", 1));
  if (first < 0 || first > 1 || last < 0 || last > 1) {
    return absl::InvalidArgumentError(
        "pipeline_parallel_first_stage_less_layers, ..last..: only 0 and 1 are planned with: use "
        "one of them");
  }
  plan.count_embedding = first == 1;
  plan.count_loss = last == 1;
  if (plan.degrees.pipeline <= 1) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string schedule,
                   fields.TextOr("parallelism.pipeline_parallel_schedule", "1F1B"));
  ASSIGN_OR_RETURN(plan.schedule, FromWord(kSchedules, "pipeline_parallel_schedule", schedule));
  ASSIGN_OR_RETURN(const int64_t each,
                   fields.WholeOr("parallelism.pipeline_parallel_layers_per_stage", 0));
  if (each <= 0) {
    // As torchtitan: one stage a rank, two where the schedule needs many.
    const bool many = plan.schedule == Schedule::kInterleaved ||
                      plan.schedule == Schedule::kZeroBubbleV ||
                      plan.schedule == Schedule::kDualPipeV;
    plan.virtual_stages = many ? 2 : 1;
    return absl::OkStatus();
  }
  const int64_t layers = CountedLayers(model, plan);
  const int64_t slots = layers / each + int64_t{layers % each != 0};
  if (slots % plan.degrees.pipeline != 0) {
    return absl::InvalidArgumentError(
        fmt::format("pipeline_parallel_layers_per_stage: {} gives {} stages, no multiple of "
                    "pipeline {}: change it",
                    each, slots, plan.degrees.pipeline));
  }
  plan.virtual_stages = slots / plan.degrees.pipeline;
  return absl::OkStatus();
}

// In sequences (TOML), or in tokens (newer).
absl::Status ParseTitanBatch(const FieldTable& fields, ParallelPlan& plan) {
  if (fields.Find("training.max_context_length") == nullptr) {
    ASSIGN_OR_RETURN(plan.sequence, fields.WholeOr("training.seq_len", 2048));
    ASSIGN_OR_RETURN(const int64_t local, fields.WholeOr("training.local_batch_size", 8));
    plan.micro_batch = local;
    if (plan.degrees.pipeline > 1) {
      ASSIGN_OR_RETURN(plan.micro_batch,
                       fields.WholeOr("parallelism.pipeline_parallel_microbatch_size", 1));
    }
    if (local < 1 || local > kTitanTokensMax / plan.degrees.data) {
      return absl::InvalidArgumentError(
          fmt::format("training.local_batch_size: {} is out of range: use 1 or more", local));
    }
    ASSIGN_OR_RETURN(plan.global_batch, fields.WholeOr("training.global_batch_size", -1));
    if (plan.global_batch < 0) {
      plan.global_batch = local * plan.degrees.data;
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(plan.sequence, fields.Whole("training.max_context_length"));
  ASSIGN_OR_RETURN(const int64_t micro,
                   fields.Whole("training.num_tokens_per_microbatch_per_dp_rank"));
  ASSIGN_OR_RETURN(const int64_t step, fields.Whole("training.num_tokens_per_train_step"));
  if (plan.sequence < 1 || micro % plan.sequence != 0 || step % plan.sequence != 0) {
    return absl::InvalidArgumentError(
        fmt::format("training: {} and {} tokens are not whole sequences of {}: use multiples",
                    micro, step, plan.sequence));
  }
  plan.micro_batch = micro / plan.sequence;
  plan.global_batch = step / plan.sequence;
  return absl::OkStatus();
}

absl::Status ParseTitanRest(const FieldTable& fields, LaunchPlan& launch) {
  LaunchSwitches& switches = launch.switches;
  ASSIGN_OR_RETURN(const std::string mode,
                   fields.TextOr("activation_checkpoint.mode", "selective"));
  ASSIGN_OR_RETURN(launch.plan.recompute.mode,
                   FromWord(kCheckpointModes, "activation_checkpoint.mode", mode));
  ASSIGN_OR_RETURN(switches.parameter_offload,
                   fields.BooleanOr("training.enable_cpu_offload", false));
  ASSIGN_OR_RETURN(switches.compile, fields.BooleanOr("compile.enable", false));
  ASSIGN_OR_RETURN(switches.overlap_tensor,
                   fields.BooleanOr("parallelism.enable_async_tensor_parallel", false));
  if (const Field* converters = fields.Find("model.converters"); converters != nullptr) {
    for (const std::string& word : SplitWords(converters->text)) {
      if (word == "quantize.linear.mx") {
        switches.fp8 = Fp8Recipe::kMxfp8;
      } else if (word == "quantize.linear.float8") {
        switches.fp8 = Fp8Recipe::kTensorwise;
      }
    }
  }
  ASSIGN_OR_RETURN(switches.fp8_parameters,
                   fields.BooleanOr("quantize.linear.float8.enable_fsdp_float8_all_gather", false));
  launch.plan.precision = switches.fp8 == Fp8Recipe::kNone ? Precision::kBf16 : Precision::kFp8;
  return absl::OkStatus();
}

}  // namespace

SettingList EmitTorchTitan(const ModelSpec& model, const LaunchPlan& launch) {
  const ParallelPlan& plan = launch.plan;
  SettingList list;
  list.Whole("training.local_batch_size",
             plan.degrees.pipeline > 1 ? plan.global_batch / plan.degrees.data : plan.micro_batch);
  list.Whole("training.global_batch_size", plan.global_batch);
  list.Whole("training.seq_len", plan.sequence);
  EmitTitanDegrees(model, launch, list);
  if (plan.degrees.pipeline > 1) {
    list.Whole("parallelism.pipeline_parallel_microbatch_size", plan.micro_batch);
  }
  EmitTitanRest(launch, list);
  return list;
}

SettingList EmitTorchTitanArguments(const ModelSpec& model, const LaunchPlan& launch) {
  const ParallelPlan& plan = launch.plan;
  SettingList list;
  list.Whole("training.num_tokens_per_microbatch_per_dp_rank", plan.micro_batch * plan.sequence);
  list.Whole("training.num_tokens_per_train_step", plan.global_batch * plan.sequence);
  list.Whole("training.max_context_length", plan.sequence);
  EmitTitanDegrees(model, launch, list);
  if (plan.degrees.pipeline > 1) {
    list.Whole("parallelism.num_pp_microbatches", plan.MicroBatches());
  }
  EmitTitanRest(launch, list);
  return list;
}

absl::StatusOr<LaunchPlan> ParseTorchTitan(const ModelSpec& model, const FieldTable& fields) {
  LaunchPlan launch;
  ParallelPlan& plan = launch.plan;
  plan.framework = Framework::kTorchTitan;
  RETURN_IF_ERROR(ParseTitanSharding(fields, plan));
  ASSIGN_OR_RETURN(plan.degrees.tensor, fields.WholeOr("parallelism.tensor_parallel_degree", 1));
  ASSIGN_OR_RETURN(plan.sequence_parallel,
                   fields.BooleanOr("parallelism.enable_sequence_parallel", true));
  RETURN_IF_ERROR(ParseTitanPipeline(model, fields, plan));
  ASSIGN_OR_RETURN(plan.degrees.context, fields.WholeOr("parallelism.context_parallel_degree", 1));
  if (plan.degrees.context > 1) {
    ASSIGN_OR_RETURN(const std::string rotation,
                     fields.TextOr("parallelism.context_parallel_rotate_method", "allgather"));
    ASSIGN_OR_RETURN(plan.context_exchange,
                     FromWord(kRotations, "context_parallel_rotate_method", rotation));
  }
  ASSIGN_OR_RETURN(plan.degrees.expert, fields.WholeOr("parallelism.expert_parallel_degree", 1));
  RETURN_IF_ERROR(ParseTitanBatch(fields, plan));
  RETURN_IF_ERROR(ParseTitanRest(fields, launch));
  return launch;
}

}  // namespace asterism::planner
