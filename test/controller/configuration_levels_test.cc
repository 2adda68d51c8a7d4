#include <string>

#include "controller/configuration.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using testing::HasSubstr;

absl::StatusOr<Configuration> ParseLevels(std::string_view levels) {
  return ParseConfiguration(fmt::format("apiVersion: {}\nkind: {}\nlevels: {}\n",
                                        kConfigurationApiVersion, kConfigurationKind, levels));
}
std::string LevelErrors(std::string_view levels) {
  return std::string(ParseLevels(levels).status().message());
}

TEST(ConfigurationLevels, OneToSixteen) {
  EXPECT_EQ(ParseLevels("[{name: node}]")->levels.size(), 1u);
  EXPECT_EQ(ParseLevels("[{name: node}, {name: cluster}]")->levels.size(), 2u);
  std::string levels = "[{name: node}";
  for (int i = 1; i < 15; ++i) {
    levels += fmt::format(", {{name: ring-{}, source: {{label: ring-{}}}}}", i, i);
  }
  const auto sixteen = ParseLevels(levels + ", {name: cluster}]");
  ASSERT_TRUE(sixteen.ok()) << sixteen.status();
  EXPECT_EQ(sixteen->levels[14].label, "ring-14");
  EXPECT_THAT(LevelErrors(levels + ", {name: x, source: {label: x}}, {name: cluster}]"),
              HasSubstr("levels: is not a list of levels: give 1 to 16 levels"));
  EXPECT_THAT(LevelErrors("[]"), HasSubstr("give 1 to 16 levels"));
  EXPECT_THAT(LevelErrors("node"), HasSubstr("give 1 to 16 levels"));
}

TEST(ConfigurationLevels, NamesAreShortLowerCaseAndUnique) {
  for (const char* bad : {"Node", "a b", "''", "a_b", "'123456789012345678901234567890123'"}) {
    EXPECT_THAT(LevelErrors(fmt::format("[{{name: {}}}, {{name: cluster}}]", bad)),
                HasSubstr("levels[0].name: is missing or not a level name"))
        << bad;
  }
  EXPECT_THAT(LevelErrors("[{}, {name: cluster}]"), HasSubstr("levels[0].name"));
  EXPECT_THAT(LevelErrors("[node, {name: cluster}]"), HasSubstr("levels[0].name"));
  EXPECT_THAT(LevelErrors("[{name: a}, {name: a}]"), HasSubstr("levels[1].name: a is there twice"));
}

TEST(ConfigurationLevels, OnlyTheLevelsBetweenHaveASource) {
  EXPECT_THAT(LevelErrors("[{name: node, source: {label: x}}, {name: cluster}]"),
              HasSubstr("levels[0].source: is not allowed on the first and the last level"));
  EXPECT_THAT(LevelErrors("[{name: node}, {name: cluster, source: {label: x}}]"),
              HasSubstr("levels[1].source: is not allowed"));
  EXPECT_THAT(LevelErrors("[{name: node}, {name: rack}, {name: cluster}]"),
              HasSubstr("levels[1].source: is missing: say which label holds the rack of a node, "
                        "for example source: {label: asterism.dev/declared-rack}"));
}

TEST(ConfigurationLevels, ASourceIsALabelThatOthersWrite) {
  const auto with_source = [](std::string_view source) {
    return LevelErrors(
        fmt::format("[{{name: node}}, {{name: rack, source: {}}}, {{name: cluster}}]", source));
  };
  EXPECT_EQ(with_source("{label: example.com/rack}"), "");
  // Kubelets may not write these.
  EXPECT_EQ(with_source("{label: node-restriction.kubernetes.io/rack}"), "");
  EXPECT_THAT(with_source("{}"), HasSubstr("levels[1].source: has no label"));
  EXPECT_THAT(with_source("rack"), HasSubstr("levels[1].source: has no label"));
  EXPECT_THAT(with_source("{label: [a]}"), HasSubstr("levels[1].source: has no label"));
  EXPECT_THAT(with_source("{label: a b}"), HasSubstr("levels[1].source.label: \"a b\" is not"));
  EXPECT_THAT(with_source("{label: asterism.dev/domain-rack}"),
              HasSubstr("use asterism.dev/declared-rack"));
  EXPECT_THAT(
      with_source("{lable: x, label: x}"),
      HasSubstr("levels[1].source.lable: is not a known field (line 3): did you mean label?"));
}

TEST(ConfigurationLevels, BandwidthAndLatencyAreNumbersAboveZero) {
  const auto levels = ParseLevels(
      "[{name: node, gigabytesPerSecond: 900}, {name: cluster, gigabytesPerSecond: 12.5, "
      "latencyMicroseconds: 20}]");
  ASSERT_TRUE(levels.ok()) << levels.status();
  EXPECT_EQ(levels->levels[0].gigabytes_per_second, 900);
  EXPECT_EQ(levels->levels[1].gigabytes_per_second, 12.5);
  EXPECT_EQ(levels->levels[1].latency_us, 20);
  EXPECT_EQ(*ParseConfiguration(ConfigurationToYaml(*levels)), *levels);
  for (const char* bad : {"0", "-1", "fast", "'50'", "1e9", "nan", "[50]"}) {
    EXPECT_THAT(LevelErrors(fmt::format("[{{name: node, gigabytesPerSecond: {}}}]", bad)),
                HasSubstr("levels[0].gigabytesPerSecond: "))
        << bad;
  }
}

absl::StatusOr<Configuration> ParseProducts(std::string_view products) {
  return ParseConfiguration(fmt::format("apiVersion: {}\nkind: {}\nplanner: {{gpuProducts: {}}}\n",
                                        kConfigurationApiVersion, kConfigurationKind, products));
}

TEST(ConfigurationGpuProducts, NameAGpuThatThePlannerKnows) {
  const auto products = ParseProducts("[{product: NVIDIA-H800, gpu: H100}]");
  ASSERT_TRUE(products.ok()) << products.status();
  EXPECT_EQ(products->gpu_products[0], (GpuProductConfiguration{"NVIDIA-H800", "H100"}));
  EXPECT_EQ(*ParseConfiguration(ConfigurationToYaml(*products)), *products);
  const auto errors = [](std::string_view text) {
    return std::string(ParseProducts(text).status().message());
  };
  EXPECT_THAT(errors("[{product: X, gpu: H900}]"),
              HasSubstr("planner.gpuProducts[0].gpu: \"H900\" is no GPU that the planner knows: "
                        "use one of A100-40"));
  EXPECT_THAT(errors("[{gpu: H100}]"), HasSubstr("planner.gpuProducts[0].product: is missing"));
  EXPECT_THAT(errors("[{product: X, gpu: H100}, {product: X, gpu: H200}]"),
              HasSubstr("planner.gpuProducts[1].product: \"X\" is there twice"));
  EXPECT_THAT(errors("[{product: X, gpu: H100, cards: 1}]"),
              HasSubstr("planner.gpuProducts[0].cards: is not a known field"));
  EXPECT_THAT(errors("[H100]"), HasSubstr("planner.gpuProducts[0]"));
  EXPECT_THAT(errors("H100"), HasSubstr("planner.gpuProducts: is not a list of products"));
}

TEST(ConfigurationLevels, ASourceMayBeMeasured) {
  using Kind = topology::LevelSource::Kind;
  const auto levels = ParseLevels(
      "[{name: node}, {name: supernode, source: Auto}, {name: island, source: NVLink}, "
      "{name: slice, source: {slice: 8}}, {name: group, source: LeafGroup}, "
      "{name: block, source: Tier}, {name: room, source: Declared}, {name: cluster}]");
  ASSERT_TRUE(levels.ok()) << levels.status();
  const std::vector<LevelConfiguration>& read = levels->levels;
  EXPECT_EQ(read[1].kind, Kind::kAuto);
  EXPECT_EQ(read[2].kind, Kind::kNvlink);
  EXPECT_EQ(read[3], (LevelConfiguration{"slice", "", Kind::kSlice, 8}));
  EXPECT_EQ(read[4].kind, Kind::kLeafGroup);
  EXPECT_EQ(read[5].kind, Kind::kTier);
  EXPECT_EQ(read[6].kind, Kind::kDeclared);
  const auto with_source = [](std::string_view source) {
    return LevelErrors(
        fmt::format("[{{name: node}}, {{name: rack, source: {}}}, {{name: cluster}}]", source));
  };
  EXPECT_THAT(with_source("Nvlink"), HasSubstr("(NVLink is nearest)"));
  EXPECT_THAT(with_source("{slice: 0}"), HasSubstr("levels[1].source.slice: is not a number"));
  EXPECT_THAT(with_source("{slice: four}"), HasSubstr("for example {slice: 4}"));
  EXPECT_THAT(with_source("{slice: 4, label: x}"), HasSubstr("keep one of them"));
}

TEST(ConfigurationLevels, TwoLevelsNeverShareALabel) {
  EXPECT_THAT(LevelErrors("[{name: node}, {name: a, source: {label: x}}, "
                          "{name: b, source: {label: x}}, {name: cluster}]"),
              HasSubstr("levels[2].source.label: x is there twice"));
}

TEST(ConfigurationLevels, UnknownKeysNameTheNearest) {
  EXPECT_THAT(LevelErrors("[{name: node, sources: ~}, {name: cluster}]"),
              HasSubstr("levels[0].sources: is not a known field (line 3): did you mean source?"));
}

}  // namespace
}  // namespace asterism::controller
