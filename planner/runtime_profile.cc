#include "planner/runtime_profile.h"

namespace asterism::planner {
namespace {

// Version kRuntimeTablesVersion. "derived" needs no measurement; "fitted on" names rows of
// measured.csv (groups that planner-accuracy prints as calibration).

// Derived: section 3.7 of the reference; the peaks of simumax need no constant. Fragmentation: its
// upper end is the loss that ended Llama-70B SFT at 58.8 GiB of 80 GB (skill-70b-a).
constexpr RuntimeProfile kMegatronProfile = {
    .name = "Megatron-LM, Transformer Engine",
    .gradient_buffers = true,
    .loss_bytes_per_logit = 4,
    .fragmentation = {0.0, 0.06, 0.20},
    .context_gigabytes = {1.0, 2.5, 5.0},
};

// Derived: 2205.05198, table 2 and section 4; fp32 logits and their norm are 4 s b h/t (1 + V/h).
// The loss is a chain of kernels (core/tensor_parallel/cross_entropy.py): to fp32 6 bytes a logit,
// maximum 4, difference 8, exponential 8, sum 4, quotient 8; backward product 8, to 16 bits 6.
constexpr RuntimeProfile kMegatron2022Profile = {
    .name = "Megatron-LM 2022",
    .flash_attention = false,
    .dropout = true,
    .loss_bytes_per_logit = 4,
    .logit_gradient_bytes = 0,
    .loss_traffic_bytes = 52,
    .fragmentation = {0.0, 0.06, 0.15},
    .context_gigabytes = {1.0, 2.5, 5.0},
};

// Derived: fp16 weights and gradients, fp32 copy of the gradients at the step: 4 + 16/D; logits
// fp16, fp32 and gradient: 10; the pipeline engine keeps the output of a stage beside its inputs,
// sends and receives on the stream that computes, and reduces gradients after the last backward
// (DeepSpeed 0050fdad, runtime/pipe/engine.py: enable_backward_allreduce is off).
// Fragmentation and context fitted on bloom, L80 h14400 and L80 h13824 on 320 GPUs (5 rows).
constexpr RuntimeProfile kDeepSpeedFp16Profile = {
    .name = "Megatron-DeepSpeed, fp16",
    .states = {.weight_bytes = 2, .gradient_bytes = 2, .gradient_copy_bytes = 4},
    .flash_attention = false,
    .dropout = false,
    .loss_bytes_per_logit = 10,
    .logit_gradient_bytes = 0,
    .loss_traffic_bytes = 52,
    .stage_buffer_tensors = 1,
    .pipeline_overlaps_gradients = false,
    .waits_for_transfers = true,
    .allocated_error = 0.05,
    .fragmentation = {0.03, 0.07, 0.12},
    .context_gigabytes = {2.5, 4.25, 6.0},
};

// Derived: as above, and the bf16 optimizer keeps whole fp32 gradients beside the bf16 ones.
constexpr RuntimeProfile kDeepSpeedBf16Profile = {
    .name = "Megatron-DeepSpeed, bf16 with fp32 accumulation",
    .states = {.weight_bytes = 2, .gradient_bytes = 6},
    .flash_attention = false,
    .dropout = false,
    .loss_bytes_per_logit = 10,
    .logit_gradient_bytes = 0,
    .loss_traffic_bytes = 52,
    .stage_buffer_tensors = 1,
    .pipeline_overlaps_gradients = false,
    .waits_for_transfers = true,
    .allocated_error = 0.05,
    .fragmentation = {0.03, 0.07, 0.12},
    .context_gigabytes = {2.5, 4.25, 6.0},
};

// Derived: fp32 weights, gradients and moments, all sharded; logits bf16 and three fp32 copies:
// 14, and with loss parallelism four: 18 (torch/distributed/tensor/parallel/loss.py); with a tensor
// degree the head's input and its gradient are gathered. Fragmentation fitted on
// titan, 8B on 8 GPUs (3 rows).
constexpr RuntimeProfile kTorchTitanProfile = {
    .name = "torchtitan, FSDP2",
    .states = {.weight_bytes = 4, .gradient_bytes = 4, .master_bytes = 0, .moment_bytes = 8},
    .loss_bytes_per_logit = 14,
    .tensor_loss_bytes_per_logit = 18,
    .logit_gradient_bytes = 0,
    .gathered_head_tensors = 2,
    .allocated_error = 0.10,
    .fragmentation = {0.02, 0.07, 0.12},
    .context_gigabytes = {1.0, 2.0, 4.0},
};

// Derived as torchtitan's, with the loss fused in place as Megatron's; fragmentation assumed alike.
constexpr RuntimeProfile kLlmFoundryProfile = {
    .name = "llm-foundry, FSDP1",
    .states = {.weight_bytes = 4, .gradient_bytes = 4, .master_bytes = 0, .moment_bytes = 8},
    .loss_bytes_per_logit = 4,
    .allocated_error = 0.10,
    .fragmentation = {0.02, 0.07, 0.12},
    .context_gigabytes = {1.0, 2.0, 4.0},
};

// Its source says: bf16 states, whole logits on each tensor rank, replicated embedding, fp32
// reduction. Four bf16 copies of the logits and the unsharded bytes fitted on kempner 7B without
// pipeline (rows 4, 5, 6, 7), those of a pipeline on 70B with four stages, those of expert
// parallelism and the retained widths on its MoE of 64 and of 8 experts.
constexpr RuntimeProfile kKempnerForgeProfile = {
    .name = "KempnerForge, FSDP2",
    .states = {.weight_bytes = 2, .gradient_bytes = 0, .master_bytes = 0, .moment_bytes = 4},
    .gathered_weight_bytes = 2,
    .unsharded_gradient_bytes = 2,
    .pipeline_gradient_bytes = 2,
    .embedding_over_tensor = false,
    .logits_over_tensor = false,
    .loss_bytes_per_logit = 8,
    .logit_gradient_bytes = 0,
    .gathered_head_tensors = 2,
    .expert_retained_widths = 12.5,
    .allocated_error = 0.10,
    .fragmentation = {0.0, 0.04, 0.10},
    .context_gigabytes = {1.0, 2.0, 4.0},
};

}  // namespace

const RuntimeProfile& ProfileOf(Runtime runtime) {
  switch (runtime) {
    case Runtime::kMegatron:
      return kMegatronProfile;
    case Runtime::kMegatron2022:
      return kMegatron2022Profile;
    case Runtime::kDeepSpeedFp16:
      return kDeepSpeedFp16Profile;
    case Runtime::kDeepSpeedBf16:
      return kDeepSpeedBf16Profile;
    case Runtime::kTorchTitan:
      return kTorchTitanProfile;
    case Runtime::kLlmFoundry:
      return kLlmFoundryProfile;
    case Runtime::kKempnerForge:
      return kKempnerForgeProfile;
  }
  return kMegatronProfile;
}

}  // namespace asterism::planner
