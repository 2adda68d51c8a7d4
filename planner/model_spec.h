// File: planner/model_spec.h
//
// The shape of a transformer, and how many parameters it has: what every other part of the planner
// counts from. One list of equal layers, of which the first may be dense in a mixture-of-experts
// model, an embedding, a head, and multi-token-prediction depths.
//
//   ModelSpec model = *FindModelPreset("llama-3-8b");
//   ParameterCount count = CountParameters(model);      // count.total == 8'030'261'248
//   RETURN_IF_ERROR(CheckModel(model));                 // names field and way out
//
// Sizes are elements, counts are whole numbers. Limits: kLayersMax layers, kWidthMax for every
// width, so that no product of three of them leaves 63 bits.
// Source: reference formulas of Korthikanti 2022 (arXiv 2205.05198 section 3), DeepSeek-V2
// (2405.04434 section 2.1) for latent attention, DeepSeek-V3 (2412.19437 section 2.2) for MTP;
// checked against the totals that the models' authors publish (test/planner/model_spec_test.cc).
//
// Thread-safety: values and pure functions. Cost: under 1 us.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace asterism::planner {

inline constexpr int64_t kLayersMax = 10'000;
inline constexpr int64_t kWidthMax = int64_t{1} << 20;
inline constexpr int64_t kVocabularyMax = int64_t{1} << 24;
inline constexpr int64_t kExpertsMax = 65'536;

enum class AttentionKind {
  kGrouped,  // multi-head, grouped-query, multi-query: by kv_heads
  kLatent,   // MLA: keys and values from a low-rank latent
};

struct Attention {
  AttentionKind kind = AttentionKind::kGrouped;
  int64_t heads = 0;
  int64_t kv_heads = 0;       // kGrouped: divides heads
  int64_t head_size = 0;      // kGrouped
  bool input_biases = false;  // on Q, K and V
  bool head_norms = false;    // an RMS norm of one head on Q and on K
  // kLatent. query_rank 0: the query has no low-rank step.
  int64_t query_rank = 0;
  int64_t kv_rank = 0;
  int64_t nope_size = 0;
  int64_t rope_size = 0;
  int64_t value_size = 0;
};

enum class MlpKind {
  kSwiGlu,  // three matrices
  kGelu,    // two
};

enum class NormKind {
  kRms,    // one vector
  kLayer,  // scale and shift
};

struct Experts {
  int64_t count = 0;  // 0: a dense model
  int64_t top_k = 0;
  int64_t width = 0;         // of one expert
  int64_t shared_width = 0;  // of all shared experts together
  bool router_bias = false;  // a learned or balanced offset per expert
};

struct ModelSpec {
  std::string name;
  int64_t layers = 0;
  int64_t hidden = 0;
  Attention attention;
  MlpKind mlp = MlpKind::kSwiGlu;
  NormKind norm = NormKind::kRms;
  bool biases = false;  // on every matrix of a block, GPT style
  int64_t ffn = 0;      // of a dense layer; 0 when no layer is dense
  Experts experts;
  int64_t dense_layers = 0;  // with experts: that many of the first layers are dense
  int64_t vocabulary = 0;
  bool tied_embeddings = false;
  int64_t learned_positions = 0;
  bool embedding_norm = false;  // a norm right after the embedding (BLOOM)
  int64_t mtp_depth = 0;
};

// Of one layer or one block. Each matrix in the class that says how degrees divide it.
struct BlockParameters {
  int64_t tensor = 0;      // divided by the tensor degree
  int64_t replicated = 0;  // whole on every tensor rank: norms, router, down-projections of MLA
  int64_t expert = 0;      // divided by expert and expert-tensor degree
  int64_t total() const { return tensor + replicated + expert; }
};

struct ParameterCount {
  int64_t total = 0;   // a tied embedding once
  int64_t active = 0;  // that one token meets
  int64_t embedding = 0;
  int64_t head = 0;  // 0 when tied
};

BlockParameters AttentionParameters(const ModelSpec& model);
BlockParameters DenseMlpParameters(const ModelSpec& model);
BlockParameters ExpertMlpParameters(const ModelSpec& model);
// A whole layer with its norms.
BlockParameters DenseLayerParameters(const ModelSpec& model);
BlockParameters ExpertLayerParameters(const ModelSpec& model);
// What a depth of multi-token prediction has beside its layer: two norms, a projection of 2 h x h
// and the norm before the head.
BlockParameters PredictionParameters(const ModelSpec& model);
BlockParameters FinalNormParameters(const ModelSpec& model);
int64_t EmbeddingParameters(const ModelSpec& model);  // words and learned positions

ParameterCount CountParameters(const ModelSpec& model);

// Whether layer `layer` of the trunk (from 0) has experts.
bool HasExperts(const ModelSpec& model, int64_t layer);

// The first field that makes no sense, with its value and the way out.
absl::Status CheckModel(const ModelSpec& model);

}  // namespace asterism::planner
