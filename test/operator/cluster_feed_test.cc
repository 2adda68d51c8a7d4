#include "operator/cluster_feed.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/rng.h"
#include "feed_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "operator/direct_commit.h"

namespace asterism::operators {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ClusterFeedGpus, AreCountedNodeByNode) {
  TestFeed feed;
  EXPECT_EQ(feed->GpusOfNode("nvidia.com/gpu").commonest, 0);
  feed.PutNode("n1", {.gpus = 8});
  feed.PutNode("n2", {.gpus = 4});
  EXPECT_EQ(feed->GpusOfNode("nvidia.com/gpu").commonest, 8) << "of equals the larger";
  feed.PutNode("n3", {.gpus = 4});
  EXPECT_EQ(feed->GpusOfNode("nvidia.com/gpu").commonest, 4);
  EXPECT_EQ(feed->GpusOfNode("nvidia.com/gpu").largest, 8);
  feed.RemoveNode("n1");
  EXPECT_EQ(feed->GpusOfNode("nvidia.com/gpu").largest, 4);
  EXPECT_EQ(feed->GpusOfNode("cpu").largest, 0) << "counts no GPUs";
  EXPECT_EQ(feed->GpusOfNode("amd.com/gpu").largest, 0);
}

TEST(ClusterFeedBoundPods, GoWhereNodeAndTemplateSuitEachOtherNow) {
  TestFeed feed;
  kube::Node node{.meta = {.name = "n1"}};
  node.meta.labels["zone"] = "a";
  node.capacity = node.allocatable = {{"nvidia.com/gpu", 8}};
  node.conditions = {{.type = "Ready", .status = "True"}};
  const auto put = [&](std::vector<kube::Taint> taints, const std::string& zone = "a") {
    kube::Node next = node;
    next.taints = std::move(taints);
    next.meta.labels["zone"] = zone;
    feed->OnNode({.before = nullptr, .after = std::make_shared<kube::Node>(next)});
  };
  const kube::Taint ours{.key = std::string(kManagedTaint), .effect = "NoSchedule"};
  const TemplateFit fit = ReadTemplateFit(nlohmann::json::parse(
      R"({"nodeSelector": {"zone": "a"},
          "tolerations": [{"key": "asterism.dev/managed", "operator": "Exists"}]})"));
  put({});
  EXPECT_FALSE(feed->TakesBoundPods("n1", fit)) << "open to other schedulers";
  put({ours});
  EXPECT_TRUE(feed->TakesBoundPods("n1", fit));
  put({ours, {.key = "maintenance", .effect = "NoSchedule"}});
  EXPECT_FALSE(feed->TakesBoundPods("n1", fit)) << "tainted meanwhile";
  put({ours}, "b");
  EXPECT_FALSE(feed->TakesBoundPods("n1", fit)) << "its label has changed";
  EXPECT_FALSE(feed->TakesBoundPods("n2", fit));
}

// By walking all nodes, as it is meant.
NodeGpus CountAgain(const TestFeed& feed) {
  std::map<int64_t, int64_t> nodes_by_count;
  for (const auto& [name, node] : feed.nodes()) {
    for (const kube::ResourceAmount& amount : node->capacity) {
      nodes_by_count[amount.amount] += amount.name == "nvidia.com/gpu" ? 1 : 0;
    }
  }
  NodeGpus gpus;
  int64_t nodes_max = 0;
  for (const auto& [count, nodes] : nodes_by_count) {
    if (nodes > 0) {
      gpus.largest = count;
      gpus.commonest = nodes >= nodes_max ? count : gpus.commonest;
      nodes_max = std::max(nodes_max, nodes);
    }
  }
  return gpus;
}

TEST(ClusterFeedProperty, GpusOfNodeIsWhatAWalkOverAllNodesCounts) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    base::Rng rng(seed);
    TestFeed feed;
    for (int step = 0; step < 100; ++step) {
      const std::string name = "n" + std::to_string(rng.Below(10));
      if (rng.Chance(0.3) && feed.nodes().contains(name)) {
        feed.RemoveNode(name);
      } else {
        feed.PutNode(name, {.gpus = static_cast<int64_t>(rng.Below(5))});
      }
      const NodeGpus expected = CountAgain(feed);
      const NodeGpus actual = feed->GpusOfNode("nvidia.com/gpu");
      ASSERT_EQ(actual.commonest, expected.commonest) << "seed " << seed;
      ASSERT_EQ(actual.largest, expected.largest) << "seed " << seed;
    }
  }
}

TEST(ClusterFeedGpus, AddUpByProduct) {
  TestFeed feed;
  feed.PutNode("n1", {.gpus = 8, .product = "H100"});
  feed.PutNode("n2", {.gpus = 4, .product = "H100", .ready = false});
  feed.PutNode("n3", {.gpus = 2});
  feed.PutNode("n4", {.gpus = 0, .product = "none"});
  EXPECT_THAT(feed->GpusByProduct(), ElementsAre(Pair("", 2), Pair("H100", 12)));
}

TEST(ClusterFeedSlots, ArePromisedToNoNameThatOnlyPodsAskFor) {
  TestFeed feed;
  feed.PutNode("n1", {});
  feed->Refresh();
  for (int i = 0; i < 100; ++i) {
    feed.PutPod("p" + std::to_string(i),
                {.node = "n1", .requests = {{"invented.com/r" + std::to_string(i), 1}}});
  }
  feed.PutNode("n2", {.more = {{"cpu", 1000}, {"rdma/nic", 4}}});
  feed->Refresh();
  const std::optional<size_t> nics = feed->resources().Find("rdma/nic");
  ASSERT_TRUE(nics.has_value());
  EXPECT_EQ(feed->ledger().Free(feed.Find("n2"))[*nics], 4);
  EXPECT_FALSE(feed->resources().Find("invented.com/r0").has_value());
}

TEST(ClusterFeedSlots, GoToNothingThatNodesOfferNoneOf) {
  TestFeed feed;
  feed.PutNode("n1", {.more = {{"hugepages-2Mi", 0}}});
  feed.PutNode("n2", {.gpus = 0, .more = {{"example.com/fpga", 1}}});
  EXPECT_FALSE(feed->resources().Find("hugepages-2Mi").has_value());
  EXPECT_FALSE(feed->resources().Find("example.com/fpga").has_value()) << "not a GPU node";
}

TEST(ClusterFeedSlots, APodSeenBeforeTheResourceIsCountedOnceANodeBringsIt) {
  TestFeed feed;
  feed.PutPod("early", {.node = "n1", .requests = {{"nvidia.com/gpu", 2}, {"rdma/nic", 3}}});
  feed.PutPod("gone", {.node = "n1", .requests = {{"rdma/nic", 1}}});
  feed.RemovePod("gone");
  feed.PutNode("n1", {.more = {{"rdma/nic", 4}}});
  feed->Refresh();
  const scheduler::ResourceVector free = feed->ledger().Free(feed.Find("n1"));
  EXPECT_EQ(free[*feed->resources().Find("rdma/nic")], 1);
  EXPECT_EQ(free[*feed->resources().Find("nvidia.com/gpu")], 6);
  EXPECT_EQ(feed->ledger().Verify(), absl::OkStatus());
}

// Whatever the order of the events, each node has what its pods leave, by every name it offers.
TEST(ClusterFeedProperty, CountsPodsWhateverCameFirst) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    TestFeed feed;
    for (int step = 0; step < 60; ++step) {
      const std::string node = "n" + std::to_string(rng.Below(3));
      const std::string pod = "p" + std::to_string(rng.Below(8));
      const auto resource = [&] { return "r" + std::to_string(rng.Below(3)) + ".com/x"; };
      if (rng.Chance(0.4)) {
        feed.PutNode(node, {.more = {{resource(), static_cast<int64_t>(rng.Below(9))}}});
      } else if (rng.Chance(0.2) && feed.pods().contains(pod)) {
        feed.RemovePod(pod);
      } else {
        feed.PutPod(pod,
                    {.node = node, .requests = {{resource(), static_cast<int64_t>(rng.Below(5))}}});
      }
    }
    feed->Refresh();
    for (const auto& [name, node] : feed.nodes()) {
      for (const kube::ResourceAmount& offered : node->allocatable) {
        int64_t free = offered.amount;
        for (const auto& [pod_name, pod] : feed.pods()) {
          for (const kube::ResourceAmount& request : pod->requests) {
            const bool here = pod->node_name == name && request.name == offered.name;
            free -= here ? request.amount : 0;
          }
        }
        if (offered.name == "pods" || offered.amount == 0) {
          continue;
        }
        const std::optional<size_t> slot = feed->resources().Find(offered.name);
        ASSERT_TRUE(slot.has_value()) << offered.name;
        ASSERT_EQ(feed->ledger().Free(feed.Find(name))[*slot], free) << name << offered.name;
      }
    }
    ASSERT_EQ(feed->ledger().Verify(), absl::OkStatus());
  }
}

TEST(ClusterFeedClasses, ATemplateThatNamesALabelSplitsTheNodesOfTheLedger) {
  TestFeed feed;
  feed.PutNode("n1", {.labels = {{"pool", "a"}}});
  feed.PutNode("n2", {.labels = {{"pool", "b"}}});
  feed->Refresh();
  const auto class_of = [&](const std::string& name) {
    return feed->ledger().NodeClassColumn()[feed.Find(name).index()];
  };
  EXPECT_EQ(class_of("n1"), class_of("n2"));
  const uint64_t version = feed->class_version();
  TemplateFit fit;
  fit.node_selector["pool"] = "b";
  const base::Bitmap allowed = feed->node_classes().Allowed(fit);
  EXPECT_GT(feed->class_version(), version);
  EXPECT_FALSE(allowed.Test(class_of("n1")));
  EXPECT_TRUE(allowed.Test(class_of("n2")));
}

TEST(ClusterFeedClasses, ARelabelledProductLeavesNothingBehind) {
  TestFeed feed;
  feed.PutNode("n1", {.product = "H100"});
  feed.PutNode("n2", {.product = "H200"});
  feed->Refresh();
  for (int i = 0; i < 100; ++i) {
    feed.PutNode("n1", {.product = "H100-" + std::to_string(i)});
  }
  EXPECT_EQ(feed->ledger().product_names().size(), 2U);
  EXPECT_EQ(feed->node_classes().size(), 1U);
}

TEST(ClusterFeedPort, IsOfferedWhileThereIsMoreThanAFew) {
  TestFeed feed;
  feed.PutNode("n1", {.more = {{"asterism.dev/port", 40}}});
  feed.PutNode("n2", {});
  feed->Refresh();
  EXPECT_TRUE(feed->OffersPort("n1"));
  EXPECT_FALSE(feed->OffersPort("n2"));
  // A pod of somebody takes what there is: others do without.
  feed.PutPod("greedy", {.node = "n1", .requests = {{"asterism.dev/port", 30}}});
  EXPECT_FALSE(feed->OffersPort("n1"));
  feed.RemovePod("greedy");
  EXPECT_TRUE(feed->OffersPort("n1"));
}

TEST(ClusterFeedPort, IsNotOfferedWhereAPodWasRefusedForIt) {
  TestFeed feed;
  feed.PutNode("n1", {.more = {{"asterism.dev/port", 1024}}});
  feed->Refresh();
  feed.PutPod("refused", {.node = "n1",
                          .refusal = "Allocate failed due to no healthy devices present; cannot "
                                     "allocate unhealthy devices asterism.dev/port, which is "
                                     "unexpected"});
  EXPECT_FALSE(feed->OffersPort("n1"));
  // Until kubelet tells about the node again.
  feed.PutNode("n1", {.more = {{"asterism.dev/port", 0}}});
  EXPECT_FALSE(feed->OffersPort("n1"));
  feed.PutNode("n1", {.more = {{"asterism.dev/port", 1024}}});
  EXPECT_TRUE(feed->OffersPort("n1"));
}

}  // namespace
}  // namespace asterism::operators
