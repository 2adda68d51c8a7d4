// File: planner/parallel_plan.h
//
// How a model is spread over GPUs: degrees, pipeline schedule, sharding of the states, recompute.
// A plan is a value; whether a framework can run it is planner/constraints.h, what it needs is
// planner/memory_model.h.
//
//   ParallelPlan plan;
//   plan.degrees = {.tensor = 8, .pipeline = 8, .context = 2, .data = 4};
//   plan.MicroBatches()                      // global_batch / (micro_batch x data)
//   plan.degrees.Gpus()                      // 512
//
// Degrees are counts of GPUs. Dense layers use tensor x context x pipeline x data GPUs, experts
// pipeline x expert x expert_tensor x their own data degree: both products are the same GPUs
// ("folding", arXiv 2504.14960), so that expert never multiplies the number of GPUs.
//
// Thread-safety: a value. Cost: none.
#pragma once

#include <cstdint>

namespace asterism::planner {

enum class Framework { kMegatron, kDeepSpeed, kTorchTitan, kAccelerate };

struct Degrees {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t context = 1;
  int64_t data = 1;
  int64_t expert = 1;
  int64_t expert_tensor = 1;

  friend bool operator==(const Degrees&, const Degrees&) = default;
  int64_t Gpus() const { return tensor * pipeline * context * data; }
  // Ranks that hold the same dense parameters: optimizer shards of ZeRO are cut over them.
  int64_t DenseReplicas() const { return data * context; }
  // The same for one expert; 0 when the degrees do not divide.
  int64_t ExpertReplicas() const {
    const int64_t group = expert * expert_tensor;
    const int64_t ranks = tensor * context * data;
    return ranks % group == 0 ? ranks / group : 0;
  }
};

enum class Schedule {
  kGPipe,
  kOneForwardOneBackward,
  kInterleaved,
  kZeroBubbleH1,
  kZeroBubble2p,
  kZeroBubbleV,
  kDualPipeV,
};

enum class Sharding {
  kNone,       // every data-parallel rank holds everything
  kOptimizer,  // ZeRO-1, Megatron's distributed optimizer
  kGradients,  // ZeRO-2
  kFull,       // ZeRO-3, FSDP
};

enum class Precision { kBf16, kFp8 };  // of the matrix products

enum class ContextExchange { kRing, kAllGather, kAllToAll };

enum class RecomputeMode {
  kNone,
  kSelective,  // core attention
  kModules,    // a set of Megatron's modules
  kOperators,  // torchtitan's "op": every second matrix product
  kFull,       // whole layers: only their input stays
};

// Bits of Recompute::modules; the names are Megatron's (--recompute-modules).
inline constexpr uint32_t kRecomputeCoreAttention = 1U << 0;
inline constexpr uint32_t kRecomputeLayerNorm = 1U << 1;
inline constexpr uint32_t kRecomputeMlp = 1U << 2;
inline constexpr uint32_t kRecomputeMoe = 1U << 3;
inline constexpr uint32_t kRecomputeMoeActivation = 1U << 4;
inline constexpr uint32_t kRecomputeSharedExperts = 1U << 5;
inline constexpr uint32_t kRecomputeLatentUp = 1U << 6;

struct Recompute {
  RecomputeMode mode = RecomputeMode::kNone;
  uint32_t modules = 0;  // kModules
  int64_t layers = 0;    // kFull: only that many layers of each stage; 0: all

  friend bool operator==(const Recompute&, const Recompute&) = default;
};

struct ParallelPlan {
  Framework framework = Framework::kMegatron;
  Precision precision = Precision::kBf16;
  Degrees degrees;
  bool sequence_parallel = false;  // norms and residuals are split over the tensor ranks
  ContextExchange context_exchange = ContextExchange::kRing;

  Schedule schedule = Schedule::kOneForwardOneBackward;
  int64_t virtual_stages = 1;    // chunks of layers per pipeline rank
  int64_t group_size = 0;        // micro-batches that run through one chunk in a row; 0: pipeline
  bool count_embedding = false;  // the embedding takes the place of one layer in the split
  bool count_loss = false;       // so does the head
  int64_t first_layers = 0;      // layers of the first stage, 0: as the others
  int64_t last_layers = 0;

  Sharding sharding = Sharding::kNone;
  int64_t replicas = 1;      // HSDP: the shards are cut over DenseReplicas() / replicas ranks
  int64_t micro_batch = 1;   // sequences per data-parallel rank
  int64_t global_batch = 1;  // sequences per step
  int64_t sequence = 0;      // tokens, before context parallelism
  Recompute recompute;

  friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
  int64_t MicroBatches() const {
    const int64_t each = micro_batch * degrees.data;
    return each > 0 && global_batch >= each ? global_batch / each : 1;
  }
  int64_t GroupSize() const { return group_size > 0 ? group_size : degrees.pipeline; }
};

}  // namespace asterism::planner
