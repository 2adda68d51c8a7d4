// File: planner/launch_plan.h
//
// A plan with the switches of its framework: all that a launch file says. Where a switch exists
// under several names (overlap of gradients: --overlap-grad-reduce, overlap_comm), it is one field
// here; which framework has it is planner/launch_rules.h.
//
//   LaunchPlan launch{.plan = plan, .switches = TuneLaunch(...).switches};
//   CheckLaunch(model, launch, environment, gpus)       // planner/constraints.h
//   EmitMegatron(launch)                                // planner/emit_megatron.h
//
// Thread-safety: values. Cost: none.
#pragma once

#include <cstdint>

#include "planner/parallel_plan.h"

namespace asterism::planner {

enum class Fp8Recipe { kNone, kDelayed, kTensorwise, kBlockwise, kMxfp8 };
enum class CudaGraphs {
  kNone,
  kLocal,              // Megatron's own, a layer or an iteration at a time
  kTransformerEngine,  // of Transformer Engine's layers
};
enum class ExpertDispatch { kAllGather, kAllToAll, kFlex };
enum class CheckpointFormat { kDefault, kTorchDist, kFsdpDtensor };

struct LaunchSwitches {
  bool overlap_gradients = false;
  bool overlap_parameters = false;
  bool overlap_tensor = false;         // exchange of tensor ranks with products
  bool overlap_pipeline_fill = false;  // transfers between stages also in fill and drain
  bool blocking_pipeline = false;      // no overlap of transfers at all
  bool overlap_experts = false;        // all-to-all of one micro-batch with another's products
  bool delay_weight_gradients = false;
  bool overlap_shared_experts = false;
  bool grouped_gemm = false;
  ExpertDispatch expert_dispatch = ExpertDispatch::kAllGather;
  CudaGraphs cuda_graphs = CudaGraphs::kNone;
  Fp8Recipe fp8 = Fp8Recipe::kNone;
  bool fp8_parameters = false;     // gathered in FP8
  bool narrow_gradients = false;   // reduced in bf16
  bool quantized_weights = false;  // gathered in INT8 (ZeRO++)
  bool quantized_gradients = false;
  bool precise_optimizer = false;  // Megatron's precision-aware optimizer
  int64_t optimizer_offload_percent = 0;
  bool parameter_offload = false;
  bool activation_offload = false;
  bool megatron_fsdp = false;         // full sharding by Megatron's FSDP, else by torch's
  bool compile = false;               // torch.compile
  bool pipeline_before_data = false;  // rank order tp-cp-ep-pp-dp
  CheckpointFormat checkpoint = CheckpointFormat::kDefault;

  friend bool operator==(const LaunchSwitches&, const LaunchSwitches&) = default;
};

struct LaunchPlan {
  ParallelPlan plan;
  LaunchSwitches switches;

  friend bool operator==(const LaunchPlan&, const LaunchPlan&) = default;
};

// What the processes find around them, as far as a framework checks it.
struct LaunchEnvironment {
  int64_t device_connections = 0;    // CUDA_DEVICE_MAX_CONNECTIONS; 0: not set
  bool expandable_segments = false;  // of the CUDA allocator
  int64_t cuda_major = 9;            // compute capability of the GPU
};

}  // namespace asterism::planner
