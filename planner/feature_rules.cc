#include "fmt/format.h"
#include "planner/constraint_rule.h"
#include "planner/constraints.h"

namespace asterism::planner {
namespace {

// Rules on what a framework has at all. A plan that they let pass can be written down in the
// framework's own words, and read back.

ConstraintReason ScheduleKnown(const ConstraintQuestion& q) {
  const Schedule schedule = q.plan.schedule;
  switch (q.plan.framework) {
    case Framework::kMegatron:
      if (schedule ==
          (q.plan.virtual_stages > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward)) {
        return std::nullopt;
      }
      return "Megatron-LM runs 1F1B, and the interleaved schedule with virtual stages: use these";
    case Framework::kTorchTitan:
      if (schedule == Schedule::kZeroBubbleH1 || schedule == Schedule::kZeroBubble2p) {
        return "torchtitan has no such zero-bubble schedule: use 1F1B, Interleaved1F1B or "
               "ZBVZeroBubble";
      }
      return q.degrees.pipeline == 1 && schedule != Schedule::kOneForwardOneBackward
                 ? ConstraintReason("a schedule needs a pipeline: use 1F1B or pipeline above 1")
                 : std::nullopt;
    case Framework::kDeepSpeed:
    case Framework::kAccelerate:
      if (schedule == Schedule::kOneForwardOneBackward) {
        return std::nullopt;
      }
      return fmt::format("{} has one schedule, 1F1B: use it", FrameworkName(q.plan.framework));
  }
  return std::nullopt;
}

ConstraintReason VirtualKnown(const ConstraintQuestion& q) {
  if (q.plan.virtual_stages == 1) {
    return std::nullopt;
  }
  return fmt::format("{} has no virtual stages: set virtual_stages 1",
                     FrameworkName(q.plan.framework));
}

ConstraintReason GroupKnown(const ConstraintQuestion& q) {
  if (q.plan.group_size == 0) {
    return std::nullopt;
  }
  return fmt::format("{} has no size of micro-batch groups: leave group_size out",
                     FrameworkName(q.plan.framework));
}

ConstraintReason GivenLayers(const ConstraintQuestion& q) {
  if (q.plan.first_layers == 0 && q.plan.last_layers == 0) {
    return std::nullopt;
  }
  return fmt::format("{} takes no count of layers of the first or last stage: leave them out",
                     FrameworkName(q.plan.framework));
}

ConstraintReason CountedEnds(const ConstraintQuestion& q) {
  if (!q.plan.count_embedding && !q.plan.count_loss) {
    return std::nullopt;
  }
  return fmt::format("{} does not count embedding and loss in its split: leave that out",
                     FrameworkName(q.plan.framework));
}

// torchtitan is told layers a stage, and takes as many stages as that gives.
ConstraintReason LayersStage(const ConstraintQuestion& q) {
  const ParallelPlan& plan = q.plan;
  const int64_t slots = q.degrees.pipeline * plan.virtual_stages;
  const int64_t counted = q.model.layers + int64_t{plan.count_embedding} + int64_t{plan.count_loss};
  const int64_t each = (counted + slots - 1) / slots;
  if (q.degrees.pipeline == 1 || (counted + each - 1) / each == slots) {
    return std::nullopt;
  }
  return fmt::format(
      "{} layers cannot be cut into {} stages of equal size: use fewer stages or a divisor",
      counted, slots);
}

ConstraintReason ContextKind(const ConstraintQuestion& q) {
  const ContextExchange exchange = q.plan.context_exchange;
  if (q.plan.framework == Framework::kMegatron ||
      (q.degrees.context == 1 && exchange == ContextExchange::kRing)) {
    return std::nullopt;
  }
  if (q.degrees.context == 1) {
    return "a kind of context exchange needs context above 1: leave it out";
  }
  switch (q.plan.framework) {
    case Framework::kMegatron:
      return std::nullopt;
    case Framework::kDeepSpeed:
      if (exchange == ContextExchange::kAllToAll) {
        return std::nullopt;
      }
      return "DeepSpeed's sequence parallelism exchanges all to all (Ulysses): use that";
    case Framework::kTorchTitan:
    case Framework::kAccelerate:
      if (exchange != ContextExchange::kAllToAll) {
        return std::nullopt;
      }
      return "context parallelism of torch rotates or gathers keys and values: use a ring or "
             "all-gather";
  }
  return std::nullopt;
}

ConstraintReason ShardKnown(const ConstraintQuestion& q) {
  if (q.plan.sharding != Sharding::kOptimizer) {
    return std::nullopt;
  }
  return "FSDP shards gradients with the optimizer: use gradients, full or none";
}

ConstraintReason ReplicasKnown(const ConstraintQuestion& q) {
  const Sharding sharding = q.plan.sharding;
  if (q.plan.replicas == 1) {
    return std::nullopt;
  }
  switch (q.plan.framework) {
    case Framework::kMegatron:
      return sharding == Sharding::kOptimizer || sharding == Sharding::kGradients
                 ? std::nullopt
                 : ConstraintReason(
                       "several optimizer instances need a distributed optimizer: shard the "
                       "optimizer or set replicas 1");
    case Framework::kDeepSpeed:
      return sharding == Sharding::kFull
                 ? std::nullopt
                 : ConstraintReason("mics_shard_size needs ZeRO-3: shard fully or set replicas 1");
    case Framework::kTorchTitan:
    case Framework::kAccelerate:
      return sharding != Sharding::kNone
                 ? std::nullopt
                 : ConstraintReason("without sharding every rank is a replica: set replicas 1");
  }
  return std::nullopt;
}

ConstraintReason ExpertsKnown(const ConstraintQuestion& q) {
  if (q.plan.framework == Framework::kTorchTitan) {
    return q.degrees.expert_tensor == 1
               ? std::nullopt
               : ConstraintReason(
                     "torchtitan has no tensor parallelism inside an expert: set expert_tensor 1");
  }
  if (q.degrees.expert == 1 && q.degrees.expert_tensor == 1) {
    return std::nullopt;
  }
  return fmt::format("expert parallelism is no setting of {}: the model's code decides; set 1",
                     FrameworkName(q.plan.framework));
}

ConstraintReason SequenceParallelKnown(const ConstraintQuestion& q) {
  if (!q.plan.sequence_parallel) {
    return std::nullopt;
  }
  return fmt::format("{} does not split norms over tensor ranks: set sequence_parallel false",
                     FrameworkName(q.plan.framework));
}

ConstraintReason RecomputeKnown(const ConstraintQuestion& q) {
  const Recompute& recompute = q.plan.recompute;
  const bool named = recompute.mode == RecomputeMode::kSelective ||
                     recompute.mode == RecomputeMode::kModules || recompute.modules != 0;
  const bool operators = recompute.mode == RecomputeMode::kOperators;
  if (named || (operators && q.plan.framework != Framework::kTorchTitan)) {
    return fmt::format(
        "{} recomputes whole layers or nothing{}: use full or none",
        FrameworkName(q.plan.framework),
        q.plan.framework == Framework::kTorchTitan ? ", or every second operator" : "");
  }
  if (recompute.layers != 0) {
    return fmt::format("{} takes no count of layers to recompute: set it to 0",
                       FrameworkName(q.plan.framework));
  }
  if (q.plan.framework == Framework::kAccelerate && recompute.mode == RecomputeMode::kFull &&
      q.plan.sharding == Sharding::kNone) {
    return "activation checkpointing of Accelerate is a part of FSDP: shard, or recompute nothing";
  }
  return std::nullopt;
}

ConstraintReason ZeroTensor(const ConstraintQuestion& q) {
  if (q.degrees.tensor == 1 || q.plan.sharding != Sharding::kFull) {
    return std::nullopt;
  }
  return "AutoTP excludes ZeRO-3: use ZeRO-2 or tensor 1";
}

ConstraintReason Fp8Known(const ConstraintQuestion& q) {
  if (q.plan.precision == Precision::kBf16) {
    return std::nullopt;
  }
  return "DeepSpeed has no FP8 training: use BF16";
}

constexpr uint32_t kOfOthers = kOfDeepSpeed | kOfTorchTitan | kOfAccelerate;

constexpr ConstraintRule kFeatureRules[] = {
    {"schedule.known", kOfMegatron | kOfOthers, ScheduleKnown},
    {"vpp.known", kOfDeepSpeed | kOfAccelerate, VirtualKnown},
    {"vpp.group_known", kOfOthers, GroupKnown},
    {"layers.given", kOfOthers, GivenLayers},
    {"layers.counted_ends", kOfDeepSpeed | kOfAccelerate, CountedEnds},
    {"layers.stage", kOfTorchTitan, LayersStage},
    {"cp.kind", kOfMegatron | kOfOthers, ContextKind},
    {"shard.known", kOfTorchTitan | kOfAccelerate, ShardKnown},
    {"shard.replicas_known", kOfMegatron | kOfOthers, ReplicasKnown},
    {"ep.known", kOfOthers, ExpertsKnown},
    {"sp.known", kOfDeepSpeed | kOfAccelerate, SequenceParallelKnown},
    {"recompute.known", kOfOthers, RecomputeKnown},
    {"zero.autotp", kOfDeepSpeed, ZeroTensor},
    {"fp8.known", kOfDeepSpeed, Fp8Known},
};

}  // namespace

std::span<const ConstraintRule> FeatureRules() {
  return kFeatureRules;
}

}  // namespace asterism::planner
