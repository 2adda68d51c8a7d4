#include "controller/topology_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/scheduler/cluster_fixture.h"

namespace asterism::controller {
namespace {

using nlohmann::json;
using scheduler::TestCluster;
using ::testing::ElementsAre;

json PageOf(TestCluster& cluster) {
  const std::string text =
      TopologyPage(*cluster.ledger().View(), {.gpu_resources = {"nvidia.com/gpu"}});
  return json::parse(text);
}

json DomainOf(const json& page, const std::string& level, const std::string& name) {
  for (const json& domain : page["domains"]) {
    if (domain["level"] == level && domain["name"] == name) {
      return domain;
    }
  }
  return {};
}

json Gpus(int total, int free, int held, int faulty) {
  return {{"total", total}, {"free", free}, {"held", held}, {"spare", 0}, {"faulty", faulty}};
}

void Book(TestCluster& cluster, const std::string& uid, int64_t pods) {
  const scheduler::PlacementRequest request = cluster.Request(pods, 8);
  cluster.Book(uid, request, std::get<scheduler::Placed>(Place(request, cluster.ledger())));
}

TEST(TopologyPage, AClusterWithoutNodesHasLevelsAndOneEmptyDomainAtMost) {
  TestCluster cluster({"node", "leaf", "cluster"}, 8);
  cluster.Build();
  const json page = PageOf(cluster);
  EXPECT_EQ(page["levels"], json({"node", "leaf", "cluster"}));
  EXPECT_LE(page["domains"].size(), 1u);
}

TEST(TopologyPage, CountsEachGpuOnceAtEveryLevel) {
  TestCluster cluster({"node", "leaf", "cluster"}, 8);
  for (int node = 0; node < 4; ++node) {
    cluster.AddNode(fmt::format("n{}", node), {node < 2 ? "L0" : "L1"});
  }
  cluster.Build();
  cluster.Occupy("n0", 3);
  cluster.Occupy("n2", 8);
  cluster.SetUsable("n0", false);
  cluster.SetUsable("n1", false);
  cluster.SetUsable("n2", false);
  const json page = PageOf(cluster);
  EXPECT_EQ(DomainOf(page, "node", "n0")["gpus"], Gpus(8, 0, 3, 5));
  EXPECT_EQ(DomainOf(page, "node", "n1")["gpus"], Gpus(8, 0, 0, 8));
  EXPECT_EQ(DomainOf(page, "node", "n2")["gpus"], Gpus(8, 0, 8, 0));
  EXPECT_EQ(DomainOf(page, "leaf", "L0")["gpus"], Gpus(16, 0, 3, 13));
  EXPECT_EQ(DomainOf(page, "leaf", "L1")["gpus"], Gpus(16, 8, 8, 0));
  const json whole = page["domains"].back();
  EXPECT_EQ(whole["level"], "cluster");
  EXPECT_EQ(whole["parent"], "");
  EXPECT_EQ(whole["nodes"], 4);
  EXPECT_EQ(whole["unusableNodes"], 3);
  EXPECT_EQ(whole["gpus"], Gpus(32, 8, 11, 13));
  EXPECT_EQ(DomainOf(page, "leaf", "L1")["parent"], whole["name"]);
  EXPECT_EQ(DomainOf(page, "node", "n2")["parent"], "L1");
}

TEST(TopologyPage, OvercommittedNodesHoldNoMoreThanTheyHave) {
  TestCluster cluster({"node", "cluster"}, 8);
  cluster.AddNode("n0", {});
  cluster.Build();
  cluster.Occupy("n0", 8);
  cluster.Occupy("n0", 8);
  EXPECT_EQ(DomainOf(PageOf(cluster), "node", "n0")["gpus"], Gpus(8, 0, 8, 0));
}

TEST(TopologyPage, NamesEachJobOnceAndTenAtMost) {
  TestCluster cluster({"node", "cluster"}, 8);
  for (int node = 0; node < 14; ++node) {
    cluster.AddNode(fmt::format("n{:02}", node), {});
  }
  cluster.Build();
  Book(cluster, "b-two", 2);
  for (int job = 0; job < 12; ++job) {
    Book(cluster, fmt::format("c{:02}", job), 1);
  }
  const json page = PageOf(cluster);
  const json whole = page["domains"].back();
  EXPECT_EQ(whole["jobCount"], 13);
  EXPECT_EQ(whole["jobs"].size(), kTopologyJobsMax);
  EXPECT_EQ(whole["jobs"][0], "default/b-two");
  EXPECT_EQ(whole["jobs"][9], "default/c08");
  EXPECT_THAT(page["domains"][0]["jobs"], ElementsAre("default/b-two"));
}

TEST(TopologyPage, OddNamesStayValidJson) {
  TestCluster cluster({"node", "leaf", "cluster"}, 8);
  cluster.AddNode("n0", {"a\"b\\\n\xff"});
  cluster.Build();
  EXPECT_EQ(PageOf(cluster)["domains"].size(), 3u);
}

TEST(TopologyPage, ItsCostAt1280NodesIsPrinted) {
  TestCluster cluster({"node", "supernode", "cluster"}, 8);
  for (int node = 0; node < 1280; ++node) {
    cluster.AddNode(fmt::format("gpu-{:04}", node), {fmt::format("s{:03}", node / 4)});
  }
  cluster.Build();
  for (int job = 0; job < 40; ++job) {
    Book(cluster, fmt::format("job-{:02}", job), 16);
  }
  const auto view = cluster.ledger().View();
  base::SystemClock clock;
  const base::SteadyTime begin = clock.SteadyNow();
  const std::string text = TopologyPage(*view, {.gpu_resources = {"nvidia.com/gpu"}});

  fmt::print("{} bytes in {}\n", text.size(), absl::FormatDuration(clock.SteadyNow() - begin));
  EXPECT_EQ(json::parse(text)["domains"].size(), 1601u);
}

}  // namespace
}  // namespace asterism::controller
