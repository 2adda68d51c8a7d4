#include "planner/emit_deepspeed.h"

#include <algorithm>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::planner {
namespace {

// DeepSpeed's own defaults, written out so that a reader sees them.
constexpr int64_t kBucketBytes = 500'000'000;

void EmitZero(const LaunchPlan& launch, SettingList& list) {
  const ParallelPlan& plan = launch.plan;
  const LaunchSwitches& switches = launch.switches;
  list.Whole("zero_optimization.stage", static_cast<int64_t>(plan.sharding));
  list.Boolean("zero_optimization.overlap_comm", switches.overlap_gradients);
  list.Boolean("zero_optimization.contiguous_gradients", true);
  list.Whole("zero_optimization.reduce_bucket_size", kBucketBytes);
  list.Whole("zero_optimization.allgather_bucket_size", kBucketBytes);
  if (plan.replicas > 1) {
    list.Whole("zero_optimization.mics_shard_size", plan.degrees.DenseReplicas() / plan.replicas);
  }
  if (switches.quantized_weights) {
    list.Boolean("zero_optimization.zero_quantized_weights", true);
  }
  if (switches.quantized_gradients) {
    list.Boolean("zero_optimization.zero_quantized_gradients", true);
  }
  if (switches.optimizer_offload_percent > 0) {
    list.Text("zero_optimization.offload_optimizer.device", "cpu");
    list.Boolean("zero_optimization.offload_optimizer.pin_memory", true);
    list.Add(
        {"zero_optimization.offload_optimizer.ratio", SettingKind::kNumber,
         fmt::format("{:.2f}", static_cast<double>(switches.optimizer_offload_percent) / 100)});
  }
  if (switches.parameter_offload) {
    list.Text("zero_optimization.offload_param.device", "cpu");
    list.Boolean("zero_optimization.offload_param.pin_memory", true);
  }
}

absl::Status ParseZero(const FieldTable& fields, LaunchPlan& launch) {
  ASSIGN_OR_RETURN(const int64_t stage, fields.WholeOr("zero_optimization.stage", 0));
  if (stage < 0 || stage > 3) {
    return absl::InvalidArgumentError(
        fmt::format("zero_optimization.stage: {} is out of range: use 0 to 3", stage));
  }
  launch.plan.sharding = static_cast<Sharding>(stage);
  LaunchSwitches& switches = launch.switches;
  ASSIGN_OR_RETURN(switches.overlap_gradients,
                   fields.BooleanOr("zero_optimization.overlap_comm", stage == 3));
  ASSIGN_OR_RETURN(switches.quantized_weights,
                   fields.BooleanOr("zero_optimization.zero_quantized_weights", false));
  ASSIGN_OR_RETURN(switches.quantized_gradients,
                   fields.BooleanOr("zero_optimization.zero_quantized_gradients", false));
  ASSIGN_OR_RETURN(const std::string optimizer,
                   fields.TextOr("zero_optimization.offload_optimizer.device", "none"));
  if (optimizer != "none") {
    constexpr std::string_view kRatio = "zero_optimization.offload_optimizer.ratio";
    ASSIGN_OR_RETURN(const double ratio, fields.NumberOr(kRatio, 1));
    if (ratio < 0 || ratio > 1) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} is out of range: use 0 to 1", kRatio, ratio));
    }
    switches.optimizer_offload_percent = static_cast<int64_t>(100 * ratio + 0.5);
  }
  ASSIGN_OR_RETURN(const std::string parameters,
                   fields.TextOr("zero_optimization.offload_param.device", "none"));
  switches.parameter_offload = parameters != "none";
  return absl::OkStatus();
}

absl::Status ParseBatches(const FieldTable& fields, ParallelPlan& plan) {
  constexpr int64_t kBatchMax = int64_t{1} << 32;
  ASSIGN_OR_RETURN(plan.micro_batch, fields.WholeOr("train_micro_batch_size_per_gpu", 1));
  ASSIGN_OR_RETURN(const int64_t steps, fields.WholeOr("gradient_accumulation_steps", 1));
  if (plan.micro_batch < 1 || plan.micro_batch > kBatchMax || steps < 1 || steps > kBatchMax ||
      static_cast<double>(plan.micro_batch) * static_cast<double>(steps) *
              static_cast<double>(plan.degrees.data) >
          static_cast<double>(kBatchMax)) {
    return absl::InvalidArgumentError(
        "train_micro_batch_size_per_gpu, gradient_accumulation_steps: out of range: use whole "
        "numbers above 0");
  }
  const int64_t product = plan.micro_batch * steps * plan.degrees.data;
  ASSIGN_OR_RETURN(plan.global_batch, fields.WholeOr("train_batch_size", product));
  if (plan.global_batch != product) {
    return absl::InvalidArgumentError(fmt::format(
        "train_batch_size: {} is not micro-batch x accumulation x data = {} x {} x {} = {}: "
        "change one",
        plan.global_batch, plan.micro_batch, steps, plan.degrees.data, product));
  }
  return absl::OkStatus();
}

}  // namespace

SettingList EmitDeepSpeed(const LaunchPlan& launch) {
  const ParallelPlan& plan = launch.plan;
  SettingList list;
  // Without a caller's mpu DeepSpeed takes the tensor ranks for data ranks when it multiplies the
  // three, and would refuse the right product: the other two are enough. The engine of a pipeline
  // brings one.
  if (plan.degrees.tensor == 1 || plan.degrees.pipeline > 1) {
    list.Whole("train_batch_size", plan.global_batch);
  }
  list.Whole("train_micro_batch_size_per_gpu", plan.micro_batch);
  list.Whole("gradient_accumulation_steps", plan.MicroBatches());
  list.Boolean("bf16.enabled", true);
  EmitZero(launch, list);
  if (launch.switches.narrow_gradients) {
    list.Text("communication_data_type", "bf16");
  }
  if (plan.degrees.tensor > 1) {
    list.Whole("tensor_parallel.autotp_size", plan.degrees.tensor);
    list.Boolean("tensor_parallel.tp_overlap_comm", launch.switches.overlap_tensor);
  }
  if (plan.degrees.context > 1) {
    list.Whole("sequence_parallel_size", plan.degrees.context);
    list.Whole("data_parallel_size", plan.degrees.data);
  }
  const bool full = plan.recompute.mode == RecomputeMode::kFull;
  if (plan.degrees.pipeline > 1) {
    list.Whole("pipeline.stages", plan.degrees.pipeline);
    list.Whole("pipeline.activation_checkpoint_interval", full ? 1 : 0);
  } else if (full) {
    list.Boolean("activation_checkpointing.partition_activations", plan.degrees.tensor > 1);
    list.Boolean("activation_checkpointing.contiguous_memory_optimization", false);
  }
  if (launch.switches.compile) {
    list.Boolean("compile.deepcompile", true);
  }
  return list;
}

std::vector<std::string> DeepSpeedArguments(std::string_view file) {
  return {"--deepspeed", "--deepspeed_config", std::string(file)};
}

absl::StatusOr<LaunchPlan> ParseDeepSpeed(const FieldTable& fields, const LaunchJob& job) {
  LaunchPlan launch;
  ParallelPlan& plan = launch.plan;
  plan.framework = Framework::kDeepSpeed;
  plan.sequence = job.sequence;
  RETURN_IF_ERROR(ParseZero(fields, launch));
  ASSIGN_OR_RETURN(plan.degrees.tensor, fields.WholeOr("tensor_parallel.autotp_size", 1));
  ASSIGN_OR_RETURN(launch.switches.overlap_tensor,
                   fields.BooleanOr("tensor_parallel.tp_overlap_comm", false));
  ASSIGN_OR_RETURN(plan.degrees.context, fields.WholeOr("sequence_parallel_size", 1));
  ASSIGN_OR_RETURN(plan.degrees.pipeline, fields.WholeOr("pipeline.stages", 1));
  plan.context_exchange =
      plan.degrees.context > 1 ? ContextExchange::kAllToAll : ContextExchange::kRing;
  const Degrees& d = plan.degrees;
  const double group = static_cast<double>(d.tensor) * static_cast<double>(d.context) *
                       static_cast<double>(d.pipeline);
  if (d.tensor < 1 || d.context < 1 || d.pipeline < 1 || group > static_cast<double>(job.gpus)) {
    return absl::InvalidArgumentError(fmt::format(
        "autotp_size, sequence_parallel_size, pipeline.stages: {} x {} x {} is not 1 to {} GPUs: "
        "use smaller degrees",
        d.tensor, d.context, d.pipeline, job.gpus));
  }
  plan.degrees.data = job.gpus / (d.tensor * d.context * d.pipeline);
  RETURN_IF_ERROR(ParseBatches(fields, plan));
  ASSIGN_OR_RETURN(const int64_t shards, fields.WholeOr("zero_optimization.mics_shard_size", 0));
  if (shards > 0) {
    plan.replicas = std::max<int64_t>(1, plan.degrees.DenseReplicas() / shards);
  }
  ASSIGN_OR_RETURN(const int64_t interval,
                   fields.WholeOr("pipeline.activation_checkpoint_interval", 0));
  if (interval > 0 || fields.Find("activation_checkpointing.partition_activations") != nullptr) {
    plan.recompute.mode = RecomputeMode::kFull;
  }
  ASSIGN_OR_RETURN(const std::string exchanged, fields.TextOr("communication_data_type", ""));
  launch.switches.narrow_gradients = exchanged == "bf16" || exchanged == "bfp16";
  ASSIGN_OR_RETURN(launch.switches.compile, fields.BooleanOr("compile.deepcompile", false));
  return launch;
}

}  // namespace asterism::planner
