#include "planner/model_presets.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace asterism::planner {
namespace {

struct LlamaShape {
  const char* name;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
  int64_t kv_heads;
  int64_t ffn;
  int64_t vocabulary;
};

ModelSpec LlamaLike(const LlamaShape& shape) {
  ModelSpec model;
  model.name = shape.name;
  model.layers = shape.layers;
  model.hidden = shape.hidden;
  model.attention.heads = shape.heads;
  model.attention.kv_heads = shape.kv_heads;
  model.attention.head_size = shape.hidden / shape.heads;
  model.ffn = shape.ffn;
  model.vocabulary = shape.vocabulary;
  return model;
}

ModelSpec GptLike(const LlamaShape& shape, int64_t positions) {
  ModelSpec model = LlamaLike(shape);
  model.mlp = MlpKind::kGelu;
  model.norm = NormKind::kLayer;
  model.biases = true;
  model.tied_embeddings = true;
  model.learned_positions = positions;
  return model;
}

ModelSpec QwenMixture(const LlamaShape& shape, Experts experts) {
  ModelSpec model = LlamaLike(shape);
  model.attention.head_size = 128;
  model.attention.head_norms = true;
  model.experts = experts;
  return model;
}

ModelSpec LatentMixture(const LlamaShape& shape, int64_t query_rank, Experts experts,
                        int64_t dense_layers) {
  ModelSpec model = LlamaLike(shape);
  model.attention.kind = AttentionKind::kLatent;
  model.attention.kv_heads = shape.heads;
  model.attention.head_size = 0;
  model.attention.query_rank = query_rank;
  model.attention.kv_rank = 512;
  model.attention.nope_size = 128;
  model.attention.rope_size = 64;
  model.attention.value_size = 128;
  model.experts = experts;
  model.dense_layers = dense_layers;
  return model;
}

std::vector<ModelSpec> AllPresets() {
  ModelSpec bloom = GptLike({"bloom-176b", 70, 14336, 112, 112, 57344, 250880}, 0);
  bloom.embedding_norm = true;
  ModelSpec mixtral = LlamaLike({"mixtral-8x7b", 32, 4096, 32, 8, 0, 32000});
  mixtral.experts = {.count = 8, .top_k = 2, .width = 14336};
  ModelSpec qwen = LlamaLike({"qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064});
  qwen.attention.input_biases = true;
  std::vector<ModelSpec> models = {
      LlamaLike({"llama-2-7b", 32, 4096, 32, 32, 11008, 32000}),
      LlamaLike({"llama-2-70b", 80, 8192, 64, 8, 28672, 32000}),
      LlamaLike({"llama-3-8b", 32, 4096, 32, 8, 14336, 128256}),
      LlamaLike({"llama-3-70b", 80, 8192, 64, 8, 28672, 128256}),
      LlamaLike({"llama-3-405b", 126, 16384, 128, 8, 53248, 128256}),
      LlamaLike({"mistral-7b", 32, 4096, 32, 8, 14336, 32000}),
      GptLike({"gpt-2", 12, 768, 12, 12, 3072, 50257}, 1024),
      GptLike({"gpt-3-175b", 96, 12288, 96, 96, 49152, 51200}, 2048),
      QwenMixture({"qwen3-30b-a3b", 48, 2048, 32, 4, 0, 151936},
                  {.count = 128, .top_k = 8, .width = 768}),
      QwenMixture({"qwen3-235b-a22b", 94, 4096, 64, 4, 0, 151936},
                  {.count = 128, .top_k = 8, .width = 1536}),
      LatentMixture({"deepseek-v2", 60, 5120, 128, 128, 12288, 102400}, 1536,
                    {.count = 160, .top_k = 6, .width = 1536, .shared_width = 3072}, 1),
      LatentMixture(
          {"deepseek-v3", 61, 7168, 128, 128, 18432, 129280}, 1536,
          {.count = 256, .top_k = 8, .width = 2048, .shared_width = 2048, .router_bias = true}, 3),
      LatentMixture(
          {"moonlight-16b-a3b", 27, 2048, 16, 16, 11264, 163840}, 0,
          {.count = 64, .top_k = 6, .width = 1408, .shared_width = 2816, .router_bias = true}, 1),
      bloom,
      mixtral,
      qwen,
  };
  std::sort(models.begin(), models.end(),
            [](const ModelSpec& a, const ModelSpec& b) { return a.name < b.name; });
  return models;
}

const std::vector<ModelSpec>& SharedPresets() {
  static const std::vector<ModelSpec>* const models = new std::vector<ModelSpec>(AllPresets());
  return *models;
}

}  // namespace

const ModelSpec* FindModelPreset(std::string_view name) {
  for (const ModelSpec& model : SharedPresets()) {
    if (model.name == name) {
      return &model;
    }
  }
  return nullptr;
}

std::vector<std::string> ModelPresetNames() {
  std::vector<std::string> names;
  for (const ModelSpec& model : SharedPresets()) {
    names.push_back(model.name);
  }
  return names;
}

std::string NearestPreset(std::string_view name) {
  const ModelSpec* best = nullptr;
  size_t best_distance = 0;
  for (const ModelSpec& model : SharedPresets()) {
    const size_t distance = base::EditDistance(name, model.name, base::LetterSwap::kOneStep);
    if (best == nullptr || distance < best_distance) {
      best = &model;
      best_distance = distance;
    }
  }
  return best->name;
}

}  // namespace asterism::planner
