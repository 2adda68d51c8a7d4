#include "planner/model_source.h"

#include <vector>

#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "planner/field_table.h"
#include "planner/model_presets.h"

namespace asterism::planner {
namespace {

struct WholeKey {
  std::string_view key;
  int64_t ModelSpec::*field;
};
struct AttentionKey {
  std::string_view key;
  int64_t Attention::*field;
};
struct ExpertsKey {
  std::string_view key;
  int64_t Experts::*field;
};
struct SwitchKey {
  std::string_view key;
  bool ModelSpec::*field;
};

constexpr WholeKey kWholeKeys[] = {
    {"layers", &ModelSpec::layers},
    {"hidden", &ModelSpec::hidden},
    {"ffn", &ModelSpec::ffn},
    {"vocabulary", &ModelSpec::vocabulary},
    {"learned_positions", &ModelSpec::learned_positions},
    {"dense_layers", &ModelSpec::dense_layers},
    {"mtp_depth", &ModelSpec::mtp_depth},
};
constexpr AttentionKey kAttentionKeys[] = {
    {"heads", &Attention::heads},         {"kv_heads", &Attention::kv_heads},
    {"head_size", &Attention::head_size}, {"query_rank", &Attention::query_rank},
    {"kv_rank", &Attention::kv_rank},     {"nope_size", &Attention::nope_size},
    {"rope_size", &Attention::rope_size}, {"value_size", &Attention::value_size},
};
constexpr ExpertsKey kExpertsKeys[] = {
    {"experts", &Experts::count},
    {"top_k", &Experts::top_k},
    {"expert_width", &Experts::width},
    {"shared_expert_width", &Experts::shared_width},
};
constexpr SwitchKey kSwitchKeys[] = {
    {"biases", &ModelSpec::biases},
    {"tied_embeddings", &ModelSpec::tied_embeddings},
    {"embedding_norm", &ModelSpec::embedding_norm},
};

std::vector<std::string_view> KnownYamlKeys() {
  std::vector<std::string_view> keys = {
      "name", "mlp", "norm", "query_key_value_biases", "query_key_norms", "router_bias"};
  for (const WholeKey& each : kWholeKeys) {
    keys.push_back(each.key);
  }
  for (const AttentionKey& each : kAttentionKeys) {
    keys.push_back(each.key);
  }
  for (const ExpertsKey& each : kExpertsKeys) {
    keys.push_back(each.key);
  }
  for (const SwitchKey& each : kSwitchKeys) {
    keys.push_back(each.key);
  }
  return keys;
}

absl::Status RejectUnknown(const FieldTable& fields) {
  const std::vector<std::string_view> known = KnownYamlKeys();
  for (const Field& field : fields.fields()) {
    std::string_view nearest = known.front();
    size_t distance = kFieldBytesMax;
    for (const std::string_view key : known) {
      const size_t other = base::EditDistance(field.key, key, base::LetterSwap::kOneStep);
      if (other < distance) {
        distance = other;
        nearest = key;
      }
    }
    if (distance > 0) {
      return absl::InvalidArgumentError(fmt::format("{}: is no field of a model: did you mean {}?",
                                                    field.key.substr(0, 64), nearest));
    }
  }
  return absl::OkStatus();
}

// One of two words.
absl::StatusOr<bool> IsSecondWord(const FieldTable& fields, std::string_view key,
                                  std::string_view first, std::string_view second) {
  ASSIGN_OR_RETURN(const std::string word, fields.TextOr(key, first));
  if (word != first && word != second) {
    return absl::InvalidArgumentError(
        fmt::format("{}: \"{}\" is not known: use {} or {}", key, word, first, second));
  }
  return word == second;
}

absl::Status ReadYamlNumbers(const FieldTable& fields, ModelSpec& model) {
  for (const WholeKey& each : kWholeKeys) {
    ASSIGN_OR_RETURN(model.*each.field, fields.WholeOr(each.key, 0));
  }
  for (const AttentionKey& each : kAttentionKeys) {
    ASSIGN_OR_RETURN(model.attention.*each.field, fields.WholeOr(each.key, 0));
  }
  for (const ExpertsKey& each : kExpertsKeys) {
    ASSIGN_OR_RETURN(model.experts.*each.field, fields.WholeOr(each.key, 0));
  }
  for (const SwitchKey& each : kSwitchKeys) {
    ASSIGN_OR_RETURN(model.*each.field, fields.BooleanOr(each.key, false));
  }
  return absl::OkStatus();
}

// head_size where the text does not say it.
absl::Status CompleteHeads(ModelSpec& model) {
  Attention& attention = model.attention;
  if (attention.kv_heads == 0) {
    attention.kv_heads = attention.heads;
  }
  if (attention.kind == AttentionKind::kLatent || attention.head_size != 0) {
    return absl::OkStatus();
  }
  if (attention.heads <= 0) {
    return absl::InvalidArgumentError(fmt::format(
        "heads: {} is out of range: use a whole number from 1 to {}", attention.heads, kWidthMax));
  }
  if (model.hidden % attention.heads != 0) {
    return absl::InvalidArgumentError(
        fmt::format("hidden: {} is not divisible by heads ({}): use a multiple, or set head_size",
                    model.hidden, attention.heads));
  }
  attention.head_size = model.hidden / attention.heads;
  return absl::OkStatus();
}

absl::StatusOr<ModelSpec> Finish(ModelSpec model) {
  RETURN_IF_ERROR(CompleteHeads(model));
  RETURN_IF_ERROR(CheckModel(model));
  return model;
}

}  // namespace

absl::StatusOr<ModelSpec> ParseModelYaml(std::string_view text) {
  ASSIGN_OR_RETURN(const FieldTable fields, ParseYamlFields(text));
  RETURN_IF_ERROR(RejectUnknown(fields));
  ModelSpec model;
  ASSIGN_OR_RETURN(model.name, fields.TextOr("name", "inline"));
  RETURN_IF_ERROR(ReadYamlNumbers(fields, model));
  ASSIGN_OR_RETURN(const bool gelu, IsSecondWord(fields, "mlp", "swiglu", "gelu"));
  ASSIGN_OR_RETURN(const bool layer_norm, IsSecondWord(fields, "norm", "rms", "layer"));
  model.mlp = gelu ? MlpKind::kGelu : MlpKind::kSwiGlu;
  model.norm = layer_norm ? NormKind::kLayer : NormKind::kRms;
  ASSIGN_OR_RETURN(model.attention.input_biases, fields.BooleanOr("query_key_value_biases", false));
  ASSIGN_OR_RETURN(model.attention.head_norms, fields.BooleanOr("query_key_norms", false));
  ASSIGN_OR_RETURN(model.experts.router_bias, fields.BooleanOr("router_bias", false));
  if (fields.Find("kv_rank") != nullptr) {
    model.attention.kind = AttentionKind::kLatent;
  }
  return Finish(std::move(model));
}

absl::StatusOr<ModelSpec> ResolveModel(const ModelSource& source) {
  const int given =
      int{!source.preset.empty()} + int{!source.hugging_face.empty()} + int{!source.yaml.empty()};
  if (given != 1) {
    return absl::InvalidArgumentError(
        given == 0 ? "model: has no source: set one of preset, huggingFaceConfigMap and inline"
                   : "model: has more than one source: keep one of preset, huggingFaceConfigMap "
                     "and inline");
  }
  if (!source.hugging_face.empty()) {
    return ParseHuggingFaceConfig(source.hugging_face);
  }
  if (!source.yaml.empty()) {
    return ParseModelYaml(source.yaml);
  }
  if (const ModelSpec* model = FindModelPreset(source.preset); model != nullptr) {
    return *model;
  }
  return absl::InvalidArgumentError(fmt::format(
      "preset: \"{}\" is not known: did you mean {}? There are {}", source.preset.substr(0, 64),
      NearestPreset(source.preset), fmt::join(ModelPresetNames(), ", ")));
}

}  // namespace asterism::planner
