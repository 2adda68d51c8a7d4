#include "planner/layer_activation.h"

namespace asterism::planner {
namespace {

double AsDouble(int64_t value) {
  return static_cast<double>(value);
}

// Kept bytes per token and width of an MLP: both outputs of the first matrices and the input of
// the last (SwiGLU), or one output and one input (GELU).
double MlpBytesPerWidth(const ModelSpec& model) {
  return model.mlp == MlpKind::kSwiGlu ? 6 : 4;
}

void AddAttention(const ModelSpec& model, const ParallelPlan& plan, const RuntimeProfile& profile,
                  LayerActivation& layer) {
  const Attention& a = model.attention;
  const double u = TensorTokens(plan);
  const double residual = ResidualTokens(plan);
  const double heads = AsDouble(a.heads);
  if (a.kind == AttentionKind::kLatent) {
    layer.latents = residual * (4 * AsDouble(a.query_rank) + 4 * AsDouble(a.kv_rank) +
                                2 * AsDouble(a.rope_size));
    layer.queries_keys_values =
        u * heads * (4 * AsDouble(a.nope_size + a.rope_size) + 2 * AsDouble(a.value_size));
    layer.attention_output = 2 * u * heads * AsDouble(a.value_size);
    return;
  }
  const double query = heads * AsDouble(a.head_size);
  const double key = AsDouble(a.kv_heads * a.head_size);
  layer.queries_keys_values = u * (2 * query + 4 * key);
  layer.attention_output = 2 * u * query;
  if (!profile.flash_attention) {
    // Softmax output and the input of the product after it, 2 bytes each, and the mask of its
    // dropout, 1 byte.
    layer.scores = (profile.dropout ? 5 : 4) * heads * u * AsDouble(plan.sequence);
  }
}

void AddExperts(const ModelSpec& model, const ParallelPlan& plan, double imbalance,
                LayerActivation& layer) {
  const Experts& experts = model.experts;
  // Experts split the sequence of all tensor ranks among themselves: tokens per rank are those of
  // sequence parallelism, gathered over the expert-tensor ranks, which hold 1/x of the width.
  const double u = TensorTokens(plan);
  const double routed = u * AsDouble(experts.top_k) * imbalance;
  const double gathered = routed * AsDouble(plan.degrees.expert_tensor);
  const double width = AsDouble(experts.width) / AsDouble(plan.degrees.expert_tensor);
  layer.routed_tokens = 2 * gathered * AsDouble(model.hidden);
  layer.routed_mlp = MlpBytesPerWidth(model) * gathered * width;
  layer.routed_activation = 2 * gathered * width;
  layer.shared_mlp = MlpBytesPerWidth(model) * u * AsDouble(experts.shared_width);
  layer.router = 4 * u * AsDouble(experts.count);
}

double Unless(bool dropped, double bytes) {
  return dropped ? 0 : bytes;
}

}  // namespace

double TensorTokens(const ParallelPlan& plan) {
  return AsDouble(plan.sequence) / AsDouble(plan.degrees.context) * AsDouble(plan.micro_batch) /
         AsDouble(plan.degrees.tensor);
}

double ResidualTokens(const ParallelPlan& plan) {
  return TensorTokens(plan) * (plan.sequence_parallel ? 1 : AsDouble(plan.degrees.tensor));
}

double LayerActivation::Whole() const {
  return norm_inputs + linear_inputs + latents + queries_keys_values + attention_output + scores +
         dropout_masks + mlp + routed_tokens + routed_mlp + shared_mlp + router;
}

double LayerActivation::Kept(const Recompute& recompute) const {
  switch (recompute.mode) {
    case RecomputeMode::kNone:
      return Whole();
    case RecomputeMode::kSelective:
      return Whole() - scores;
    case RecomputeMode::kOperators:
      return operator_outputs;
    case RecomputeMode::kFull:
      return layer_input;
    case RecomputeMode::kModules:
      break;
  }
  const auto has = [&recompute](uint32_t module) { return (recompute.modules & module) != 0; };
  const bool moe = has(kRecomputeMoe);
  double kept = norm_inputs + latents + attention_output + dropout_masks;
  kept += Unless(has(kRecomputeLayerNorm), linear_inputs);
  kept += Unless(has(kRecomputeLatentUp) && latents > 0, queries_keys_values);
  kept += Unless(has(kRecomputeCoreAttention), scores);
  kept += Unless(has(kRecomputeMlp), mlp);
  kept += Unless(moe, routed_tokens + router);
  kept += Unless(moe, routed_mlp - (has(kRecomputeMoeActivation) ? routed_activation : 0));
  kept += Unless(moe || has(kRecomputeSharedExperts), shared_mlp);
  return kept;
}

LayerActivation ActivationOfLayer(const ModelSpec& model, const ParallelPlan& plan,
                                  const RuntimeProfile& profile, LayerKind kind, double imbalance) {
  const double residual = ResidualTokens(plan);
  const double u = TensorTokens(plan);
  const double hidden = AsDouble(model.hidden);
  LayerActivation layer;
  layer.norm_inputs = 4 * residual * hidden;
  layer.linear_inputs = 4 * residual * hidden;
  layer.layer_input = 2 * residual * hidden;
  layer.dropout_masks = profile.dropout ? 2 * residual * hidden : 0;
  AddAttention(model, plan, profile, layer);
  if (kind == LayerKind::kExpert) {
    AddExperts(model, plan, imbalance, layer);
    layer.layer_input += profile.expert_retained_widths * residual * hidden;
  } else {
    layer.mlp = MlpBytesPerWidth(model) * u * AsDouble(model.ffn);
  }
  // Input, query, value, attention, first and last matrix of the MLP: of seven products the odd
  // ones, and the attention.
  const double query = AsDouble(model.attention.heads * model.attention.head_size);
  const double key = AsDouble(model.attention.kv_heads * model.attention.head_size);
  layer.operator_outputs = 4 * residual * hidden + 2 * u * (2 * query + key) +
                           2 * u * AsDouble(model.ffn) + layer.routed_mlp + layer.shared_mlp;
  return layer;
}

double MlpBackwardBytes(const ModelSpec& model, const ParallelPlan& plan, LayerKind kind) {
  const double u = TensorTokens(plan);
  if (kind == LayerKind::kDense) {
    return MlpBytesPerWidth(model) * u * AsDouble(model.ffn);
  }
  return MlpBytesPerWidth(model) * u * AsDouble(model.experts.top_k) *
         AsDouble(model.experts.width);
}

}  // namespace asterism::planner
