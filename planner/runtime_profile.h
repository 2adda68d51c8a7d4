// File: planner/runtime_profile.h
//
// What a training framework adds to the arithmetic of a model: number formats of the states, which
// kernels run, which buffers it keeps. The memory model has no other constants; all of them stand
// in one versioned table, each with where it comes from (runtime_profile.cc).
//
//   const RuntimeProfile& megatron = ProfileOf(Runtime::kMegatron);
//
// Bytes are per parameter or per logit; fractions are of allocated bytes. low/high of the intervals
// are the 5th and the 95th percentile.
//
// Thread-safety: immutable. Cost: none.
#pragma once

#include <cstdint>
#include <string_view>

namespace asterism::planner {

inline constexpr std::string_view kRuntimeTablesVersion = "2026-12-01";

enum class Runtime {
  kMegatron,       // Megatron-LM core and Bridge with Transformer Engine, bf16, fp32 gradients
  kMegatron2022,   // the same before flash attention, fp16 with dropout (2205.05198)
  kDeepSpeedFp16,  // Megatron-DeepSpeed, fp16
  kDeepSpeedBf16,  // Megatron-DeepSpeed, bf16 with fp32 accumulation
  kTorchTitan,     // FSDP2 with fp32 master weights
  kLlmFoundry,     // FSDP1 with fp32 master weights and a fused loss
  kKempnerForge,   // FSDP2 with bf16 states
};

// Of one parameter.
struct StateFormat {
  double weight_bytes = 2;
  double gradient_bytes = 4;
  double gradient_copy_bytes =
      0;  // fp32 copy of 16-bit gradients at the step; cut as the optimizer
  double master_bytes = 4;
  double moment_bytes = 8;
};

struct Span {
  double low = 0;
  double value = 0;
  double high = 0;
};

struct RuntimeProfile {
  std::string_view name;
  StateFormat states;
  // FSDP: unsharded copies per parameter, alive at the peak.
  double gathered_weight_bytes = 0;
  double unsharded_gradient_bytes = 0;  // once gradients add up over micro-batches or experts
  double pipeline_gradient_bytes = 0;   // more of them when there is a pipeline

  bool flash_attention = true;
  bool dropout = false;
  bool embedding_over_tensor = true;  // the embedding is divided by the tensor degree
  bool logits_over_tensor = true;
  bool gradient_buffers = false;  // Transformer Engine's dummy weight gradients
  double loss_bytes_per_logit = 4;
  double tensor_loss_bytes_per_logit = 0;  // the same with a tensor degree; 0: no difference
  double logit_gradient_bytes = 2;         // alive in the first backward of an MLP
  double loss_traffic_bytes = 14;          // read and written for a logit, both directions
  int64_t gathered_head_tensors = 0;       // h-wide copies of all tensor ranks' tokens at the loss
  int64_t stage_buffer_tensors = 0;        // h-wide tensors a pipeline engine keeps per micro-batch
  double expert_retained_widths = 0;  // h-wide bytes a token and MoE layer under full recompute

  // Gradients of a pipeline are exchanged while the backward runs; else after it, and all of it is
  // waited for.
  bool pipeline_overlaps_gradients = true;
  // A stage stands still while it sends to and receives from both of its neighbours.
  bool waits_for_transfers = false;

  double allocated_error = 0.03;  // half of the interval of the tensor sum
  Span fragmentation;             // reserved = allocated x (1 + it)
  Span context_gigabytes;         // CUDA context, NCCL, buckets
};

const RuntimeProfile& ProfileOf(Runtime runtime);

}  // namespace asterism::planner
