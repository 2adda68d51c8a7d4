#include "planner/model_source.h"

#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/field_table.h"
#include "planner/model_presets.h"

namespace asterism::planner {
namespace {

using testing::HasSubstr;

std::string YamlError(std::string_view text) {
  return std::string(ParseModelYaml(text).status().message());
}

std::string ConfigError(std::string_view text) {
  return std::string(ParseHuggingFaceConfig(text).status().message());
}

int64_t TotalOf(const absl::StatusOr<ModelSpec>& model) {
  return model.ok() ? CountParameters(*model).total : -1;
}

constexpr std::string_view kLlamaYaml =
    "# a model\nname: mine\nlayers: 32\nhidden: 4096\nheads: 32\nkv_heads: 8\nffn: 14336\n"
    "vocabulary: 128256   # padded\n";

constexpr std::string_view kLlamaConfig =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "rope_scaling": {"factor": 8.0, "x": [1, null, true]},
        "tie_word_embeddings": false, "vocab_size": 128256, "rms_norm_eps": 1e-05})";

TEST(ModelSource, ReadsAShortYaml) {
  const auto model = ParseModelYaml(kLlamaYaml);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name, "mine");
  EXPECT_EQ(CountParameters(*model).total, 8'030'261'248);
}

TEST(ModelSource, ReadsLatentAttentionAndExpertsFromYaml) {
  const auto model = ParseModelYaml(
      "layers: 61\nhidden: 7168\nheads: 128\nquery_rank: 1536\nkv_rank: 512\nnope_size: 128\n"
      "rope_size: 64\nvalue_size: 128\nffn: 18432\nexperts: 256\ntop_k: 8\nexpert_width: 2048\n"
      "shared_expert_width: 2048\nrouter_bias: true\ndense_layers: 3\nvocabulary: 129280\n");
  EXPECT_EQ(TotalOf(model), 671'026'419'200) << model.status();
}

TEST(ModelSource, ReadsConfigsOfHuggingFace) {
  EXPECT_EQ(TotalOf(ParseHuggingFaceConfig(kLlamaConfig)), 8'030'261'248);
  EXPECT_EQ(TotalOf(ParseHuggingFaceConfig(
                R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12,
                    "n_positions": 1024, "vocab_size": 50257})")),
            124'439'808);
  EXPECT_EQ(TotalOf(ParseHuggingFaceConfig(
                R"({"model_type": "bloom", "n_embed": 14336, "n_layer": 70,
                    "num_attention_heads": 112, "vocab_size": 250880})")),
            176'247'271'424);
  EXPECT_EQ(TotalOf(ParseHuggingFaceConfig(
                R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
                    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
                    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000})")),
            46'702'792'704);
  EXPECT_EQ(TotalOf(ParseHuggingFaceConfig(
                R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
                    "head_dim": 128, "num_attention_heads": 32, "num_hidden_layers": 48,
                    "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8,
                    "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [],
                    "vocab_size": 151936})")),
            30'532'122'624);
  EXPECT_EQ(TotalOf(ParseHuggingFaceConfig(
                R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
                    "num_attention_heads": 128, "num_hidden_layers": 61, "q_lora_rank": 1536,
                    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                    "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1,
                    "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
                    "first_k_dense_replace": 3, "topk_method": "noaux_tc", "vocab_size": 129280})")),
            671'026'419'200);
}

TEST(ModelSource, EveryCutOfAConfigIsRefusedWithAMessage) {
  for (size_t length = 0; length < kLlamaConfig.size(); ++length) {
    const auto model = ParseHuggingFaceConfig(kLlamaConfig.substr(0, length));
    ASSERT_FALSE(model.ok()) << length;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr("byte")) << length;
  }
  EXPECT_THAT(ConfigError(kLlamaConfig.substr(0, 100)), HasSubstr("is the file cut off?"));
}

TEST(ModelSource, BadConfigsNameFieldAndWayOut) {
  EXPECT_THAT(ConfigError("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(ConfigError("{}"), HasSubstr("model_type: is missing"));
  EXPECT_THAT(ConfigError(R"({"model_type": "mamba", "num_hidden_layers": 1, "hidden_size": 8,
                              "vocab_size": 8, "num_attention_heads": 1, "intermediate_size": 8})"),
              HasSubstr("model_type: \"mamba\" is not known: use one of bloom"));
  EXPECT_THAT(ConfigError(R"({"model_type": "llama"})"),
              HasSubstr("num_hidden_layers: is missing"));
  EXPECT_THAT(ConfigError(R"({"model_type": "llama", "num_hidden_layers": "32"})"),
              HasSubstr("num_hidden_layers: \"32\" is not a whole number"));
  EXPECT_THAT(ConfigError(R"({"model_type": "llama", "num_hidden_layers": 1.5})"),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(ConfigError(R"({"a": 1, "a": 2})"), HasSubstr("\"a\" is set twice"));
  EXPECT_THAT(ConfigError(R"({"a": 01})"), HasSubstr("expected a value"));
  EXPECT_THAT(ConfigError(R"({"a": 1} x)"), HasSubstr("text follows"));
  const std::string deep = R"({"a": )" + std::string(100, '[');
  EXPECT_THAT(ConfigError(deep), HasSubstr("nested deeper than 32"));
  const auto with = [](std::string_view heads, std::string_view hidden) {
    return fmt::format(
        R"({{"model_type": "llama", "hidden_size": {}, "intermediate_size": 8, "vocab_size": 8,
            "num_attention_heads": {}, "num_hidden_layers": 2}})",
        hidden, heads);
  };
  EXPECT_THAT(ConfigError(with("0", "64")), HasSubstr("num_attention_heads: 0"));
  EXPECT_THAT(ConfigError(with("7", "64")),
              HasSubstr("hidden_size: 64 is not divisible by num_attention_heads (7)"));
}

TEST(ModelSource, BadYamlNamesLineOrFieldAndWayOut) {
  EXPECT_THAT(YamlError("layers 3\n"), HasSubstr("line 1: expected `key: value`"));
  EXPECT_THAT(YamlError("layers:\n"), HasSubstr("layers: has no value"));
  EXPECT_THAT(YamlError("a:\n  b: 1\n"), HasSubstr("line 1"));
  EXPECT_THAT(YamlError("layers: 1\n  b: 1\n"), HasSubstr("line 2: lists and nested"));
  EXPECT_THAT(YamlError("layers: 1\nlayers: 2\n"), HasSubstr("layers: is set twice"));
  EXPECT_THAT(YamlError("layers: [1]\n"), HasSubstr("cannot begin with '['"));
  EXPECT_THAT(YamlError("layres: 3\n"),
              HasSubstr("layres: is no field of a model: did you mean layers?"));
  EXPECT_THAT(YamlError("layers: many\n"), HasSubstr("layers: \"many\" is not a whole number"));
  EXPECT_THAT(YamlError("mlp: relu\n"),
              HasSubstr("mlp: \"relu\" is not known: use swiglu or gelu"));
  EXPECT_THAT(YamlError("biases: 3\n"), HasSubstr("biases: \"3\" is not true or false"));
  EXPECT_THAT(YamlError("layers: 4\nhidden: 64\n"), HasSubstr("heads: 0"));
  EXPECT_THAT(YamlError("layers: 4\nhidden: 64\nheads: 7\n"),
              HasSubstr("hidden: 64 is not divisible by heads (7)"));
  EXPECT_THAT(YamlError("name: \"a\n"), HasSubstr("a quoted text must end"));
  EXPECT_THAT(YamlError("layers:\t4\n"), HasSubstr("a tab"));
}

TEST(ModelSource, TakesExactlyOneSource) {
  EXPECT_EQ(TotalOf(ResolveModel({.preset = "llama-3-8b"})), 8'030'261'248);
  EXPECT_EQ(TotalOf(ResolveModel({.yaml = std::string(kLlamaYaml)})), 8'030'261'248);
  EXPECT_EQ(TotalOf(ResolveModel({.hugging_face = std::string(kLlamaConfig)})), 8'030'261'248);
  EXPECT_THAT(std::string(ResolveModel({}).status().message()), HasSubstr("has no source"));
  EXPECT_THAT(std::string(ResolveModel({.preset = "a", .yaml = "b"}).status().message()),
              HasSubstr("more than one source: keep one"));
  EXPECT_THAT(std::string(ResolveModel({.preset = "llama3-8b"}).status().message()),
              HasSubstr("preset: \"llama3-8b\" is not known: did you mean llama-3-8b?"));
}

TEST(FieldTable, BoundsWhatItReads) {
  std::string many = "{";
  for (size_t field = 0; field <= kFieldsMax; ++field) {
    many += fmt::format("{}\"k{}\": 1", field == 0 ? "" : ",", field);
  }
  EXPECT_THAT(ConfigError(many + "}"), HasSubstr("more than 1000 fields"));
  EXPECT_THAT(ConfigError(std::string(kFieldBytesMax + 1, ' ')), HasSubstr("are more than"));
  EXPECT_THAT(YamlError(std::string(kFieldBytesMax + 1, ' ')), HasSubstr("are more than"));
}

TEST(FieldTable, ReadsEscapesAndNumbers) {
  const auto fields =
      ParseJsonFields(R"({"a": "x\n\"\u00e9", "b": -1.5e3, "c": null, "d": 4096.0})");
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ(*fields->TextOr("a", ""), "x\n\"?");
  EXPECT_EQ(*fields->Whole("b"), -1500);
  EXPECT_EQ(fields->Find("c"), nullptr);
  EXPECT_EQ(*fields->WholeOr("c", 7), 7);
  EXPECT_EQ(*fields->Whole("d"), 4096);
}

}  // namespace
}  // namespace asterism::planner
