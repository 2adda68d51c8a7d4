// File: planner/memory_model.h
//
// The peak of a GPU's tensors: states, activations of the micro-batches in flight, and what is
// alive for a moment only, for each pipeline rank and by named terms. It does not know the
// allocator: that is planner/device_memory.h.
//
//   MemoryEstimate memory = EstimateMemory(model, plan, ProfileOf(Runtime::kMegatron));
//   memory.stages[memory.peak_stage].Allocated()        // bytes
//
// Per rank (reference section 3.7): weights, gradients and optimizer by sharding, D = data x
// context for dense parameters, the expert replicas for experts; activations of the layers times
// the micro-batches in flight; Transformer Engine's dummy weight gradients; and the larger of two
// moments: the loss, or the first backward of an MLP with the gradient of the logits still alive
// (under full recompute with the activations of the layer that is made again).
//
// Preconditions: CheckModel and CheckDegrees passed. Thread-safety: pure.
// Cost: O(layers + pipeline), about 1 us.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/model_spec.h"
#include "planner/parallel_plan.h"
#include "planner/runtime_profile.h"

namespace asterism::planner {

// All in bytes.
struct StageMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double gathered_weights = 0;  // FSDP
  double activations = 0;
  double stage_buffers = 0;           // of the pipeline engine
  double layer_gradient_buffers = 0;  // Transformer Engine's dummies of one layer
  double head_gradient_buffer = 0;
  double loss_moment = 0;
  double backward_moment = 0;

  double parameters = 0;  // on this GPU

  double States() const { return weights + gradients + optimizer + gathered_weights; }
  double Moment() const { return loss_moment > backward_moment ? loss_moment : backward_moment; }
  double Allocated() const {
    return States() + activations + stage_buffers + layer_gradient_buffers + head_gradient_buffer +
           Moment();
  }
  // In the order of the fields; both moments are listed, of which only the larger counts.
  std::array<std::pair<std::string_view, double>, 10> Terms() const;
};

struct MemoryEstimate {
  std::vector<StageMemory> stages;
  size_t peak_stage = 0;  // the first of the largest
  double allocated() const { return stages[peak_stage].Allocated(); }
};

MemoryEstimate EstimateMemory(const ModelSpec& model, const ParallelPlan& plan,
                              const RuntimeProfile& profile);

// Bytes of the states per parameter that is sharded over `ranks`.
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double total() const { return weights + gradients + optimizer; }
};
StateBytes StateBytesPerParameter(const StateFormat& format, Sharding sharding, double ranks);

}  // namespace asterism::planner
