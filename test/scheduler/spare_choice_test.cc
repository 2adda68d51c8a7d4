#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> SpareNames(const TestCluster& cluster, const PlacementOutcome& outcome) {
  std::vector<std::string> names;
  for (const NodeId node : std::get<Placed>(outcome).spares) {
    names.push_back(cluster.Name(node));
  }
  return names;
}

// Two leaves of four nodes in each of two spines: n0 to n15.
TestCluster SixteenNodes() {
  TestCluster cluster({"node", "leaf", "spine", "cluster"}, 8);
  for (int i = 0; i < 16; ++i) {
    cluster.AddNode((i < 10 ? "n0" : "n") + std::to_string(i),
                    {"leaf-" + std::to_string(i / 4), "spine-" + std::to_string(i / 8)});
  }
  cluster.Build();
  return cluster;
}

TEST(SpareChoice, ASpareIsNearMostPodsThatHaveNone) {
  TestCluster cluster = SixteenNodes();
  PlacementRequest request = cluster.Request(6, 8);
  request.spares = 4;
  const PlacementOutcome outcome = Place(request, cluster.ledger());
  ASSERT_THAT(cluster.Names(outcome), ElementsAre("n00", "n01", "n02", "n03", "n04", "n05"));
  // The leaf of two pods has room; the full one is served from its spine; then the round again.
  EXPECT_THAT(SpareNames(cluster, outcome), ElementsAre("n06", "n07", "n08", "n09"));
  request.spares = 10;
  EXPECT_EQ(SpareNames(cluster, Place(request, cluster.ledger())).size(), 10U);
  request.spares = 11;
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "Never needs 11 spares beside its 6 pods, on other nodes; 10 have a place");
  cluster.Occupy("n15", 8);
  request.spares = 10;
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "NotNow needs 10 spares beside its 6 pods, on other nodes; 9 have a place");
  request.spares = -1;
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "Never has -1 spares: a gang has 0 to 1,048,576");
}

TEST(SpareChoice, ThoseThatStayCountFirst) {
  TestCluster cluster = SixteenNodes();
  PlacementRequest request = cluster.Request(6, 8);
  for (const char* node : {"n00", "n01", "n02", "n03", "n04", "n05"}) {
    request.kept.push_back(node);
  }
  request.spares = 2;
  request.spares_kept = {"n07"};
  // The leaf of n04 and n05 is served; the next one serves those of the first leaf from the spine.
  EXPECT_THAT(SpareNames(cluster, Place(request, cluster.ledger())), ElementsAre("n07", "n06"));
  request.spares_kept = {"n15"};
  EXPECT_THAT(SpareNames(cluster, Place(request, cluster.ledger())), ElementsAre("n15", "n06"));
  cluster.Occupy("n06", 8);
  cluster.Occupy("n07", 8);
  request.spares = 3;
  request.spares_required = false;
  request.excluded = {"n08", "n09", "n10", "n11", "n12", "n13", "n14"};
  EXPECT_THAT(SpareNames(cluster, Place(request, cluster.ledger())), ElementsAre("n15"))
      << "no room for a second one beside it";
  request.spares = 1;
  request.spares_kept = {"n14", "n15"};
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "Never 2 spares are to stay, of 1 that it has");
  request.spares_kept = {"n99"};
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "NotNow a spare is to stay on node n99, which is not in the cluster: let it move");
}

TEST(SpareChoice, AsManyAsThereIsRoomForWhereTheyAreAWish) {
  TestCluster cluster = SixteenNodes();
  for (int i = 6; i < 15; ++i) {
    cluster.Occupy((i < 10 ? "n0" : "n") + std::to_string(i), 8);
  }
  PlacementRequest request = cluster.Request(6, 8);
  request.spares = 4;
  request.spares_required = false;
  EXPECT_THAT(SpareNames(cluster, Place(request, cluster.ledger())), ElementsAre("n15"));
}

TEST(SpareChoice, SparesAreOnNodesOfTheirOwn) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    TestCluster cluster = SixteenNodes();
    for (int i = 0; i < 16; ++i) {
      cluster.Occupy((i < 10 ? "n0" : "n") + std::to_string(i), static_cast<int64_t>(rng.Below(9)));
    }
    const int64_t gpus = int64_t{1} << rng.Below(3);
    PlacementRequest request = cluster.Request(1 + static_cast<int64_t>(rng.Below(10)), gpus);
    request.policy = rng.Chance(0.3) ? PlacementPolicy::kPack : PlacementPolicy::kAuto;
    const PlacementOutcome without = Place(request, cluster.ledger());
    request.spares = static_cast<int64_t>(rng.Below(6));
    const PlacementOutcome outcome = Place(request, cluster.ledger());
    const auto* placed = std::get_if<Placed>(&outcome);
    if (!std::holds_alternative<Placed>(without)) {
      EXPECT_EQ(placed, nullptr);
      continue;
    }
    const std::vector<NodeId>& nodes = std::get<Placed>(without).nodes;
    std::map<size_t, int64_t> left;
    int64_t room = 0;
    for (size_t node = 0; node < 16; ++node) {
      const bool used = std::find(nodes.begin(), nodes.end(), NodeId(node)) != nodes.end();
      left[node] = used ? 0 : cluster.ledger().Free(NodeId(node))[cluster.gpu_slot()] / gpus;
      room += left[node];
    }
    ASSERT_EQ(placed != nullptr, room >= request.spares) << Describe(outcome);
    if (placed == nullptr) {
      continue;
    }
    EXPECT_EQ(placed->nodes, nodes);
    ASSERT_EQ(placed->spares.size(), static_cast<size_t>(request.spares));
    for (const NodeId node : placed->spares) {
      EXPECT_GE(--left[node.index()], 0);
    }
  }
}

TEST(Apart, NoDomainTakesMoreThanOneFailureMayTake) {
  TestCluster cluster = SixteenNodes();
  PlacementRequest request = cluster.Request(4, 8);
  request.apart = {{1, 2}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())),
              ElementsAre("n00", "n01", "n04", "n05"));
  request.apart = {{1, 1}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())),
              ElementsAre("n00", "n04", "n08", "n12"));
  request.pods = 5;
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "Never needs 5 pods with at most 1 pod in one leaf, more domains with room are needed");
  request.pods = 4;
  for (const char* name : {"n00", "n01", "n02", "n03"}) {
    cluster.Occupy(name, 8);
  }
  EXPECT_EQ(
      Describe(Place(request, cluster.ledger())),
      "NotNow needs 4 pods with at most 1 pod in one leaf, more domains with room are needed");
  // Smaller pods are as many more in a domain.
  TestCluster halves = SixteenNodes();
  for (int i = 0; i < 16; ++i) {
    halves.Occupy((i < 10 ? "n0" : "n") + std::to_string(i), 4);
  }
  PlacementRequest wide = halves.Request(4, 8);
  wide.apart = {{1, 1}};
  const PlacementOutcome waits = Place(wide, halves.ledger());
  ASSERT_TRUE(std::holds_alternative<NotNow>(waits)) << Describe(waits);
  EXPECT_THAT(std::get<NotNow>(waits).nearest_change,
              ::testing::HasSubstr("8 pods of 4 GPUs would start now"));
  // Blocks of two that stay together and a leaf that takes one pod: nowhere.
  request = cluster.Request(4, 8);
  request.rules = {{1, 2, true}};
  request.apart = {{1, 1}};
  EXPECT_TRUE(std::holds_alternative<Never>(Place(request, cluster.ledger())));
  request.apart = {{9, 1}};
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "Never level 9 is not a level of this cluster (node, leaf, spine, cluster)");
  request.apart = {{1, 0}};
  EXPECT_EQ(Describe(Place(request, cluster.ledger())),
            "Never may have at most 0 pods in one leaf: a domain takes at least 1");
}

}  // namespace
}  // namespace asterism::scheduler
