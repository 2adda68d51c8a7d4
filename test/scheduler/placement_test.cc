#include "scheduler/placement.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::vector<std::string> kLeafLevels = {"node", "leaf", "cluster"};

// `leaf_sizes` leaves L0, L1, .. of nodes n0, n1, .. with 8 GPUs each.
TestCluster LeafCluster(const std::vector<int>& leaf_sizes, int64_t gpus = 8) {
  TestCluster cluster(kLeafLevels, gpus);
  int next = 0;
  for (size_t leaf = 0; leaf < leaf_sizes.size(); ++leaf) {
    for (int i = 0; i < leaf_sizes[leaf]; ++i) {
      cluster.AddNode("n" + std::to_string(next++), {"L" + std::to_string(leaf)});
    }
  }
  cluster.Build();
  return cluster;
}

Placed PlacedOf(const PlacementOutcome& outcome) {
  if (!std::holds_alternative<Placed>(outcome)) {
    throw std::runtime_error(Describe(outcome));
  }
  return std::get<Placed>(outcome);
}

NotNow NotNowOf(const PlacementOutcome& outcome) {
  if (!std::holds_alternative<NotNow>(outcome)) {
    throw std::runtime_error(Describe(outcome));
  }
  return std::get<NotNow>(outcome);
}

std::string NeverText(const PlacementOutcome& outcome) {
  return std::holds_alternative<Never>(outcome) ? std::get<Never>(outcome).message
                                                : Describe(outcome);
}

TEST(Placement, APodGoesToTheFullestNodeThatStillFits) {
  TestCluster cluster = LeafCluster({3, 3});
  cluster.Occupy("n1", 2);
  cluster.Occupy("n4", 5);
  EXPECT_THAT(cluster.Names(Place(cluster.Request(1, 2), cluster.ledger())), ElementsAre("n4"));
  EXPECT_THAT(cluster.Names(Place(cluster.Request(1, 4), cluster.ledger())), ElementsAre("n1"));
  // A whole node comes from the leaf that is broken most.
  EXPECT_THAT(cluster.Names(Place(cluster.Request(1, 8), cluster.ledger())), ElementsAre("n3"));
}

TEST(Placement, AGangGoesToTheTightestDomainWithLeastRoom) {
  TestCluster cluster = LeafCluster({4, 4, 4});
  cluster.Occupy("n4", 8);
  EXPECT_THAT(cluster.Names(Place(cluster.Request(3, 8), cluster.ledger())),
              ElementsAre("n5", "n6", "n7"));
  EXPECT_THAT(cluster.Names(Place(cluster.Request(4, 8), cluster.ledger())),
              ElementsAre("n0", "n1", "n2", "n3"));
  const PlacementOutcome whole = Place(cluster.Request(7, 8), cluster.ledger());
  EXPECT_THAT(cluster.Names(whole), ElementsAre("n0", "n1", "n2", "n3", "n5", "n6", "n7"));
  EXPECT_EQ(PlacedOf(whole).levels[1].domains, 2);
  EXPECT_EQ(PlacedOf(whole).levels[1].ring_cuts, 2);
  EXPECT_EQ(PlacedOf(whole).levels[2].domains, 1);
  EXPECT_EQ(PlacedOf(whole).levels[2].ring_cuts_minimum, 0);
}

TEST(Placement, ARequiredRuleKeepsBlocksTogether) {
  TestCluster cluster = LeafCluster({3, 3, 4});
  PlacementRequest request = cluster.Request(4, 8);
  request.rules = {{1, 2, true}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n6", "n7", "n8", "n9"));
  cluster.Occupy("n9", 8);
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n0", "n1", "n3", "n4"));
  request.rules = {{1, 4, true}};
  EXPECT_EQ(NotNowOf(Place(request, cluster.ledger())).reason, WaitReason::kLevelUnavailable);
  request.rules = {{1, 4, false}};
  EXPECT_EQ(PlacedOf(Place(request, cluster.ledger())).levels[1].domains, 2);
}

TEST(Placement, RulesNest) {
  // Tensor groups of 2 pods in a node, pipelines of 8 in a leaf.
  TestCluster cluster = LeafCluster({6, 5});
  for (const char* name : {"n0", "n3", "n7"}) {
    cluster.Occupy(name, 5);  // three GPUs left: one pod of 2, no pair
  }
  PlacementRequest request = cluster.Request(16, 2);
  request.rules = {{0, 2, true}, {1, 8, true}};
  const Placed placed = PlacedOf(Place(request, cluster.ledger()));
  for (size_t pod = 0; pod < placed.nodes.size(); pod += 2) {
    EXPECT_EQ(placed.nodes[pod], placed.nodes[pod + 1]);
  }
  const topology::Cluster& model = cluster.ledger().cluster();
  for (size_t pod = 0; pod < placed.nodes.size(); ++pod) {
    EXPECT_EQ(model.DomainOf(1, placed.nodes[pod]), model.DomainOf(1, placed.nodes[pod / 8 * 8]));
  }
}

TEST(Placement, PreferredRulesAreGivenUpFromTheOutside) {
  // Pairs fit nodes, fours fit no leaf: the inner preference stays.
  TestCluster cluster = LeafCluster({1, 1}, 4);
  PlacementRequest request = cluster.Request(4, 2);
  request.rules = {{1, 4, false}, {0, 2, false}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n0", "n0", "n1", "n1"));
}

TEST(Placement, ThePreferenceThatSavesMostTrafficIsKeptFirst) {
  // The first leaf has room for four, one a node; the two others for a pair each.
  TestCluster cluster = LeafCluster({4, 1, 1}, 4);
  for (const char* name : {"n0", "n1", "n2", "n3"}) {
    cluster.Occupy(name, 2);
  }
  PlacementRequest request = cluster.Request(4, 2);
  request.rules = {{1, 4, false}, {0, 2, false}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n4", "n4", "n5", "n5"));
  request.rules[0].bytes_per_step = 1'000'000'000;
  request.rules[1].bytes_per_step = 1'000;
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n0", "n1", "n2", "n3"));
  request.rules[1].bytes_per_step = 2'000'000'000;
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n4", "n4", "n5", "n5"));
}

TEST(Placement, UnnamedDomainsServeOnlyGangsThatDoNotAskForTheLevel) {
  TestCluster cluster(kLeafLevels, 8);
  cluster.AddNode("n1", {"L1"});
  cluster.AddNode("n2", {""});
  cluster.Build();
  PlacementRequest request = cluster.Request(1, 8);
  request.rules = {{1, 1, true}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n1"));
  cluster.Occupy("n1", 8);
  EXPECT_EQ(NotNowOf(Place(request, cluster.ledger())).reason, WaitReason::kLevelUnavailable);
  request.rules.clear();
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n2"));
}

TEST(Placement, PoliciesPackAndSpread) {
  TestCluster cluster = LeafCluster({4, 4});
  for (const char* name : {"n0", "n1", "n2", "n3"}) {
    cluster.Occupy(name, 6);
  }
  cluster.Occupy("n4", 4);
  PlacementRequest request = cluster.Request(8, 1);
  // Best fit uses up the broken leaf; packing takes one whole node.
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())),
              ElementsAre("n5", "n5", "n5", "n5", "n5", "n5", "n5", "n5"));
  request = cluster.Request(8, 1);
  cluster.Occupy("n5", 1);
  cluster.Occupy("n6", 1);
  cluster.Occupy("n7", 1);
  EXPECT_EQ(PlacedOf(Place(request, cluster.ledger())).levels[0].domains, 4);
  request.policy = PlacementPolicy::kPack;
  EXPECT_EQ(PlacedOf(Place(request, cluster.ledger())).levels[0].domains, 2);
  request.policy = PlacementPolicy::kSpread;
  const Placed spread = PlacedOf(Place(request, cluster.ledger()));
  EXPECT_EQ(spread.levels[0].domains, 8);
  EXPECT_EQ(spread.levels[1].domains, 2);
  EXPECT_EQ(spread.levels[1].ring_cuts, 2);
}

TEST(Placement, AGangGetsOneProductTheOneThatServesItBest) {
  TestCluster cluster(kLeafLevels, 8);
  cluster.AddNode("a1", {"L1"}, "H100");
  cluster.AddNode("a2", {"L2"}, "H100");
  cluster.AddNode("b1", {"L3"}, "H200");
  cluster.AddNode("b2", {"L3"}, "H200");
  cluster.Build();
  PlacementRequest request = cluster.Request(2, 8);
  const PlacementOutcome any = Place(request, cluster.ledger());
  EXPECT_EQ(PlacedOf(any).product, "H200");
  EXPECT_THAT(cluster.Names(any), ElementsAre("b1", "b2"));
  request.products = {"H100"};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("a1", "a2"));
  request = cluster.Request(1, 8);
  request.products = {"H200", "H100"};
  EXPECT_EQ(PlacedOf(Place(request, cluster.ledger())).product, "H200") << "the first listed";
  request = cluster.Request(3, 8);
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "needs 24 GPUs, the cluster has 16 of H100");
  request.products = {"A100"};
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "no node has the GPU product A100, the cluster has H100, H200");
  cluster.Occupy("a1", 8);
  request = cluster.Request(2, 8);
  request.products = {"H100"};
  EXPECT_EQ(NotNowOf(Place(request, cluster.ledger())).reason, WaitReason::kProductUnavailable);
}

TEST(Placement, ClassesExclusionsAndUnusableNodesAreLeftAlone) {
  TestCluster cluster(kLeafLevels, 8);
  cluster.AddNode("n1", {"L1"}, "", 0);
  cluster.AddNode("n2", {"L1"}, "", 1);
  cluster.AddNode("n3", {"L1"}, "", 2);
  cluster.Build();
  PlacementRequest request = cluster.Request(1, 8);
  request.node_classes = base::Bitmap(2);
  request.node_classes.Set(1);
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n2"));
  request.excluded = {"n2", "nobody"};
  EXPECT_THAT(Describe(Place(request, cluster.ledger())), HasSubstr("left out"));
  request = cluster.Request(1, 8);
  request.excluded = {"n1"};
  cluster.SetUsable("n2", false);
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n3"));
  cluster.SetUsable("n3", false);
  request.excluded.clear();
  request = cluster.Request(2, 8);
  const NotNow waits = NotNowOf(Place(request, cluster.ledger()));
  EXPECT_THAT(waits.nearest_change, HasSubstr("would start when nodes return (2 nodes are "));
}

TEST(Placement, KeptPodsStayAndTheOthersComeNear) {
  TestCluster cluster = LeafCluster({4, 4, 4});
  PlacementRequest request = cluster.Request(6, 8);
  const Placed before = PlacedOf(Place(request, cluster.ledger()));
  cluster.Book("gang", request, before);
  for (const NodeId node : before.nodes) {
    request.kept.push_back(cluster.Name(node));
  }
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())),
              ElementsAre("n0", "n1", "n2", "n3", "n4", "n5"));
  // n1 fails: its pod moves into the leaf that the gang uses already.
  cluster.SetUsable("n1", false);
  request.kept[1] = "";
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())),
              ElementsAre("n0", "n6", "n2", "n3", "n4", "n5"));
  // A rule binds it to the leaf of its block, which is full.
  request.rules = {{1, 2, true}};
  const NotNow waits = NotNowOf(Place(request, cluster.ledger()));
  EXPECT_EQ(waits.reason, WaitReason::kLevelUnavailable);
  EXPECT_EQ(waits.message,
            "needs 1 node beside the pods that stay, in the same leaf, which has no room");
  request.rules.clear();
  request.kept[0] = "gone";
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "NotNow pod 0 is to stay on node gone, which is not in the cluster: let it move");
}

TEST(Placement, WhatTheGangHoldsItselfCountsAsFree) {
  TestCluster cluster = LeafCluster({2});
  PlacementRequest request = cluster.Request(2, 8);
  cluster.Book("gang", request, PlacedOf(Place(request, cluster.ledger())));
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n0", "n1"));
  request.gang_uid = "other";
  EXPECT_EQ(Describe(Place(request, cluster.ledger())), "NotNow needs 16 GPUs, 0 are free");
}

TEST(Placement, LooksAtEveryResourceOfTheRequest) {
  TestCluster cluster = LeafCluster({2});
  for (NodeState& state : cluster.states()) {
    state.allocatable[kMemorySlot] = 1000;
    cluster.ledger().SetNode(state);
  }
  PodState hog;
  hog.uid = "hog";
  hog.node = "n0";
  hog.requests[kMemorySlot] = 900;
  cluster.ledger().PutPod(hog);
  PlacementRequest request = cluster.Request(2, 8);
  request.request[kMemorySlot] = 500;
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "NotNow needs 2 nodes with 8 free GPUs, 1 has them: 1 node with the GPUs for a pod has "
            "too little memory (500 asked)");
  request.request[kMemorySlot] = 5000;
  EXPECT_THAT(NeverText(Place(request, cluster.ledger())),
              HasSubstr("no node has room for a pod: 2 nodes with the GPUs for a pod have too "
                        "little memory (5,000 asked)"));
}

TEST(Placement, GangsWithoutGpusArePlacedByWhatTheyAskFor) {
  TestCluster cluster = LeafCluster({2, 2});
  for (NodeState& state : cluster.states()) {
    state.allocatable[kCpuSlot] = 64'000;
    cluster.ledger().SetNode(state);
  }
  PlacementRequest request = cluster.Request(6, 0);
  request.request[kCpuSlot] = 32'000;
  EXPECT_EQ(PlacedOf(Place(request, cluster.ledger())).levels[0].domains, 3);
  PlacementRequest other = request;
  other.gang_uid = "other";
  other.pods = 4;
  cluster.Book("other", other, PlacedOf(Place(other, cluster.ledger())));
  const NotNow waits = NotNowOf(Place(request, cluster.ledger()));
  EXPECT_EQ(waits.reason, WaitReason::kNoCapacity);
  EXPECT_EQ(waits.message, "needs room for 6 pods, 4 fit: 2 nodes have too little cpu (32 asked)");
  EXPECT_EQ(waits.nearest_change, "a gang of 4 pods would start now");
  request.rules = {{1, 6, true}};
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "needs 6 pods in one leaf, the largest has 4");
  request.request[kCpuSlot] = 64'500;
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "no node has room for a pod: 4 nodes have too little cpu (64,500 thousandths asked)");
}

TEST(Placement, RefusesRequestsThatMakeNoSense) {
  TestCluster cluster = LeafCluster({2});
  EXPECT_EQ(NeverText(Place(cluster.Request(0, 8), cluster.ledger())),
            "has 0 pods: a gang has 1 to 1,048,576");
  EXPECT_EQ(NeverText(Place(cluster.Request(-1, 8), cluster.ledger())),
            "has -1 pods: a gang has 1 to 1,048,576");
  EXPECT_THAT(NeverText(Place(cluster.Request(int64_t{1} << 40, 8), cluster.ledger())),
              HasSubstr("a gang has 1 to 1,048,576"));
  PlacementRequest request = cluster.Request(1, 8);
  request.rules = {{7, 1, true}};
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "level 7 is not a level of this cluster (node, leaf, cluster)");
  for (const bool required : {true, false}) {
    request.rules = {{1, -5, required}};
    EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
              "a rule of level leaf has blocks of -5 pods: a block has at least 1");
    request.rules = {{7, 0, required}};
    EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
              "a rule of level 7 has blocks of 0 pods: a block has at least 1");
  }
  request.rules = {{7, 1, false}};
  EXPECT_EQ(PlacedOf(Place(request, cluster.ledger())).nodes.size(), 1U);
  request = cluster.Request(1, 8);
  request.gpu_slot = 99;
  EXPECT_EQ(PlacedOf(Place(request, cluster.ledger())).nodes.size(), 1U);
  ResourceTable table;
  Ledger nothing(table);
  EXPECT_EQ(NeverText(Place(cluster.Request(1, 8), nothing)), "the cluster has no nodes");
}

TEST(Placement, TheLargestGangThereCanBeGetsAnAnswer) {
  TestCluster small = LeafCluster({2});
  EXPECT_EQ(NeverText(Place(small.Request(int64_t{1} << 20, 1), small.ledger())),
            "needs 1,048,576 GPUs, the cluster has 16");
  TestCluster large = LeafCluster({8192, 8192}, 64);
  PlacementRequest request = large.Request(int64_t{1} << 20, 1);
  request.rules = {{0, 64, true}, {1, 4 * 64, false}};
  const Placed placed = PlacedOf(Place(request, large.ledger()));
  ASSERT_EQ(placed.nodes.size(), size_t{1} << 20);
  for (size_t rank = 0; rank < placed.nodes.size(); ++rank) {
    ASSERT_EQ(placed.nodes[rank].index(), rank / 64);
  }
}

TEST(Placement, NamesThatBeginAlikeAreNotConfused) {
  TestCluster cluster(kLeafLevels, 8);
  for (const std::string name : {"n", "n1", "n10", "n100", "n-1", "n1.a"}) {
    cluster.AddNode(name, {"leaf-" + name}, name);
  }
  cluster.Build();
  for (const std::string name : {"n", "n1", "n10", "n100", "n-1", "n1.a"}) {
    PlacementRequest request = cluster.Request(1, 8);
    request.products = {name};
    EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre(name));
    request.excluded = {name};
    EXPECT_EQ(cluster.Names(Place(request, cluster.ledger())).size(), 0U);
    request.excluded = {"n1"};
    EXPECT_EQ(cluster.Names(Place(request, cluster.ledger())).size(), name == "n1" ? 0U : 1U);
  }
}

TEST(Placement, NeverNamesTheFirstBindingConstraint) {
  TestCluster cluster = LeafCluster({4, 4, 2});
  EXPECT_EQ(NeverText(Place(cluster.Request(1, 16), cluster.ledger())),
            "no node has 16 GPUs, the largest has 8");
  EXPECT_EQ(NeverText(Place(cluster.Request(1281, 8), cluster.ledger())),
            "needs 10,248 GPUs, the cluster has 80");
  EXPECT_EQ(NeverText(Place(cluster.Request(13, 5), cluster.ledger())),
            "needs 13 nodes with 5 GPUs, 10 have them");
  PlacementRequest request = cluster.Request(5, 8);
  request.rules = {{1, 5, true}};
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "needs 5 nodes in one leaf, the largest has 4");
  request = cluster.Request(40, 1);
  request.rules = {{1, 40, true}};
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "needs 40 GPUs in one leaf, the largest has 32");
  request = cluster.Request(9, 8);
  request.rules = {{1, 3, true}};
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "needs 3 blocks of 3 nodes, each in one leaf; there is room for 2");
  // Nodes that are away count: they may come back.
  request = cluster.Request(10, 8);
  cluster.SetUsable("n0", false);
  EXPECT_EQ(Describe(Place(request, cluster.ledger())), "NotNow needs 80 GPUs, 72 are free");
}

TEST(Placement, Ops02SaysWhyAndWhatWouldHelp) {
  TestCluster cluster = LeafCluster({2, 2});
  for (const char* name : {"n0", "n1", "n2", "n3"}) {
    cluster.Occupy(name, 4);
  }
  const NotNow first = NotNowOf(Place(cluster.Request(2, 8), cluster.ledger()));
  EXPECT_EQ(first.reason, WaitReason::kFragmented);
  EXPECT_EQ(first.message, "needs 2 nodes with 8 free GPUs, largest free node has 4 of 8");
  EXPECT_THAT(first.nearest_change, HasSubstr("4 pods of 4 GPUs would start now"));
  PlacementRequest request = cluster.Request(3, 8);
  request.rules = {{1, 3, true}};
  EXPECT_EQ(NeverText(Place(request, cluster.ledger())),
            "needs 3 nodes in one leaf, the largest has 2");
}

TEST(Placement, NotNowTellsTheLargestGangThatWouldStart) {
  TestCluster cluster = LeafCluster({4, 4});
  cluster.Occupy("n0", 8);
  cluster.Occupy("n4", 1);
  const NotNow total = NotNowOf(Place(cluster.Request(8, 8), cluster.ledger()));
  EXPECT_EQ(total.reason, WaitReason::kNoCapacity);
  EXPECT_EQ(total.message, "needs 64 GPUs, 55 are free");
  EXPECT_THAT(total.nearest_change, HasSubstr("a gang of 48 GPUs would start now"));
  PlacementRequest request = cluster.Request(4, 8);
  request.rules = {{1, 4, true}};
  const NotNow level = NotNowOf(Place(request, cluster.ledger()));
  EXPECT_EQ(level.reason, WaitReason::kLevelUnavailable);
  EXPECT_EQ(level.message,
            "needs 4 nodes with 8 free GPUs each in one leaf; largest leaf has 3 free nodes, 4 "
            "needed");
  EXPECT_EQ(level.nearest_change,
            "would start now with level leaf Preferred instead of Required; a gang of 24 GPUs "
            "would start now");
}

// ---- Cases of reference/cases.md: every name order, or 100 drawn from seeds. ----

// Gives the nodes of `leaf_of_node` names in an order drawn from the seed.
TestCluster Renamed(const std::vector<std::vector<std::string>>& domains_of_node,
                    std::vector<std::string> levels, int64_t gpus, uint64_t seed,
                    std::vector<std::string>* names = nullptr) {
  base::Rng rng(seed);
  std::vector<std::string> drawn;
  for (size_t i = 0; i < domains_of_node.size(); ++i) {
    drawn.push_back("host-" + std::to_string(i * 7 % 11) + "-" + std::to_string(i));
  }
  rng.Shuffle(drawn);
  std::vector<size_t> order(drawn.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  rng.Shuffle(order);
  TestCluster cluster(std::move(levels), gpus);
  for (const size_t i : order) {
    cluster.AddNode(drawn[i], domains_of_node[i]);
  }
  cluster.Build();
  if (names != nullptr) {
    *names = drawn;
  }
  return cluster;
}

TEST(PlacementCase, Topo01ThirdPodStaysWithItsSiblings) {
  const std::vector<std::vector<std::string>> domains = {{"s0", "A"}, {"s0", "A"}, {"s1", "A"},
                                                         {"s1", "A"}, {"s2", "B"}, {"s2", "B"}};
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<std::string> names;
    TestCluster cluster = Renamed(domains, {"node", "leaf", "spine", "cluster"}, 8, seed, &names);
    PlacementRequest request = cluster.Request(4, 8);
    request.rules = {{1, 4, false}};
    const PlacementOutcome first = Place(request, cluster.ledger());
    EXPECT_THAT(cluster.Names(first), UnorderedElementsAre(names[0], names[1], names[2], names[3]));
    EXPECT_EQ(PlacedOf(first).levels[1].domains, 2);
    EXPECT_EQ(PlacedOf(first).levels[2].domains, 1);
    cluster.Occupy(names[1], 8);
    const PlacementOutcome second = Place(request, cluster.ledger());
    EXPECT_THAT(cluster.Names(second),
                UnorderedElementsAre(names[2], names[3], names[4], names[5]));
    for (const PlacementOutcome& outcome : {first, second}) {
      const std::vector<NodeId> nodes = PlacedOf(outcome).nodes;
      const topology::Cluster& model = cluster.ledger().cluster();
      EXPECT_EQ(model.DomainOf(1, nodes[0]), model.DomainOf(1, nodes[1]));
      EXPECT_EQ(model.DomainOf(1, nodes[2]), model.DomainOf(1, nodes[3]));
    }
  }
}

// Counts again, in its own way.
int64_t Crossings(const TestCluster& cluster, size_t level, const std::vector<NodeId>& nodes) {
  int64_t crossings = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const topology::Cluster& model = cluster.ledger().cluster();
    const std::string& here = model.domain_name(level, model.DomainOf(level, nodes[i]));
    const NodeId next = i + 1 == nodes.size() ? nodes[0] : nodes[i + 1];
    crossings += here == model.domain_name(level, model.DomainOf(level, next)) ? 0 : 1;
  }
  return crossings;
}

TEST(PlacementCase, Topo02RanksFollowTheLeavesForEveryOrderOfNames) {
  std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  do {
    TestCluster cluster(kLeafLevels, 8);
    for (size_t i = 0; i < names.size(); ++i) {
      cluster.AddNode(names[i], {i < 3 ? "L1" : "L2"});
    }
    cluster.Build();
    const PlacementOutcome outcome = Place(cluster.Request(5, 8), cluster.ledger());
    EXPECT_EQ(Crossings(cluster, 1, PlacedOf(outcome).nodes), 2);
    EXPECT_EQ(PlacedOf(outcome).levels[1].ring_cuts, 2);
  } while (std::next_permutation(names.begin(), names.end()));

  std::vector<std::vector<std::string>> racks;
  for (int i = 0; i < 12; ++i) {
    racks.push_back({"rack" + std::to_string(i / 4)});
  }
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    TestCluster cluster = Renamed(racks, kLeafLevels, 8, seed);
    const PlacementOutcome outcome = Place(cluster.Request(10, 8), cluster.ledger());
    EXPECT_EQ(Crossings(cluster, 1, PlacedOf(outcome).nodes), 3) << "seed " << seed;
    EXPECT_EQ(PlacedOf(outcome).levels[1].ring_cuts_minimum, 3);
  }
}

TEST(PlacementCase, Topo04SinglePodsKeepRacksWhole) {
  std::vector<std::vector<std::string>> racks;
  for (int i = 0; i < 33 * 18; ++i) {
    racks.push_back({"rack" + std::to_string(i / 18)});
  }
  for (const bool broken : {false, true}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::vector<std::string> names;
      TestCluster cluster = Renamed(racks, kLeafLevels, 4, seed, &names);
      // Variant: of the first five racks only 10 GPUs are free each.
      for (int rack = 0; broken && rack < 5; ++rack) {
        for (size_t i = 0; i < 18; ++i) {
          const int64_t free = i < 2 ? 4 : i == 2 ? 2 : 0;
          cluster.Occupy(names[static_cast<size_t>(rack) * 18 + i], 4 - free);
        }
      }
      std::set<size_t> touched_nodes;
      std::map<std::string, int> pods_of_rack;
      for (int pod = 0; pod < 200; ++pod) {
        PlacementRequest request = cluster.Request(1, 1);
        request.gang_uid = "single-" + std::to_string(pod);
        const PlacementOutcome outcome = Place(request, cluster.ledger());
        const NodeId node = PlacedOf(outcome).nodes[0];
        cluster.Book(request.gang_uid, request, PlacedOf(outcome));
        touched_nodes.insert(node.index());
        const topology::Cluster& model = cluster.ledger().cluster();
        ++pods_of_rack[model.domain_name(1, model.DomainOf(1, node))];
        if (broken && pod == 49) {
          EXPECT_EQ(pods_of_rack.size(), 5U) << "broken racks first";
          for (int rack = 0; rack < 5; ++rack) {
            EXPECT_EQ(pods_of_rack["rack" + std::to_string(rack)], 10);
          }
        }
      }
      EXPECT_LE(touched_nodes.size(), broken ? 53U : 50U);
      EXPECT_LE(pods_of_rack.size(), broken ? 8U : 3U);
    }
  }
}

TEST(PlacementCase, Topo06TheGangStartsInTheCliqueThatHoldsIt) {
  std::vector<std::vector<std::string>> cliques;
  for (int i = 0; i < 36; ++i) {
    cliques.push_back({i < 18 ? "A" : "B"});
  }
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<std::string> names;
    TestCluster cluster = Renamed(cliques, {"node", "clique", "cluster"}, 4, seed, &names);
    for (size_t i = 2; i < 18; ++i) {
      cluster.Occupy(names[i], 4);
    }
    PlacementRequest request = cluster.Request(4, 4);
    request.rules = {{1, 4, true}};
    const topology::Cluster& model = cluster.ledger().cluster();
    for (const NodeId node : PlacedOf(Place(request, cluster.ledger())).nodes) {
      EXPECT_EQ(model.domain_name(1, model.DomainOf(1, node)), "B");
    }
    for (size_t i = 21; i < 36; ++i) {
      cluster.Occupy(names[i], 4);
    }
    const NotNow waits = NotNowOf(Place(request, cluster.ledger()));
    EXPECT_EQ(waits.reason, WaitReason::kLevelUnavailable);
    EXPECT_THAT(waits.message, HasSubstr("largest clique has 3 free nodes, 4 needed"));
  }
}

TEST(PlacementCase, Topo07RingsCrossTheLeavesAsRarelyAsTheyCan) {
  std::vector<std::vector<std::string>> leaves;
  for (int i = 0; i < 16; ++i) {
    leaves.push_back({"leaf" + std::to_string(i / 4)});
  }
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TestCluster cluster = Renamed(leaves, kLeafLevels, 8, seed);
    PlacementRequest request = cluster.Request(16, 8);
    EXPECT_EQ(Crossings(cluster, 1, PlacedOf(Place(request, cluster.ledger())).nodes), 4);
    // TP8 PP4 DP4: pipelines of 4 pods in a leaf. tp-pp-dp numbers them consecutively.
    request.rules = {{1, 4, true}};
    const std::vector<NodeId> by_pipeline = PlacedOf(Place(request, cluster.ledger())).nodes;
    // tp-dp-pp numbers pod dp + 4 * pp: the caller hands the same homes out in that order.
    std::vector<NodeId> by_data(16);
    for (size_t pp = 0; pp < 4; ++pp) {
      for (size_t dp = 0; dp < 4; ++dp) {
        by_data[dp + 4 * pp] = by_pipeline[pp + 4 * dp];
      }
    }
    for (size_t group = 0; group < 4; ++group) {
      std::vector<NodeId> pipeline;
      std::vector<NodeId> ring;
      std::vector<NodeId> pipeline_by_data;
      std::vector<NodeId> ring_by_data;
      for (size_t i = 0; i < 4; ++i) {
        pipeline.push_back(by_pipeline[i + 4 * group]);
        ring.push_back(by_pipeline[group + 4 * i]);
        pipeline_by_data.push_back(by_data[group + 4 * i]);
        ring_by_data.push_back(by_data[i + 4 * group]);
      }
      EXPECT_EQ(Crossings(cluster, 1, pipeline), 0);
      EXPECT_EQ(Crossings(cluster, 1, pipeline_by_data), 0);
      EXPECT_EQ(Crossings(cluster, 1, ring), 4);
      EXPECT_EQ(Crossings(cluster, 1, ring_by_data), 4);
    }
  }
}

TEST(PlacementCase, Queue01WhatFitsNoNodeWaitsAndHoldsNothing) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<std::string> names;
    TestCluster cluster = Renamed({{"L1"}, {"L2"}}, kLeafLevels, 8, seed, &names);
    cluster.Occupy(names[0], 4);
    cluster.Occupy(names[1], 4);
    const uint64_t before = cluster.ledger().Digest();
    const NotNow waits = NotNowOf(Place(cluster.Request(1, 8), cluster.ledger()));
    EXPECT_THAT(waits.message, HasSubstr("largest free node has 4 of 8"));
    EXPECT_EQ(waits.reason, WaitReason::kFragmented);
    EXPECT_EQ(cluster.ledger().Digest(), before);
    EXPECT_EQ(PlacedOf(Place(cluster.Request(1, 1), cluster.ledger())).nodes.size(), 1U);
  }
}

TEST(PlacementCase, Gang01AllOrNothing) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<std::string> names;
    TestCluster two = Renamed({{"L1"}, {"L1"}}, kLeafLevels, 8, seed, &names);
    two.Occupy(names[0], 8);
    EXPECT_EQ(NotNowOf(Place(two.Request(2, 8), two.ledger())).reason, WaitReason::kNoCapacity);
    TestCluster nine =
        Renamed(std::vector<std::vector<std::string>>(10, {"L1"}), kLeafLevels, 8, seed, &names);
    nine.Occupy(names[3], 8);
    EXPECT_EQ(Describe(Place(nine.Request(10, 8), nine.ledger())),
              "NotNow needs 80 GPUs, 72 are free");
    EXPECT_EQ(PlacedOf(Place(nine.Request(9, 8), nine.ledger())).nodes.size(), 9U);
  }
}

}  // namespace
}  // namespace asterism::scheduler
