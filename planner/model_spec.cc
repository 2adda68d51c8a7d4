#include "planner/model_spec.h"

#include <string_view>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::planner {
namespace {

int64_t NormWidth(const ModelSpec& model, int64_t width) {
  return model.norm == NormKind::kLayer ? 2 * width : width;
}

int64_t MlpMatrices(const ModelSpec& model) {
  return model.mlp == MlpKind::kSwiGlu ? 3 : 2;
}

absl::Status WrongField(std::string_view field, int64_t value, std::string_view remedy) {
  return absl::InvalidArgumentError(fmt::format("{}: {} {}", field, value, remedy));
}

absl::Status CheckRange(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) {
    return absl::OkStatus();
  }
  return WrongField(field, value,
                    fmt::format("is out of range: use a whole number from {} to {}", low, high));
}

absl::Status CheckGrouped(const Attention& attention) {
  RETURN_IF_ERROR(CheckRange("heads", attention.heads, 1, kWidthMax));
  RETURN_IF_ERROR(CheckRange("kv_heads", attention.kv_heads, 1, attention.heads));
  RETURN_IF_ERROR(CheckRange("head_size", attention.head_size, 1, kWidthMax));
  if (attention.heads % attention.kv_heads != 0) {
    return WrongField("kv_heads", attention.kv_heads,
                      fmt::format("does not divide heads ({}): use a divisor", attention.heads));
  }
  return absl::OkStatus();
}

absl::Status CheckLatent(const Attention& attention) {
  RETURN_IF_ERROR(CheckRange("heads", attention.heads, 1, kWidthMax));
  RETURN_IF_ERROR(CheckRange("query_rank", attention.query_rank, 0, kWidthMax));
  RETURN_IF_ERROR(CheckRange("kv_rank", attention.kv_rank, 1, kWidthMax));
  RETURN_IF_ERROR(CheckRange("nope_size", attention.nope_size, 1, kWidthMax));
  RETURN_IF_ERROR(CheckRange("rope_size", attention.rope_size, 0, kWidthMax));
  return CheckRange("value_size", attention.value_size, 1, kWidthMax);
}

absl::Status CheckExperts(const ModelSpec& model) {
  const Experts& experts = model.experts;
  RETURN_IF_ERROR(CheckRange("experts", experts.count, 0, kExpertsMax));
  if (experts.count == 0) {
    if (experts.top_k != 0 || experts.width != 0 || experts.shared_width != 0) {
      return WrongField("experts", 0, "but other fields of experts are set: set experts too");
    }
    return CheckRange("ffn", model.ffn, 1, kWidthMax);
  }
  RETURN_IF_ERROR(CheckRange("top_k", experts.top_k, 1, experts.count));
  RETURN_IF_ERROR(CheckRange("expert_width", experts.width, 1, kWidthMax));
  RETURN_IF_ERROR(CheckRange("shared_expert_width", experts.shared_width, 0, kWidthMax));
  RETURN_IF_ERROR(CheckRange("dense_layers", model.dense_layers, 0, model.layers));
  return CheckRange("ffn", model.ffn, model.dense_layers > 0 ? 1 : 0, kWidthMax);
}

}  // namespace

BlockParameters AttentionParameters(const ModelSpec& model) {
  const Attention& a = model.attention;
  const int64_t h = model.hidden;
  BlockParameters count;
  if (a.kind == AttentionKind::kLatent) {
    const int64_t query = a.heads * (a.nope_size + a.rope_size);
    count.tensor = (a.query_rank > 0 ? a.query_rank : h) * query +
                   a.kv_rank * a.heads * (a.nope_size + a.value_size) + a.heads * a.value_size * h;
    // Down-projections and the norms of the latents.
    count.replicated = h * (a.kv_rank + a.rope_size) + a.kv_rank;
    count.replicated += a.query_rank > 0 ? h * a.query_rank + a.query_rank : 0;
    return count;
  }
  const int64_t query = a.heads * a.head_size;
  const int64_t pair = 2 * a.kv_heads * a.head_size;
  count.tensor = 2 * h * query + h * pair;
  if (a.input_biases || model.biases) {
    count.tensor += query + pair;
  }
  count.replicated = (model.biases ? h : 0) + (a.head_norms ? 2 * a.head_size : 0);
  return count;
}

BlockParameters DenseMlpParameters(const ModelSpec& model) {
  BlockParameters count;
  count.tensor = MlpMatrices(model) * model.hidden * model.ffn;
  if (model.biases) {
    count.tensor += (MlpMatrices(model) - 1) * model.ffn;
    count.replicated = model.hidden;
  }
  return count;
}

BlockParameters ExpertMlpParameters(const ModelSpec& model) {
  const Experts& experts = model.experts;
  BlockParameters count;
  count.expert = MlpMatrices(model) * model.hidden * experts.width * experts.count;
  count.replicated = model.hidden * experts.count + (experts.router_bias ? experts.count : 0);
  count.tensor = MlpMatrices(model) * model.hidden * experts.shared_width;
  return count;
}

BlockParameters DenseLayerParameters(const ModelSpec& model) {
  BlockParameters count = AttentionParameters(model);
  const BlockParameters mlp = DenseMlpParameters(model);
  count.tensor += mlp.tensor;
  count.replicated += mlp.replicated + 2 * NormWidth(model, model.hidden);
  return count;
}

BlockParameters ExpertLayerParameters(const ModelSpec& model) {
  BlockParameters count = AttentionParameters(model);
  const BlockParameters mlp = ExpertMlpParameters(model);
  count.tensor += mlp.tensor;
  count.expert = mlp.expert;
  count.replicated += mlp.replicated + 2 * NormWidth(model, model.hidden);
  return count;
}

BlockParameters PredictionParameters(const ModelSpec& model) {
  BlockParameters count;
  count.tensor = 2 * model.hidden * model.hidden;
  count.replicated = 3 * NormWidth(model, model.hidden);
  return count;
}

BlockParameters FinalNormParameters(const ModelSpec& model) {
  return {.replicated = NormWidth(model, model.hidden)};
}

int64_t EmbeddingParameters(const ModelSpec& model) {
  return (model.vocabulary + model.learned_positions) * model.hidden +
         (model.embedding_norm ? NormWidth(model, model.hidden) : 0);
}

bool HasExperts(const ModelSpec& model, int64_t layer) {
  return model.experts.count > 0 && layer >= model.dense_layers;
}

ParameterCount CountParameters(const ModelSpec& model) {
  const bool mixture = model.experts.count > 0;
  const int64_t expert_layers = mixture ? model.layers - model.dense_layers : 0;
  const int64_t dense_layers = model.layers - expert_layers;
  const BlockParameters expert_layer = ExpertLayerParameters(model);
  const int64_t dense_layer = DenseLayerParameters(model).total();
  const int64_t idle = mixture ? expert_layer.expert / model.experts.count *
                                     (model.experts.count - model.experts.top_k)
                               : 0;
  ParameterCount count;
  count.embedding = EmbeddingParameters(model);
  count.head = model.tied_embeddings ? 0 : model.vocabulary * model.hidden;
  const int64_t prediction =
      PredictionParameters(model).total() + (mixture ? expert_layer.total() : dense_layer);
  count.total = count.embedding + count.head + dense_layers * dense_layer +
                (mixture ? expert_layers * expert_layer.total() : 0) +
                FinalNormParameters(model).total() + model.mtp_depth * prediction;
  count.active = count.total - (expert_layers + (mixture ? model.mtp_depth : 0)) * idle;
  return count;
}

absl::Status CheckModel(const ModelSpec& model) {
  RETURN_IF_ERROR(CheckRange("layers", model.layers, 1, kLayersMax));
  RETURN_IF_ERROR(CheckRange("hidden", model.hidden, 1, kWidthMax));
  RETURN_IF_ERROR(model.attention.kind == AttentionKind::kLatent ? CheckLatent(model.attention)
                                                                 : CheckGrouped(model.attention));
  RETURN_IF_ERROR(CheckExperts(model));
  RETURN_IF_ERROR(CheckRange("vocabulary", model.vocabulary, 1, kVocabularyMax));
  RETURN_IF_ERROR(CheckRange("learned_positions", model.learned_positions, 0, kVocabularyMax));
  return CheckRange("mtp_depth", model.mtp_depth, 0, 16);
}

}  // namespace asterism::planner
