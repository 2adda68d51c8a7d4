#include "planner/model_spec.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/model_presets.h"

namespace asterism::planner {
namespace {

using testing::HasSubstr;

struct Published {
  const char* name;
  int64_t total;
};

class PublishedTotal : public testing::TestWithParam<Published> {};

// Sizes of the checkpoints on the Hugging Face hub, without quantisation scales and without
// multi-token prediction.
TEST_P(PublishedTotal, IsExact) {
  const ModelSpec* model = FindModelPreset(GetParam().name);
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(CheckModel(*model).ok()) << CheckModel(*model);
  EXPECT_EQ(CountParameters(*model).total, GetParam().total);
}

INSTANTIATE_TEST_SUITE_P(
    Models, PublishedTotal,
    testing::Values(
        Published{"gpt-2", 124'439'808}, Published{"llama-2-7b", 6'738'415'616},
        Published{"llama-2-70b", 68'976'648'192}, Published{"llama-3-8b", 8'030'261'248},
        Published{"llama-3-70b", 70'553'706'496}, Published{"llama-3-405b", 405'853'388'800},
        Published{"mistral-7b", 7'241'732'096}, Published{"mixtral-8x7b", 46'702'792'704},
        Published{"qwen2.5-7b", 7'615'616'512}, Published{"qwen3-30b-a3b", 30'532'122'624},
        Published{"qwen3-235b-a22b", 235'093'634'560}, Published{"deepseek-v2", 235'741'434'880},
        Published{"deepseek-v3", 671'026'419'200}, Published{"bloom-176b", 176'247'271'424}),
    [](const testing::TestParamInfo<Published>& each) {
      std::string name = each.param.name;
      for (char& letter : name) {
        letter = std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
      }
      return name;
    });

TEST(ModelSpec, CountsWhatOneTokenMeets) {
  // Published: 3.3 and 22 billion of Qwen3, 37 of DeepSeek-V3 (with the head and without the
  // embedding), 12.9 of Mixtral.
  const auto active_billions = [](const char* name) {
    return static_cast<double>(CountParameters(*FindModelPreset(name)).active) / 1e9;
  };
  EXPECT_NEAR(active_billions("qwen3-30b-a3b"), 3.3, 0.06);
  EXPECT_NEAR(active_billions("qwen3-235b-a22b"), 22.2, 0.1);
  EXPECT_NEAR(active_billions("deepseek-v3"), 37.5, 0.1);
  EXPECT_NEAR(active_billions("mixtral-8x7b"), 12.9, 0.05);
  EXPECT_EQ(CountParameters(*FindModelPreset("llama-3-8b")).active, 8'030'261'248);
}

TEST(ModelSpec, MultiTokenPredictionAddsALayerAndAProjection) {
  ModelSpec model = *FindModelPreset("deepseek-v3");
  const int64_t without = CountParameters(model).total;
  model.mtp_depth = 1;
  const int64_t added = CountParameters(model).total - without;
  EXPECT_EQ(added, ExpertLayerParameters(model).total() + 2 * 7168 * 7168 + 3 * 7168);
}

TEST(ModelSpec, TiedEmbeddingCountsOnce) {
  ModelSpec model = *FindModelPreset("llama-3-8b");
  model.tied_embeddings = true;
  EXPECT_EQ(CountParameters(model).total, 8'030'261'248 - 128256 * 4096);
  EXPECT_EQ(CountParameters(model).head, 0);
}

TEST(ModelSpec, RefusalNamesFieldAndWayOut) {
  const auto message = [](auto change) {
    ModelSpec model = *FindModelPreset("mixtral-8x7b");
    change(model);
    return std::string(CheckModel(model).message());
  };
  EXPECT_THAT(message([](ModelSpec& m) { m.layers = 0; }),
              HasSubstr("layers: 0 is out of range: use a whole number from 1"));
  EXPECT_THAT(message([](ModelSpec& m) { m.attention.heads = 0; }), HasSubstr("heads: 0"));
  EXPECT_THAT(message([](ModelSpec& m) { m.attention.kv_heads = 5; }),
              HasSubstr("kv_heads: 5 does not divide heads (32)"));
  EXPECT_THAT(message([](ModelSpec& m) { m.experts.top_k = 9; }), HasSubstr("top_k: 9"));
  EXPECT_THAT(message([](ModelSpec& m) { m.vocabulary = -1; }), HasSubstr("vocabulary: -1"));
  EXPECT_THAT(message([](ModelSpec& m) { m.experts.count = 0; }), HasSubstr("set experts too"));
  EXPECT_THAT(message([](ModelSpec& m) { m.dense_layers = 1; }), HasSubstr("ffn: 0"));
  EXPECT_THAT(message([](ModelSpec& m) { m.attention.kind = AttentionKind::kLatent; }),
              HasSubstr("kv_rank: 0"));
  EXPECT_EQ(message([](ModelSpec&) {}), "");
}

TEST(ModelPresets, NamesAreSortedAndFound) {
  const std::vector<std::string> names = ModelPresetNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    ASSERT_NE(FindModelPreset(name), nullptr);
    EXPECT_TRUE(CheckModel(*FindModelPreset(name)).ok()) << name;
  }
  EXPECT_EQ(FindModelPreset("llama-9"), nullptr);
  EXPECT_EQ(NearestPreset("lama-3-8b"), "llama-3-8b");
}

}  // namespace
}  // namespace asterism::planner
