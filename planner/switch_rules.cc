#include "fmt/format.h"
#include "planner/constraint_rule.h"

namespace asterism::planner {
namespace {

ConstraintReason OverlapTensor(const ConstraintQuestion& q) {
  if (!q.switches.overlap_tensor || (q.plan.sequence_parallel && q.degrees.tensor > 1)) {
    return std::nullopt;
  }
  return "overlap of the tensor exchange needs sequence parallelism: set tensor above 1 and "
         "sequence_parallel, or leave the overlap out";
}

ConstraintReason OverlapTensorAlone(const ConstraintQuestion& q) {
  if (!q.switches.overlap_tensor || q.degrees.tensor > 1) {
    return std::nullopt;
  }
  return "overlap of the tensor exchange needs tensor above 1: leave it out";
}

ConstraintReason OverlapTensorCompile(const ConstraintQuestion& q) {
  if (!q.switches.overlap_tensor || q.switches.compile) {
    return std::nullopt;
  }
  return "async tensor parallelism works in compiled models only: enable compile";
}

bool ShardsStates(const ConstraintQuestion& q) {
  return q.plan.sharding != Sharding::kNone;
}

ConstraintReason OverlapParameters(const ConstraintQuestion& q) {
  const bool gathers = q.plan.sharding == Sharding::kOptimizer || q.switches.megatron_fsdp;
  if (!q.switches.overlap_parameters || (gathers && q.switches.overlap_gradients)) {
    return std::nullopt;
  }
  return "overlap of the parameter gather needs the distributed optimizer or Megatron's FSDP, and "
         "the overlap of gradients: set both or leave it out";
}

ConstraintReason OverlapExperts(const ConstraintQuestion& q) {
  if (!q.switches.overlap_experts) {
    return std::nullopt;
  }
  if (q.degrees.expert == 1) {
    return "overlap of experts needs expert above 1: leave it out";
  }
  if (q.degrees.pipeline > 1 && q.plan.virtual_stages == 1) {
    return "overlap of experts in a pipeline needs virtual stages: set virtual_stages above 1";
  }
  if (q.plan.recompute.mode == RecomputeMode::kFull) {
    return "overlap of experts excludes full recompute: recompute modules, or leave it out";
  }
  if (q.switches.overlap_shared_experts) {
    return "overlap of experts excludes the overlap of shared experts: keep one";
  }
  if (q.switches.expert_dispatch == ExpertDispatch::kAllGather) {
    return "overlap of experts needs the alltoall or flex dispatcher";
  }
  return std::nullopt;
}

ConstraintReason DelayGradients(const ConstraintQuestion& q) {
  if (!q.switches.delay_weight_gradients || q.switches.overlap_experts) {
    return std::nullopt;
  }
  return "delayed weight gradients go with the overlap of experts: set both or none";
}

ConstraintReason BlockingPipeline(const ConstraintQuestion& q) {
  if (!q.switches.blocking_pipeline || q.plan.virtual_stages == 1 || q.degrees.pipeline > 2) {
    return std::nullopt;
  }
  return fmt::format(
      "virtual stages without overlap of transfers need more than 2 stages, not {}: allow the "
      "overlap",
      q.degrees.pipeline);
}

ConstraintReason OverlapFill(const ConstraintQuestion& q) {
  if (!q.switches.overlap_pipeline_fill ||
      (q.plan.virtual_stages > 1 && !q.switches.blocking_pipeline)) {
    return std::nullopt;
  }
  return "overlap in fill and drain needs virtual stages and the overlap of transfers";
}

ConstraintReason GroupedGemm(const ConstraintQuestion& q) {
  const bool wanted = (q.plan.recompute.modules & kRecomputeMoeActivation) != 0;
  if (!wanted || q.switches.grouped_gemm) {
    return std::nullopt;
  }
  return "recompute of moe_act needs grouped products of experts: set grouped_gemm";
}

ConstraintReason ExpertSwitches(const ConstraintQuestion& q) {
  if (q.model.experts.count > 0 ||
      (!q.switches.grouped_gemm && !q.switches.overlap_shared_experts &&
       q.switches.expert_dispatch == ExpertDispatch::kAllGather)) {
    return std::nullopt;
  }
  return "switches of experts need a model with experts: leave them out";
}

ConstraintReason FsdpGradients(const ConstraintQuestion& q) {
  if (q.plan.sharding != Sharding::kGradients || q.switches.megatron_fsdp) {
    return std::nullopt;
  }
  return "sharded gradients need Megatron's FSDP: set megatron_fsdp, or shard the optimizer only";
}

ConstraintReason FsdpSharding(const ConstraintQuestion& q) {
  if (!q.switches.megatron_fsdp || q.plan.sharding >= Sharding::kGradients) {
    return std::nullopt;
  }
  return "Megatron's FSDP shards gradients or everything: set sharding, or leave megatron_fsdp out";
}

bool UsesTorchFsdp(const ConstraintQuestion& q) {
  return q.plan.sharding == Sharding::kFull && !q.switches.megatron_fsdp;
}

ConstraintReason FsdpTied(const ConstraintQuestion& q) {
  if (!UsesTorchFsdp(q) || !q.model.tied_embeddings) {
    return std::nullopt;
  }
  return "torch FSDP needs an output matrix of its own: untie the embeddings or use Megatron's "
         "FSDP";
}

ConstraintReason FsdpCheckpoint(const ConstraintQuestion& q) {
  const CheckpointFormat format = q.switches.checkpoint;
  if (format == CheckpointFormat::kFsdpDtensor && !q.switches.megatron_fsdp) {
    return "checkpoints as fsdp_dtensor need Megatron's FSDP: use torch_dist";
  }
  if (q.switches.megatron_fsdp && format != CheckpointFormat::kFsdpDtensor) {
    return "Megatron's FSDP writes fsdp_dtensor checkpoints only: use that format";
  }
  if (UsesTorchFsdp(q) && format != CheckpointFormat::kTorchDist) {
    return "torch FSDP writes torch_dist checkpoints only: use that format";
  }
  return std::nullopt;
}

ConstraintReason FsdpConnections(const ConstraintQuestion& q) {
  const bool fsdp = UsesTorchFsdp(q) || q.switches.megatron_fsdp;
  if (!fsdp || q.environment.device_connections != 1) {
    return std::nullopt;
  }
  return "FSDP must not run with CUDA_DEVICE_MAX_CONNECTIONS=1: set 8 or leave it out";
}

ConstraintReason TensorConnections(const ConstraintQuestion& q) {
  const bool exempt = UsesTorchFsdp(q) || q.switches.megatron_fsdp || q.switches.overlap_experts ||
                      q.environment.cuda_major >= 10;
  if ((q.degrees.tensor == 1 && q.degrees.context == 1) || exempt ||
      q.environment.device_connections == 1) {
    return std::nullopt;
  }
  return "tensor and context parallelism before Blackwell need CUDA_DEVICE_MAX_CONNECTIONS=1";
}

ConstraintReason OffloadCpu(const ConstraintQuestion& q) {
  if (!q.switches.activation_offload ||
      (q.degrees.pipeline == 1 && q.plan.recompute.mode == RecomputeMode::kNone)) {
    return std::nullopt;
  }
  return "offload of activations excludes a pipeline and recompute: keep one";
}

ConstraintReason OffloadRange(const ConstraintQuestion& q) {
  const int64_t percent = q.switches.optimizer_offload_percent;
  if (percent >= 0 && percent <= 100) {
    return std::nullopt;
  }
  return fmt::format("optimizer_offload_percent: {} is out of range: use 0 to 100", percent);
}

ConstraintReason OffloadOptimizer(const ConstraintQuestion& q) {
  if (q.switches.optimizer_offload_percent == 0) {
    return std::nullopt;
  }
  if (!q.switches.precise_optimizer) {
    return "offload of the optimizer needs the precision-aware optimizer: set it";
  }
  if (q.switches.fp8_parameters && q.switches.fp8 != Fp8Recipe::kDelayed) {
    return "offload of the optimizer with FP8 parameters needs the delayed recipe";
  }
  return std::nullopt;
}

ConstraintReason PreciseOptimizer(const ConstraintQuestion& q) {
  if (!q.switches.precise_optimizer || q.plan.sharding == Sharding::kOptimizer) {
    return std::nullopt;
  }
  return "the precision-aware optimizer is a distributed one: shard the optimizer";
}

ConstraintReason Fp8RecipeGiven(const ConstraintQuestion& q) {
  const bool fp8 = q.plan.precision == Precision::kFp8;
  if (fp8 == (q.switches.fp8 != Fp8Recipe::kNone)) {
    return std::nullopt;
  }
  return "FP8 and its recipe go together: set both or none";
}

ConstraintReason Fp8Parameters(const ConstraintQuestion& q) {
  if (!q.switches.fp8_parameters) {
    return std::nullopt;
  }
  if (q.plan.precision != Precision::kFp8) {
    return "parameters in FP8 need products in FP8: set precision FP8";
  }
  if (!ShardsStates(q)) {
    return "parameters in FP8 need a sharded optimizer or FSDP: shard the optimizer";
  }
  return std::nullopt;
}

ConstraintReason Fp8Gpu(const ConstraintQuestion& q) {
  if (q.switches.fp8 == Fp8Recipe::kNone) {
    return std::nullopt;
  }
  if (q.environment.cuda_major < 9) {
    return "this GPU multiplies no FP8: use BF16";
  }
  if (q.switches.fp8 == Fp8Recipe::kMxfp8 && q.environment.cuda_major < 10) {
    return "MXFP8 needs Blackwell: use blockwise or tensorwise";
  }
  return std::nullopt;
}

ConstraintReason Fp8TorchRecipe(const ConstraintQuestion& q) {
  const bool scaled = q.switches.fp8 == Fp8Recipe::kMxfp8;
  if (q.switches.fp8 == Fp8Recipe::kDelayed || q.switches.fp8 == Fp8Recipe::kBlockwise ||
      (scaled && q.plan.framework == Framework::kAccelerate)) {
    return "torchao has the tensorwise recipe, in torchtitan also MXFP8: use one of them";
  }
  if (scaled && q.switches.fp8_parameters) {
    return "parameters are gathered in FP8 with the tensorwise recipe only: use that";
  }
  return std::nullopt;
}

ConstraintReason GraphsRecompute(const ConstraintQuestion& q) {
  if (q.switches.cuda_graphs == CudaGraphs::kNone ||
      q.plan.recompute.mode != RecomputeMode::kFull) {
    return std::nullopt;
  }
  return "CUDA graphs exclude full recompute: recompute modules, or leave the graphs out";
}

ConstraintReason GraphsSegments(const ConstraintQuestion& q) {
  if (q.switches.cuda_graphs == CudaGraphs::kNone || !q.environment.expandable_segments) {
    return std::nullopt;
  }
  return "CUDA graphs exclude expandable_segments: leave one out";
}

ConstraintReason ZeroOffload(const ConstraintQuestion& q) {
  if (q.switches.optimizer_offload_percent > 0 && !ShardsStates(q)) {
    return "offload_optimizer needs ZeRO stage 1 or more: shard the optimizer";
  }
  if (q.switches.parameter_offload && q.plan.sharding != Sharding::kFull) {
    return "offload_param needs ZeRO-3: shard fully";
  }
  return std::nullopt;
}

ConstraintReason ZeroQuantized(const ConstraintQuestion& q) {
  if ((!q.switches.quantized_weights && !q.switches.quantized_gradients) ||
      q.plan.sharding == Sharding::kFull) {
    return std::nullopt;
  }
  return "quantized exchange (ZeRO++) needs ZeRO-3: shard fully";
}

ConstraintReason FsdpOffload(const ConstraintQuestion& q) {
  if (!q.switches.parameter_offload || ShardsStates(q)) {
    return std::nullopt;
  }
  return "offload of parameters is a part of FSDP: shard";
}

// Which switches a framework has, so that none is dropped in silence.
ConstraintReason SwitchKnown(const ConstraintQuestion& q) {
  LaunchSwitches rest = q.switches;
  rest.fp8 = Fp8Recipe::kNone;
  switch (q.plan.framework) {
    case Framework::kMegatron:
      rest = LaunchSwitches{};
      rest.quantized_weights = q.switches.quantized_weights;
      rest.quantized_gradients = q.switches.quantized_gradients;
      rest.parameter_offload = q.switches.parameter_offload;
      rest.compile = q.switches.compile;
      break;
    case Framework::kDeepSpeed:
      rest.overlap_gradients = rest.overlap_tensor = rest.narrow_gradients = false;
      rest.quantized_weights = rest.quantized_gradients = rest.parameter_offload = false;
      rest.optimizer_offload_percent = 0;
      rest.compile = false;
      break;
    case Framework::kTorchTitan:
      rest.overlap_tensor = rest.parameter_offload = rest.compile = rest.fp8_parameters = false;
      break;
    case Framework::kAccelerate:
      rest.parameter_offload = rest.compile = rest.fp8_parameters = false;
      break;
  }
  if (rest == LaunchSwitches{}) {
    return std::nullopt;
  }
  return "the framework has no such switch: leave out what its files do not know";
}

constexpr ConstraintRule kSwitchRules[] = {
    {"switch.known", kOfMegatron | kOfDeepSpeed | kOfTorchTitan | kOfAccelerate, SwitchKnown},
    {"overlap.tp_needs_sp", kOfMegatron | kOfTorchTitan, OverlapTensor},
    {"overlap.tp_needs_tp", kOfDeepSpeed, OverlapTensorAlone},
    {"overlap.tp_compile", kOfTorchTitan, OverlapTensorCompile},
    {"overlap.param_gather", kOfMegatron, OverlapParameters},
    {"overlap.ep", kOfMegatron, OverlapExperts},
    {"overlap.wgrad", kOfMegatron, DelayGradients},
    {"overlap.pp_blocking", kOfMegatron, BlockingPipeline},
    {"overlap.pp_fill", kOfMegatron, OverlapFill},
    {"experts.switches", kOfMegatron, ExpertSwitches},
    {"recompute.grouped", kOfMegatron, GroupedGemm},
    {"fsdp.gradients", kOfMegatron, FsdpGradients},
    {"fsdp.sharding", kOfMegatron, FsdpSharding},
    {"fsdp.tied", kOfMegatron, FsdpTied},
    {"fsdp.checkpoint", kOfMegatron, FsdpCheckpoint},
    {"fsdp.connections", kOfMegatron, FsdpConnections},
    {"tp.connections", kOfMegatron, TensorConnections},
    {"offload.cpu", kOfMegatron, OffloadCpu},
    {"offload.range", kOfMegatron | kOfDeepSpeed, OffloadRange},
    {"offload.optimizer", kOfMegatron, OffloadOptimizer},
    {"optimizer.precise", kOfMegatron, PreciseOptimizer},
    {"fp8.recipe", kOfMegatron | kOfTorchTitan | kOfAccelerate, Fp8RecipeGiven},
    {"fp8.parameters", kOfMegatron | kOfTorchTitan | kOfAccelerate, Fp8Parameters},
    {"fp8.gpu", kOfMegatron | kOfTorchTitan | kOfAccelerate, Fp8Gpu},
    {"fp8.torch_recipe", kOfTorchTitan | kOfAccelerate, Fp8TorchRecipe},
    {"graphs.recompute", kOfMegatron, GraphsRecompute},
    {"graphs.segments", kOfMegatron, GraphsSegments},
    {"zero.offload", kOfDeepSpeed, ZeroOffload},
    {"zero.quantized", kOfDeepSpeed, ZeroQuantized},
    {"fsdp.offload", kOfTorchTitan | kOfAccelerate, FsdpOffload},
};

}  // namespace

std::span<const ConstraintRule> SwitchRules() {
  return kSwitchRules;
}

}  // namespace asterism::planner
