#include "planner/memory_model.h"

#include <algorithm>

#include "planner/layer_activation.h"
#include "planner/schedule.h"
#include "planner/stage_layout.h"

namespace asterism::planner {
namespace {

// Parameters of a rank by the group that its states are cut over.
struct LocalParameters {
  double dense = 0;
  double expert = 0;
};

void AddBlock(const BlockParameters& block, int64_t count, const Degrees& degrees,
              LocalParameters& local) {
  const auto times = static_cast<double>(count);
  local.dense += times * (static_cast<double>(block.tensor) / static_cast<double>(degrees.tensor) +
                          static_cast<double>(block.replicated));
  local.expert += times * static_cast<double>(block.expert) /
                  static_cast<double>(degrees.expert * degrees.expert_tensor);
}

LocalParameters ParametersOfStage(const ModelSpec& model, const ParallelPlan& plan,
                                  const RuntimeProfile& profile, const StageBlocks& stage) {
  const Degrees& degrees = plan.degrees;
  LocalParameters local;
  AddBlock(DenseLayerParameters(model), stage.dense_layers, degrees, local);
  AddBlock(ExpertLayerParameters(model), stage.expert_layers, degrees, local);
  AddBlock(PredictionParameters(model), stage.prediction_depths, degrees, local);
  const auto tensor = static_cast<double>(degrees.tensor);
  const double words = static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
  if (stage.embedding) {
    local.dense += static_cast<double>(EmbeddingParameters(model)) /
                   (profile.embedding_over_tensor ? tensor : 1);
  }
  if (stage.head) {
    AddBlock(FinalNormParameters(model), 1, degrees, local);
    // Tied, but on another rank: a second copy.
    if (!model.tied_embeddings || !stage.embedding) {
      const bool whole = !profile.logits_over_tensor && degrees.pipeline > 1;
      local.dense += words / (whole ? 1 : tensor);
    }
  }
  return local;
}

void AddStates(const ModelSpec& model, const ParallelPlan& plan, const RuntimeProfile& profile,
               const StageBlocks& blocks, StageMemory& memory) {
  const LocalParameters local = ParametersOfStage(model, plan, profile, blocks);
  const Degrees& degrees = plan.degrees;
  const auto copies = static_cast<double>(WeightCopies(plan.schedule));
  const auto replicas = static_cast<double>(std::max<int64_t>(1, plan.replicas));
  const double dense_ranks = static_cast<double>(degrees.DenseReplicas()) / replicas;
  const double expert_ranks =
      static_cast<double>(std::max<int64_t>(1, degrees.ExpertReplicas())) / replicas;
  const StateBytes dense = StateBytesPerParameter(profile.states, plan.sharding, dense_ranks);
  const StateBytes expert =
      StateBytesPerParameter(profile.states, plan.sharding, std::max(1.0, expert_ranks));
  memory.parameters = local.dense + local.expert;
  memory.weights = copies * (local.dense * dense.weights + local.expert * expert.weights);
  memory.gradients = local.dense * dense.gradients + local.expert * expert.gradients;
  memory.optimizer = local.dense * dense.optimizer + local.expert * expert.optimizer;
  memory.gathered_weights = profile.gathered_weight_bytes * memory.parameters;
  if (plan.MicroBatches() > 1 || degrees.expert > 1) {
    memory.gradients += profile.unsharded_gradient_bytes * memory.parameters;
  }
  if (degrees.pipeline > 1) {
    memory.gradients += profile.pipeline_gradient_bytes * memory.parameters;
  }
}

// Of one micro-batch through the layers of a rank.
double KeptByLayers(const ParallelPlan& plan, const StageBlocks& blocks,
                    const LayerActivation& dense, const LayerActivation& expert) {
  const auto dense_layers = static_cast<double>(blocks.dense_layers);
  const auto expert_layers = static_cast<double>(blocks.expert_layers);
  const double kept =
      dense_layers * dense.Kept(plan.recompute) + expert_layers * expert.Kept(plan.recompute);
  const int64_t layers = blocks.layers();
  if (plan.recompute.mode != RecomputeMode::kFull || plan.recompute.layers == 0 ||
      plan.recompute.layers >= layers) {
    return kept;
  }
  const double whole = dense_layers * dense.Whole() + expert_layers * expert.Whole();
  const double share = static_cast<double>(plan.recompute.layers) / static_cast<double>(layers);
  return share * kept + (1 - share) * whole;
}

// 2 bytes for each weight of one layer without its experts.
double LayerGradientBuffers(const ModelSpec& model, const ParallelPlan& plan,
                            const StageBlocks& blocks) {
  BlockParameters weights = AttentionParameters(model);
  const BlockParameters mlp =
      blocks.expert_layers > 0 ? ExpertMlpParameters(model) : DenseMlpParameters(model);
  weights.tensor += mlp.tensor;
  return 2 * (static_cast<double>(weights.tensor) / static_cast<double>(plan.degrees.tensor) +
              static_cast<double>(weights.replicated));
}

void AddMoments(const ModelSpec& model, const ParallelPlan& plan, const RuntimeProfile& profile,
                const StageBlocks& blocks, const LayerActivation& dense,
                const LayerActivation& expert, StageMemory& memory) {
  const auto vocabulary = static_cast<double>(model.vocabulary);
  const double tokens = TensorTokens(plan) *
                        (profile.logits_over_tensor ? 1 : static_cast<double>(plan.degrees.tensor));
  const double logits = blocks.head ? tokens * vocabulary : 0;
  const bool parallel_loss = plan.degrees.tensor > 1 && profile.tensor_loss_bytes_per_logit > 0;
  memory.loss_moment =
      logits * (parallel_loss ? profile.tensor_loss_bytes_per_logit : profile.loss_bytes_per_logit);
  if (blocks.head && plan.sequence_parallel) {
    memory.loss_moment += 2 * static_cast<double>(profile.gathered_head_tensors) *
                          TensorTokens(plan) * static_cast<double>(plan.degrees.tensor) *
                          static_cast<double>(model.hidden);
  }
  double backward = 0;
  double again = 0;
  if (blocks.dense_layers > 0) {
    backward = MlpBackwardBytes(model, plan, LayerKind::kDense);
    again = dense.Whole() - dense.Kept(plan.recompute);
  }
  if (blocks.expert_layers > 0) {
    backward = std::max(backward, MlpBackwardBytes(model, plan, LayerKind::kExpert));
    again = std::max(again, expert.Whole() - expert.Kept(plan.recompute));
  }
  if (plan.recompute.mode != RecomputeMode::kFull) {
    again = plan.recompute.mode == RecomputeMode::kNone ? 0 : again;
  }
  memory.backward_moment = profile.logit_gradient_bytes * logits + backward + std::max(0.0, again);
}

}  // namespace

std::array<std::pair<std::string_view, double>, 10> StageMemory::Terms() const {
  return {{{"weights", weights},
           {"gradients", gradients},
           {"optimizer", optimizer},
           {"gathered weights", gathered_weights},
           {"activations", activations},
           {"stage buffers", stage_buffers},
           {"layer gradient buffers", layer_gradient_buffers},
           {"head gradient buffer", head_gradient_buffer},
           {"loss moment", loss_moment},
           {"backward moment", backward_moment}}};
}

StateBytes StateBytesPerParameter(const StateFormat& format, Sharding sharding, double ranks) {
  const double optimizer = format.gradient_copy_bytes + format.master_bytes + format.moment_bytes;
  const auto cut = [&](Sharding from, double bytes) {
    return sharding >= from ? bytes / ranks : bytes;
  };
  return {.weights = cut(Sharding::kFull, format.weight_bytes),
          .gradients = cut(Sharding::kGradients, format.gradient_bytes),
          .optimizer = cut(Sharding::kOptimizer, optimizer)};
}

MemoryEstimate EstimateMemory(const ModelSpec& model, const ParallelPlan& plan,
                              const RuntimeProfile& profile) {
  const LayerActivation dense = ActivationOfLayer(model, plan, profile, LayerKind::kDense);
  const LayerActivation expert = ActivationOfLayer(model, plan, profile, LayerKind::kExpert);
  const auto tensor = static_cast<double>(plan.degrees.tensor);
  MemoryEstimate estimate;
  int64_t index = 0;
  for (const StageBlocks& blocks : LayOutStages(model, plan)) {
    StageMemory memory;
    AddStates(model, plan, profile, blocks, memory);
    const double in_flight = InFlight(plan, index++);
    memory.activations = in_flight * KeptByLayers(plan, blocks, dense, expert);
    if (plan.degrees.pipeline > 1) {
      memory.stage_buffers =
          in_flight * static_cast<double>(profile.stage_buffer_tensors) * dense.layer_input;
    }
    if (profile.gradient_buffers) {
      memory.layer_gradient_buffers = LayerGradientBuffers(model, plan, blocks);
      memory.head_gradient_buffer = blocks.head ? 2 * static_cast<double>(model.vocabulary) *
                                                      static_cast<double>(model.hidden) / tensor
                                                : 0;
    }
    AddMoments(model, plan, profile, blocks, dense, expert, memory);
    estimate.stages.push_back(memory);
    if (memory.Allocated() > estimate.allocated()) {
      estimate.peak_stage = estimate.stages.size() - 1;
    }
  }
  return estimate;
}

}  // namespace asterism::planner
