#include "planner/flops.h"

namespace asterism::planner {
namespace {

double InReal(int64_t value) {
  return static_cast<double>(value);
}

}  // namespace

LayerFlops FlopsOfLayer(const ModelSpec& model, LayerKind kind, double tokens, double keys,
                        Masking masking) {
  const Attention& a = model.attention;
  const bool latent = a.kind == AttentionKind::kLatent;
  const double score_width = InReal(latent ? a.nope_size + a.rope_size : a.head_size);
  const double value_width = InReal(latent ? a.value_size : a.head_size);
  LayerFlops flops;
  flops.projections = 2 * tokens * InReal(AttentionParameters(model).total());
  flops.core = 2 * tokens * keys * InReal(a.heads) * (score_width + value_width) *
               (masking == Masking::kCausal ? 0.5 : 1.0);
  if (kind == LayerKind::kDense) {
    flops.mlp = 2 * tokens * InReal(DenseMlpParameters(model).total());
    return flops;
  }
  const BlockParameters experts = ExpertMlpParameters(model);
  flops.mlp = 2 * tokens * InReal(experts.tensor);
  flops.router = 2 * tokens * InReal(experts.replicated);
  flops.routed = 2 * tokens * InReal(experts.expert) * InReal(model.experts.top_k) /
                 InReal(model.experts.count);
  return flops;
}

double HeadFlops(const ModelSpec& model, double tokens) {
  return 2 * tokens * InReal(model.vocabulary) * InReal(model.hidden);
}

double ModelFlopsPerToken(const ModelSpec& model, double sequence) {
  const ParameterCount count = CountParameters(model);
  const double head = model.tied_embeddings ? InReal(model.vocabulary * model.hidden) : 0;
  const double weights = InReal(count.active - count.embedding) + head;
  return 6 * weights + 6 * InReal(model.layers) * InReal(model.hidden) * sequence;
}

double ClassicHardwareFlops(const ModelSpec& model, double global_batch, double sequence) {
  const double h = InReal(model.hidden);
  const double layers = InReal(model.layers);
  return 96 * global_batch * sequence * layers * h * h *
         (1 + sequence / (6 * h) + InReal(model.vocabulary) / (16 * layers * h));
}

}  // namespace asterism::planner
