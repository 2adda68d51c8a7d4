#include "cli/topology_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/topology_picture.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/cli/golden.h"
#include "test/cli/pages.h"

namespace asterism::cli {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kThree = {"node", "supernode", "cluster"};

TopologyTree TreeOf(const TestTopology& page) {
  absl::StatusOr<TopologyTree> tree = ParseTopologyTree(page.Text());
  EXPECT_TRUE(tree.ok()) << tree.status();
  return *std::move(tree);
}

std::string Shown(const TestTopology& page, const TopologyViewOptions& options = {},
                  const Paper& paper = {}) {
  return Print(TopologyLines(TreeOf(page), options), paper);
}

TestTopology MixedUse() {
  TestTopology page(kThree, 1280, {4});
  for (size_t node = 0; node < 256; ++node) {
    page.Hold(node, 8, "research/llama");
  }
  page.Hold(256, 8, "vision/vit");
  page.Hold(257, 8, "vision/vit");
  page.Hold(300, 3, "default/notebook");
  return page;
}

TEST(TopologyView, AClusterWithoutNodesSaysWhatMakesOne) {
  ExpectGolden("topology-empty", Shown(TestTopology(kThree, 0, {4})));
}

TEST(TopologyView, AnIdleClusterOf1280NodesTakesTwoLines) {
  ExpectGolden("topology-idle", Shown(TestTopology(kThree, 1280, {4})));
}

TEST(TopologyView, MixedUseFoldsWhatIsEqual) {
  ExpectGolden("topology-mixed", Shown(MixedUse()));
}

TEST(TopologyView, FaultyNodesAreCountedAndNamed) {
  TestTopology page(kThree, 1280, {4});
  page.Fault(5);
  page.Hold(9, 8, "research/llama");
  page.Fault(9);
  page.Fault(1000);
  ExpectGolden("topology-faulty", Shown(page));
}

TEST(TopologyView, SixteenLevelsIndentOncePerLevel) {
  std::vector<std::string> levels = {"node"};
  for (int level = 1; level < 15; ++level) {
    levels.push_back(fmt::format("l{:02}", level));
  }
  levels.emplace_back("cluster");
  TestTopology page(levels, 512, {2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1});
  page.Hold(0, 8, "research/llama");
  ExpectGolden("topology-16-levels", Shown(page));
}

TEST(TopologyView, OddNamesCannotActOnTheTerminal) {
  TestTopology page({"node", "cluster"}, 4, {});
  page.Name(0, "a\x1b[2Jb");
  page.Name(1, "x,y\n");
  page.Name(2, "\xe2\x80\xaegnp");
  page.Hold(3, 8, "evil/\x1b]0;title\x07");
  ExpectGolden("topology-odd-names", Shown(page, {.wide = true}));
  ExpectGolden("topology-odd-names-folded", Shown(page, {}, {.width = 0, .colour = true}));
}

TEST(TopologyView, NarrowTerminalsCutLines) {
  ExpectGolden("topology-mixed-40", Shown(MixedUse(), {}, {.width = 40}));
  const std::string one = Shown(MixedUse(), {}, {.width = 1});
  EXPECT_THAT(one, HasSubstr("c\n"));
}

TEST(TopologyView, ALevelUnfoldsEveryDomainDownToIt) {
  TestTopology page(kThree, 16, {4});
  page.Hold(1, 8, "research/llama");
  page.Hold(2, 4, "research/bert");
  page.Hold(2, 4, "research/llama");
  ExpectGolden("topology-level-supernode", Shown(page, {.level = 1}));
  ExpectGolden("topology-wide", Shown(page, {.wide = true}));
}

TEST(TopologyView, ManyKindsShareALastLine) {
  TestTopology page(kThree, 160, {4});
  for (size_t supernode = 0; supernode < 40; ++supernode) {
    for (size_t gpu = 0; gpu < supernode % 33; ++gpu) {
      page.Hold(supernode * 4 + gpu / 8, 1, "research/llama");
    }
  }
  ExpectGolden("topology-many-kinds", Shown(page));
}

TEST(TopologyView, AStandbysPictureIsMarked) {
  TestTopology page({"node", "cluster"}, 2, {});
  page.set_leading(false);
  EXPECT_THAT(Shown(page), HasSubstr("does not lead"));
}

TEST(TopologyTree, JsonHasTheDocumentedFields) {
  TestTopology page(kThree, 8, {4});
  page.Hold(1, 8, "research/llama");
  ExpectGolden("topology-json", TopologyJson(TreeOf(page), std::nullopt).dump(1) + "\n");
  EXPECT_EQ(TopologyJson(TreeOf(page), 1)["domains"].size(), 2u);
}

TEST(TopologyTree, WrongPagesAreErrorsThatNameTheField) {
  const auto error = [](std::string_view text) {
    return ParseTopologyTree(text).status().ToString();
  };
  EXPECT_THAT(error("<html>"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error(R"({"levels":["a"],"domains":[{"level":"b"}]})"),
              HasSubstr("domains[0].level"));
  EXPECT_THAT(error(R"({"levels":["a","b"],"domains":[{"level":"a","name":"x","parent":"y"}]})"),
              HasSubstr("has the parent \"y\""));
  EXPECT_THAT(error(R"({"levels":["a"],"domains":[{"level":"a","gpus":{"free":-1}}]})"),
              HasSubstr("gpus.free"));
  EXPECT_THAT(error(R"({"levels":["a"],"domains":[{"level":"a"},{"level":"a"}]})"),
              HasSubstr("twice"));
  EXPECT_TRUE(ParseTopologyTree("{}").ok());
}

TEST(TopologyPicture, TenThousandGpusFitOnePage) {
  TestTopology page = MixedUse();
  page.Fault(700);
  const std::string svg = TopologySvg(TreeOf(page));
  ExpectGolden("topology-picture-svg", svg);
  EXPECT_LT(svg.size(), 16'000U);
  ExpectGolden("topology-picture-dot", TopologyDot(TreeOf(page)));
}

TEST(TopologyPicture, SeveralLevelsNest) {
  TestTopology page({"node", "slice", "leafgroup", "cluster"}, 96, {4, 6});
  for (size_t node = 0; node < 20; ++node) {
    page.Hold(node, 8, "research/llama");
  }
  ExpectGolden("topology-picture-levels-svg", TopologySvg(TreeOf(page)));
}

TEST(TopologyPicture, ForeignNamesCannotLeaveTheirPlace) {
  TestTopology page({"node", "cluster"}, 2, {});
  page.Name(0, "<script>\"&\x1b[31m");
  page.Hold(0, 1, "a/b");
  const std::string svg = TopologySvg(TreeOf(page));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&quot;&amp;"));
  EXPECT_EQ(svg.find('\x1b'), std::string::npos);
  EXPECT_THAT(TopologyDot(TreeOf(page)), HasSubstr("<script>\\\"&"));
}

TEST(TopologyPicture, NoNodeIsAPictureToo) {
  EXPECT_THAT(TopologySvg(TreeOf(TestTopology(kThree, 0, {4}))), HasSubstr("no GPU node is known"));
}

}  // namespace
}  // namespace asterism::cli
