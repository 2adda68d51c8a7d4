// File: planner/model_source.h
//
// A model from what a user gives: a preset's name, a Hugging Face config.json, or a short YAML of
// our own field names. Exactly one of the three.
//
//   ASSIGN_OR_RETURN(ModelSpec model, ResolveModel({.preset = "llama-3-8b"}));
//
// The YAML's fields are those of ModelSpec: name, layers, hidden, heads, kv_heads (= heads),
// head_size (= hidden / heads), ffn, mlp (swiglu | gelu), norm (rms | layer), biases,
// query_key_value_biases, query_key_norms, vocabulary, tied_embeddings, learned_positions,
// embedding_norm, experts, top_k, expert_width, shared_expert_width, router_bias, dense_layers,
// mtp_depth; kv_rank (which makes the attention latent), query_rank, nope_size, rope_size,
// value_size. Any other field is an error that names the nearest.
// config.json is read by model_type: llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, deepseek_v2,
// deepseek_v3, gpt2, bloom. Fields that do not change the shape are ignored;
// num_nextn_predict_layers becomes mtp_depth.
//
// Errors: InvalidArgument; names field, value and way out. Nothing but the answer is kept of the
// text. Thread-safety: pure. Cost: one pass over at most kFieldBytesMax bytes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/model_spec.h"

namespace asterism::planner {

struct ModelSource {
  std::string preset;
  std::string hugging_face;  // the text of config.json
  std::string yaml;
};

absl::StatusOr<ModelSpec> ResolveModel(const ModelSource& source);

absl::StatusOr<ModelSpec> ParseModelYaml(std::string_view text);
absl::StatusOr<ModelSpec> ParseHuggingFaceConfig(std::string_view text);

}  // namespace asterism::planner
