#include "fmt/format.h"
#include "planner/constraint_rule.h"

namespace asterism::planner {
namespace {

using Reason = ConstraintReason;
using Question = ConstraintQuestion;

Reason WorldDense(const Question& q) {
  const int64_t group = q.degrees.tensor * q.degrees.context * q.degrees.pipeline;
  if (q.gpus % group == 0 && q.degrees.Gpus() == q.gpus) {
    return std::nullopt;
  }
  return fmt::format(
      "{} GPUs are not tensor x context x pipeline x data = {} x {} x {} x {} = {}: change a "
      "degree "
      "or the GPUs",
      q.gpus, q.degrees.tensor, q.degrees.context, q.degrees.pipeline, q.degrees.data,
      q.degrees.Gpus());
}

Reason WorldExpert(const Question& q) {
  const int64_t group = q.degrees.expert_tensor * q.degrees.expert * q.degrees.pipeline;
  if (q.gpus % group == 0) {
    return std::nullopt;
  }
  return fmt::format(
      "{} GPUs are not divisible by expert_tensor x expert x pipeline = {}: use a "
      "smaller expert degree",
      q.gpus, group);
}

Reason HeadsTensor(const Question& q) {
  const int64_t heads = q.model.attention.heads;
  if (heads % q.degrees.tensor == 0) {
    return std::nullopt;
  }
  return fmt::format("{} heads are not divisible by tensor = {}: use a divisor", heads,
                     q.degrees.tensor);
}

bool IsGrouped(const Question& q) {
  return q.model.attention.kind == AttentionKind::kGrouped;
}

Reason KvMultipleOrDivisor(const Question& q) {
  const int64_t kv = q.model.attention.kv_heads;
  if (!IsGrouped(q) || kv % q.degrees.tensor == 0 || q.degrees.tensor % kv == 0) {
    return std::nullopt;
  }
  return fmt::format("{} KV heads are neither a multiple nor a divisor of tensor = {}", kv,
                     q.degrees.tensor);
}

Reason KvDivisible(const Question& q) {
  const int64_t kv = q.model.attention.kv_heads;
  if (!IsGrouped(q) || kv % q.degrees.tensor == 0) {
    return std::nullopt;
  }
  return fmt::format("{} KV heads are not divisible by tensor = {}: use a divisor", kv,
                     q.degrees.tensor);
}

Reason KvAtLeast(const Question& q) {
  const int64_t kv = q.model.attention.kv_heads;
  if (!IsGrouped(q) || q.degrees.tensor <= kv) {
    return std::nullopt;
  }
  return fmt::format("tensor = {} is more than the {} KV heads: use at most {}", q.degrees.tensor,
                     kv, kv);
}

Reason LayersPipeline(const Question& q) {
  const ParallelPlan& plan = q.plan;
  const int64_t p = q.degrees.pipeline;
  if (plan.first_layers > 0 || plan.last_layers > 0) {
    const int64_t given = int64_t{plan.first_layers > 0} + int64_t{plan.last_layers > 0};
    const int64_t rest = q.model.layers - plan.first_layers - plan.last_layers;
    if (p > given && rest > 0 && rest % (p - given) == 0) {
      return std::nullopt;
    }
    return fmt::format("{} layers are left for {} stages: change first_layers or last_layers", rest,
                       p - given);
  }
  const int64_t counted = q.model.layers + int64_t{plan.count_embedding} + int64_t{plan.count_loss};
  if (counted % p == 0) {
    return std::nullopt;
  }
  return fmt::format(
      "{} layers (with embedding and loss where they count) are not divisible by "
      "pipeline = {}: use a divisor, or count embedding and loss, or set first_layers",
      counted, p);
}

Reason LayersVirtual(const Question& q) {
  const ParallelPlan& plan = q.plan;
  const int64_t counted = q.model.layers + int64_t{plan.count_embedding} + int64_t{plan.count_loss};
  const int64_t slots = q.degrees.pipeline * plan.virtual_stages;
  if (plan.virtual_stages == 1 || counted % slots == 0) {
    return std::nullopt;
  }
  return fmt::format("{} layers are not divisible by pipeline x virtual stages = {}: use a divisor",
                     counted, slots);
}

Reason VirtualNeedsPipeline(const Question& q) {
  if (q.plan.virtual_stages == 1 || q.degrees.pipeline > 1) {
    return std::nullopt;
  }
  return fmt::format(
      "virtual_stages = {} needs a pipeline: set pipeline above 1 or virtual_stages 1",
      q.plan.virtual_stages);
}

Reason VirtualGroupRange(const Question& q) {
  const int64_t group = q.plan.GroupSize();
  if (q.plan.virtual_stages == 1 ||
      (group >= q.degrees.pipeline && group <= q.plan.MicroBatches())) {
    return std::nullopt;
  }
  return fmt::format("group_size = {} is not from pipeline ({}) to the {} micro-batches", group,
                     q.degrees.pipeline, q.plan.MicroBatches());
}

Reason VirtualGroupRemainder(const Question& q) {
  const int64_t rest = q.plan.MicroBatches() % q.plan.GroupSize();
  if (q.plan.virtual_stages == 1 || rest == 0 || rest >= q.degrees.pipeline) {
    return std::nullopt;
  }
  return fmt::format("{} micro-batches leave {} after groups of {}: below pipeline ({})",
                     q.plan.MicroBatches(), rest, q.plan.GroupSize(), q.degrees.pipeline);
}

Reason StagesMultiple(const Question& q) {
  const bool many = q.plan.schedule == Schedule::kInterleaved ||
                    q.plan.schedule == Schedule::kZeroBubbleV ||
                    q.plan.schedule == Schedule::kDualPipeV;
  if (q.degrees.pipeline == 1 || many == (q.plan.virtual_stages > 1)) {
    return std::nullopt;
  }
  return many ? "this schedule needs at least 2 stages a rank: set virtual_stages"
              : fmt::format("this schedule has one stage a rank: set virtual_stages 1, not {}",
                            q.plan.virtual_stages);
}

Reason SequenceContext(const Question& q) {
  if (q.degrees.context == 1 || q.plan.sequence % (2 * q.degrees.context) == 0) {
    return std::nullopt;
  }
  return fmt::format("sequence {} is not divisible by 2 x context = {}", q.plan.sequence,
                     2 * q.degrees.context);
}

Reason ContextUlysses(const Question& q) {
  const int64_t heads = q.model.attention.heads / q.degrees.tensor;
  if (q.degrees.context == 1 || q.plan.context_exchange != ContextExchange::kAllToAll ||
      heads % q.degrees.context == 0) {
    return std::nullopt;
  }
  return fmt::format(
      "context = {} does not divide the {} heads of a tensor rank: use a divisor or "
      "a ring",
      q.degrees.context, heads);
}

Reason ExpertsExpert(const Question& q) {
  const int64_t experts = q.model.experts.count;
  if (q.degrees.expert == 1 || (experts > 0 && experts % q.degrees.expert == 0)) {
    return std::nullopt;
  }
  return fmt::format("{} experts are not divisible by expert = {}: use a divisor", experts,
                     q.degrees.expert);
}

Reason ExpertMesh(const Question& q) {
  const int64_t shards = q.plan.sharding == Sharding::kNone ? 1 : q.degrees.data / q.plan.replicas;
  const int64_t ranks = shards * q.degrees.context * q.degrees.tensor;
  if (ranks % q.degrees.expert == 0) {
    return std::nullopt;
  }
  return fmt::format("expert = {} does not divide shard x context x tensor = {}", q.degrees.expert,
                     ranks);
}

Reason BatchProduct(const Question& q) {
  const int64_t each = q.plan.micro_batch * q.degrees.data;
  if (q.plan.global_batch % each == 0) {
    return std::nullopt;
  }
  return fmt::format("global batch {} is not divisible by micro-batch x data = {}: change one",
                     q.plan.global_batch, each);
}

Reason SequenceParallelNeedsTensor(const Question& q) {
  if (!q.plan.sequence_parallel || q.degrees.tensor > 1) {
    return std::nullopt;
  }
  return "sequence parallelism needs tensor above 1: it is silently off";
}

Reason ReplicasDivide(const Question& q) {
  const bool over_data =
      q.plan.framework == Framework::kTorchTitan || q.plan.framework == Framework::kAccelerate;
  if (over_data && q.degrees.data % q.plan.replicas != 0) {
    return fmt::format("replicas = {} do not divide data = {}", q.plan.replicas, q.degrees.data);
  }
  if (q.degrees.DenseReplicas() % q.plan.replicas == 0) {
    return std::nullopt;
  }
  return fmt::format("replicas = {} do not divide data x context = {}", q.plan.replicas,
                     q.degrees.DenseReplicas());
}

Reason FsdpTorch(const Question& q) {
  if (q.plan.sharding != Sharding::kFull || (q.degrees.pipeline == 1 && q.degrees.expert == 1)) {
    return std::nullopt;
  }
  return "full sharding excludes pipeline and expert parallelism: set both to 1 or shard less";
}

Reason RecomputeModule(const Question& q) {
  const Recompute& recompute = q.plan.recompute;
  const uint32_t mixture_only = kRecomputeMoe | kRecomputeMoeActivation | kRecomputeSharedExperts;
  if (recompute.mode == RecomputeMode::kOperators) {
    return "recompute by operators is torchtitan's: use none, selective, modules or full";
  }
  if ((recompute.mode == RecomputeMode::kModules) != (recompute.modules != 0)) {
    return "a list of modules and recompute by modules go together: set both or none";
  }
  if (recompute.mode != RecomputeMode::kModules) {
    return std::nullopt;
  }
  if ((recompute.modules & mixture_only) != 0 && q.model.experts.count == 0) {
    return "moe, moe_act and shared_experts need a model with experts: leave them out";
  }
  if ((recompute.modules & kRecomputeLatentUp) != 0 && IsGrouped(q)) {
    return "mla_up_proj needs latent attention: leave it out";
  }
  return std::nullopt;
}

Reason RecomputeSelective(const Question& q) {
  if (q.plan.recompute.layers == 0 || q.plan.recompute.mode == RecomputeMode::kFull) {
    return std::nullopt;
  }
  return "a count of layers goes with full recompute only: set it to 0";
}

Reason ZeroPipeline(const Question& q) {
  if (q.degrees.pipeline == 1 || q.plan.sharding < Sharding::kGradients) {
    return std::nullopt;
  }
  return "ZeRO-2 and ZeRO-3 exclude a pipeline: use ZeRO-1 or pipeline 1";
}

Reason NoPipeline(const Question& q) {
  if (q.degrees.pipeline == 1) {
    return std::nullopt;
  }
  return fmt::format("pipeline = {}: this framework has no pipeline", q.degrees.pipeline);
}

Reason TensorContextReplicate(const Question& q) {
  const bool replicated = q.plan.sharding == Sharding::kNone
                              ? q.degrees.data > 1
                              : q.plan.replicas > 1 && q.plan.replicas >= q.degrees.data;
  if ((q.degrees.tensor == 1 && q.degrees.context == 1) || !replicated) {
    return std::nullopt;
  }
  return "tensor or context with pure replication is refused: shard over some ranks";
}

constexpr ConstraintRule kPlanRules[] = {
    {"world.dense", kOfMegatron | kOfDeepSpeed, WorldDense},
    {"world.exact", kOfTorchTitan | kOfAccelerate, WorldDense},
    {"world.expert", kOfMegatron, WorldExpert},
    {"heads.tp", kOfMegatron | kOfDeepSpeed | kOfTorchTitan | kOfAccelerate, HeadsTensor},
    {"kv.multiple_or_divisor", kOfMegatron, KvMultipleOrDivisor},
    {"kv.divisible", kOfTorchTitan, KvDivisible},
    {"kv.at_least", kOfDeepSpeed, KvAtLeast},
    {"layers.pp", kOfMegatron, LayersPipeline},
    {"layers.vpp", kOfMegatron, LayersVirtual},
    {"vpp.needs_pp", kOfMegatron, VirtualNeedsPipeline},
    {"vpp.group_range", kOfMegatron, VirtualGroupRange},
    {"vpp.group_remainder", kOfMegatron, VirtualGroupRemainder},
    {"stages.multiple", kOfTorchTitan, StagesMultiple},
    {"seq.cp", kOfMegatron, SequenceContext},
    {"cp.ulysses", kOfMegatron | kOfAccelerate, ContextUlysses},
    {"experts.ep", kOfMegatron | kOfTorchTitan, ExpertsExpert},
    {"ep.mesh", kOfTorchTitan, ExpertMesh},
    {"batch.product", kOfMegatron | kOfDeepSpeed, BatchProduct},
    {"tokens.step", kOfTorchTitan | kOfAccelerate, BatchProduct},
    {"sp.needs_tp", kOfMegatron, SequenceParallelNeedsTensor},
    {"shard.replicas", kOfMegatron | kOfDeepSpeed | kOfTorchTitan | kOfAccelerate, ReplicasDivide},
    {"fsdp.torch", kOfMegatron, FsdpTorch},
    {"recompute.module", kOfMegatron, RecomputeModule},
    {"recompute.selective", kOfMegatron, RecomputeSelective},
    {"zero.pipeline", kOfDeepSpeed, ZeroPipeline},
    {"pp.none", kOfAccelerate, NoPipeline},
    {"tp_cp.replicate", kOfAccelerate, TensorContextReplicate},
};

}  // namespace

std::span<const ConstraintRule> PlanRules() {
  return kPlanRules;
}

}  // namespace asterism::planner
