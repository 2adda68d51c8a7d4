#include <string_view>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/field_table.h"
#include "planner/model_source.h"

namespace asterism::planner {
namespace {

absl::Status ReadTrunk(const FieldTable& fields, ModelSpec& model) {
  ASSIGN_OR_RETURN(model.layers, fields.Whole("num_hidden_layers"));
  ASSIGN_OR_RETURN(model.hidden, fields.Whole("hidden_size"));
  ASSIGN_OR_RETURN(model.vocabulary, fields.Whole("vocab_size"));
  ASSIGN_OR_RETURN(model.attention.heads, fields.Whole("num_attention_heads"));
  ASSIGN_OR_RETURN(model.attention.kv_heads,
                   fields.WholeOr("num_key_value_heads", model.attention.heads));
  ASSIGN_OR_RETURN(model.ffn, fields.Whole("intermediate_size"));
  ASSIGN_OR_RETURN(model.tied_embeddings, fields.BooleanOr("tie_word_embeddings", false));
  if (model.attention.heads <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("num_attention_heads: {} is not above 0: set the heads of the model",
                    model.attention.heads));
  }
  if (fields.Find("head_dim") == nullptr && model.hidden % model.attention.heads != 0) {
    return absl::InvalidArgumentError(
        fmt::format("hidden_size: {} is not divisible by num_attention_heads ({}): correct one, or "
                    "set head_dim",
                    model.hidden, model.attention.heads));
  }
  ASSIGN_OR_RETURN(model.attention.head_size,
                   fields.WholeOr("head_dim", model.hidden / model.attention.heads));
  return absl::OkStatus();
}

absl::Status ReadLatent(const FieldTable& fields, ModelSpec& model) {
  Attention& attention = model.attention;
  attention.kind = AttentionKind::kLatent;
  attention.head_size = 0;
  ASSIGN_OR_RETURN(attention.query_rank, fields.WholeOr("q_lora_rank", 0));
  ASSIGN_OR_RETURN(attention.kv_rank, fields.Whole("kv_lora_rank"));
  ASSIGN_OR_RETURN(attention.nope_size, fields.Whole("qk_nope_head_dim"));
  ASSIGN_OR_RETURN(attention.rope_size, fields.Whole("qk_rope_head_dim"));
  ASSIGN_OR_RETURN(attention.value_size, fields.Whole("v_head_dim"));
  return absl::OkStatus();
}

absl::Status ReadDeepSeekExperts(const FieldTable& fields, ModelSpec& model) {
  Experts& experts = model.experts;
  ASSIGN_OR_RETURN(experts.count, fields.Whole("n_routed_experts"));
  ASSIGN_OR_RETURN(experts.top_k, fields.Whole("num_experts_per_tok"));
  ASSIGN_OR_RETURN(experts.width, fields.Whole("moe_intermediate_size"));
  ASSIGN_OR_RETURN(const int64_t shared, fields.WholeOr("n_shared_experts", 0));
  if (shared < 0 || shared > kExpertsMax || experts.width < 0 || experts.width > kWidthMax) {
    return absl::InvalidArgumentError(
        fmt::format("n_shared_experts: {} experts of width {} are out of range: correct them",
                    shared, experts.width));
  }
  experts.shared_width = shared * experts.width;
  ASSIGN_OR_RETURN(model.dense_layers, fields.WholeOr("first_k_dense_replace", 0));
  ASSIGN_OR_RETURN(const std::string method, fields.TextOr("topk_method", ""));
  experts.router_bias = method == "noaux_tc";
  return absl::OkStatus();
}

absl::Status ReadMixtralExperts(const FieldTable& fields, ModelSpec& model) {
  ASSIGN_OR_RETURN(model.experts.count, fields.Whole("num_local_experts"));
  ASSIGN_OR_RETURN(model.experts.top_k, fields.Whole("num_experts_per_tok"));
  model.experts.width = model.ffn;
  model.ffn = 0;
  return absl::OkStatus();
}

absl::Status ReadQwenExperts(const FieldTable& fields, ModelSpec& model) {
  ASSIGN_OR_RETURN(model.experts.count, fields.Whole("num_experts"));
  ASSIGN_OR_RETURN(model.experts.top_k, fields.Whole("num_experts_per_tok"));
  ASSIGN_OR_RETURN(model.experts.width, fields.Whole("moe_intermediate_size"));
  const Field* dense = fields.Find("mlp_only_layers");
  ASSIGN_OR_RETURN(const int64_t step, fields.WholeOr("decoder_sparse_step", 1));
  if (step != 1 || (dense != nullptr && dense->kind != Field::Kind::kNested)) {
    return absl::InvalidArgumentError(fmt::format(
        "decoder_sparse_step: {} is not supported: every layer must have experts (1)", step));
  }
  return absl::OkStatus();
}

// GPT-2 has names of its own.
absl::StatusOr<ModelSpec> ReadGpt2(const FieldTable& fields) {
  ModelSpec model;
  model.mlp = MlpKind::kGelu;
  model.norm = NormKind::kLayer;
  model.biases = true;
  model.tied_embeddings = true;
  ASSIGN_OR_RETURN(model.layers, fields.Whole("n_layer"));
  ASSIGN_OR_RETURN(model.hidden, fields.Whole("n_embd"));
  ASSIGN_OR_RETURN(model.vocabulary, fields.Whole("vocab_size"));
  ASSIGN_OR_RETURN(model.learned_positions, fields.Whole("n_positions"));
  ASSIGN_OR_RETURN(model.attention.heads, fields.Whole("n_head"));
  if (model.attention.heads <= 0 || model.hidden % model.attention.heads != 0) {
    return absl::InvalidArgumentError(
        fmt::format("n_head: {} does not divide n_embd ({}): use a divisor", model.attention.heads,
                    model.hidden));
  }
  if (model.hidden < 0 || model.hidden > kWidthMax) {
    return absl::InvalidArgumentError(
        fmt::format("n_embd: {} is out of range: use 1 to {}", model.hidden, kWidthMax));
  }
  ASSIGN_OR_RETURN(model.ffn, fields.WholeOr("n_inner", 4 * model.hidden));
  model.attention.kv_heads = model.attention.heads;
  model.attention.head_size = model.hidden / model.attention.heads;
  return model;
}

absl::StatusOr<ModelSpec> ReadBloom(const FieldTable& fields) {
  ModelSpec model;
  model.mlp = MlpKind::kGelu;
  model.norm = NormKind::kLayer;
  model.biases = true;
  model.tied_embeddings = true;
  model.embedding_norm = true;
  // Two generations of names.
  const bool old = fields.Find("n_embed") != nullptr;
  ASSIGN_OR_RETURN(model.hidden, fields.Whole(old ? "n_embed" : "hidden_size"));
  ASSIGN_OR_RETURN(model.attention.heads, fields.Whole(fields.Find("num_attention_heads") != nullptr
                                                           ? "num_attention_heads"
                                                           : "n_head"));
  ASSIGN_OR_RETURN(model.layers, fields.Whole("n_layer"));
  ASSIGN_OR_RETURN(model.vocabulary, fields.Whole("vocab_size"));
  if (model.attention.heads <= 0 || model.hidden <= 0 || model.hidden > kWidthMax ||
      model.hidden % model.attention.heads != 0) {
    return absl::InvalidArgumentError(
        fmt::format("n_head: {} does not divide the hidden size ({}): use a divisor",
                    model.attention.heads, model.hidden));
  }
  model.ffn = 4 * model.hidden;
  model.attention.kv_heads = model.attention.heads;
  model.attention.head_size = model.hidden / model.attention.heads;
  return model;
}

absl::StatusOr<ModelSpec> ReadByType(const FieldTable& fields, std::string_view type) {
  if (type == "gpt2") {
    return ReadGpt2(fields);
  }
  if (type == "bloom") {
    return ReadBloom(fields);
  }
  ModelSpec model;
  RETURN_IF_ERROR(ReadTrunk(fields, model));
  model.attention.input_biases = type == "qwen2";
  model.attention.head_norms = type == "qwen3" || type == "qwen3_moe";
  if (type == "mixtral") {
    RETURN_IF_ERROR(ReadMixtralExperts(fields, model));
  } else if (type == "qwen3_moe") {
    RETURN_IF_ERROR(ReadQwenExperts(fields, model));
  } else if (type == "deepseek_v2" || type == "deepseek_v3") {
    RETURN_IF_ERROR(ReadLatent(fields, model));
    RETURN_IF_ERROR(ReadDeepSeekExperts(fields, model));
    ASSIGN_OR_RETURN(model.mtp_depth, fields.WholeOr("num_nextn_predict_layers", 0));
  } else if (type != "llama" && type != "mistral" && type != "qwen2" && type != "qwen3") {
    return absl::InvalidArgumentError(fmt::format(
        "model_type: \"{}\" is not known: use one of bloom, deepseek_v2, deepseek_v3, gpt2, llama, "
        "mistral, mixtral, qwen2, qwen3, qwen3_moe, or describe the shape inline",
        type.substr(0, 64)));
  }
  return model;
}

}  // namespace

absl::StatusOr<ModelSpec> ParseHuggingFaceConfig(std::string_view text) {
  ASSIGN_OR_RETURN(const FieldTable fields, ParseJsonFields(text));
  ASSIGN_OR_RETURN(const std::string type, fields.TextOr("model_type", ""));
  if (type.empty()) {
    return absl::InvalidArgumentError(
        "model_type: is missing: is this the config.json of a Hugging Face model?");
  }
  ASSIGN_OR_RETURN(ModelSpec model, ReadByType(fields, type));
  ASSIGN_OR_RETURN(model.name, fields.TextOr("_name_or_path", type));
  RETURN_IF_ERROR(CheckModel(model));
  return model;
}

}  // namespace asterism::planner
