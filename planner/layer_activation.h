// File: planner/layer_activation.h
//
// Bytes of activations that one layer keeps for its backward, per GPU and micro-batch, term by
// term, and what recompute removes.
//
//   LayerActivation layer = ActivationOfLayer(model, plan, profile, LayerKind::kDense);
//   layer.Kept(plan.recompute)
//
// u = tokens of the micro-batch on a rank after context and tensor (sequence) parallelism. 16-bit
// values are 2 bytes. Sources: 2205.05198 equations 1 to 6 (classic: 34 + 5 a s/h); with flash
// attention u h (12 + 4 g/a) + 6 u f; latent attention and experts as reference section 3.3
// derives them. Without sequence parallelism what is not divided by the tensor degree is
// the share of norms and residuals.
// Experts: balanced routing; `imbalance` multiplies the routed tokens.
//
// Preconditions: a model and a plan that were checked. Thread-safety: pure. Cost: tens of ns.
#pragma once

#include "planner/model_spec.h"
#include "planner/parallel_plan.h"
#include "planner/runtime_profile.h"

namespace asterism::planner {

enum class LayerKind { kDense, kExpert };

// All in bytes.
struct LayerActivation {
  double norm_inputs = 0;
  double linear_inputs = 0;  // of the QKV projection and of the first MLP matrix
  double latents = 0;        // MLA, twice each
  double queries_keys_values = 0;
  double attention_output = 0;
  double scores = 0;         // without flash attention: softmax, its dropout, masks
  double dropout_masks = 0;  // of the residual branch
  double mlp = 0;
  double routed_tokens = 0;  // the permuted copy
  double routed_mlp = 0;
  double routed_activation = 0;  // part of routed_mlp that moe_act recomputes
  double shared_mlp = 0;
  double router = 0;
  double layer_input = 0;       // all that full recompute leaves
  double operator_outputs = 0;  // what RecomputeMode::kOperators leaves

  double Whole() const;
  double Kept(const Recompute& recompute) const;
};

LayerActivation ActivationOfLayer(const ModelSpec& model, const ParallelPlan& plan,
                                  const RuntimeProfile& profile, LayerKind kind,
                                  double imbalance = 1.0);

// Tokens of one micro-batch on a rank: of what tensor ranks divide, and of norms and residuals.
double TensorTokens(const ParallelPlan& plan);
double ResidualTokens(const ParallelPlan& plan);

// 6 u f (SwiGLU) or 4 u f: temporaries in the backward of one MLP.
double MlpBackwardBytes(const ModelSpec& model, const ParallelPlan& plan, LayerKind kind);

}  // namespace asterism::planner
