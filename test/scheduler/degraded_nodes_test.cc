#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;

void Degrade(TestCluster& cluster, const std::string& name) {
  for (NodeState& state : cluster.states()) {
    if (state.name == name) {
      state.degraded = true;
      cluster.ledger().SetNode(state);
    }
  }
}

// n0 to n7, two leaves of four.
TestCluster TwoLeavesOfFour() {
  TestCluster cluster({"node", "leaf", "cluster"}, 8);
  for (int i = 0; i < 8; ++i) {
    cluster.AddNode("n" + std::to_string(i), {"leaf-" + std::to_string(i / 4)});
  }
  cluster.Build();
  return cluster;
}

TEST(DegradedNodes, AreTheLastChoice) {
  TestCluster cluster = TwoLeavesOfFour();
  Degrade(cluster, "n1");
  EXPECT_THAT(cluster.Names(Place(cluster.Request(2, 8), cluster.ledger())),
              ElementsAre("n0", "n2"));
}

TEST(DegradedNodes, AreAvoidedAtThePriceOfALevelThatIsPreferred) {
  TestCluster cluster = TwoLeavesOfFour();
  Degrade(cluster, "n0");
  Degrade(cluster, "n4");
  PlacementRequest request = cluster.Request(4, 8);
  request.rules = {{1, 4, false}};
  for (const std::string& name : cluster.Names(Place(request, cluster.ledger()))) {
    EXPECT_TRUE(name != "n0" && name != "n4") << name;
  }
  request.rules = {{1, 4, true}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n0", "n1", "n2", "n3"));
}

TEST(DegradedNodes, OnlySoManyAreUsedAsAreNeeded) {
  TestCluster cluster = TwoLeavesOfFour();
  for (const char* name : {"n1", "n4", "n6"}) {
    Degrade(cluster, name);
  }
  const std::vector<std::string> six =
      cluster.Names(Place(cluster.Request(6, 8), cluster.ledger()));
  EXPECT_EQ(six.size(), 6U);
  EXPECT_EQ(std::count_if(six.begin(), six.end(),
                          [](const std::string& name) {
                            return name == "n1" || name == "n4" || name == "n6";
                          }),
            1);
  EXPECT_EQ(cluster.Names(Place(cluster.Request(8, 8), cluster.ledger())).size(), 8U);
}

TEST(DegradedNodes, APodThatIsThereStays) {
  TestCluster cluster = TwoLeavesOfFour();
  Degrade(cluster, "n5");
  PlacementRequest request = cluster.Request(2, 8);
  request.kept = {"n5", ""};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n5", "n4"));
}

TEST(DegradedNodes, SparesAvoidThemAsLongAsTheyCan) {
  TestCluster cluster = TwoLeavesOfFour();
  Degrade(cluster, "n4");
  PlacementRequest request = cluster.Request(4, 8);
  request.spares = 3;
  PlacementOutcome outcome = Place(request, cluster.ledger());
  for (const NodeId node : std::get<Placed>(outcome).spares) {
    EXPECT_NE(cluster.Name(node), "n4");
  }
  request.spares = 4;
  outcome = Place(request, cluster.ledger());
  EXPECT_EQ(std::get<Placed>(outcome).spares.size(), 4U);
}

// Against the same engine with degraded nodes excluded by name, one more each time.
TEST(DegradedNodes, AsFewAsTheOrderOfNodesAllows) {
  size_t used_some = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    TestCluster cluster({"node", "leaf", "spine", "cluster"}, 8);
    const int count = 4 + static_cast<int>(rng.Below(20));
    for (int i = 0; i < count; ++i) {
      cluster.AddNode("n" + std::to_string(i), {"leaf-" + std::to_string(rng.Below(6)),
                                                "spine-" + std::to_string(rng.Below(2))});
    }
    cluster.Build();
    std::vector<std::string> degraded;
    for (size_t node = 0; node < cluster.ledger().node_count(); ++node) {
      const std::string name = cluster.Name(NodeId(node));
      cluster.Occupy(name, static_cast<int64_t>(rng.Below(7)));
      if (rng.Chance(0.4)) {
        Degrade(cluster, name);
        degraded.push_back(name);
      }
    }
    PlacementRequest request = cluster.Request(1 + static_cast<int64_t>(rng.Below(12)), 2);
    if (rng.Chance(0.5)) {
      request.rules.push_back({1 + rng.Below(2), 1 + static_cast<int64_t>(rng.Below(4)), true});
    }
    const PlacementOutcome outcome = Place(request, cluster.ledger());
    size_t allowed = 0;
    PlacementOutcome expected;
    for (; allowed <= degraded.size(); ++allowed) {
      PlacementRequest narrowed = request;
      narrowed.excluded.assign(degraded.begin() + static_cast<std::ptrdiff_t>(allowed),
                               degraded.end());
      expected = Place(narrowed, cluster.ledger());
      if (std::holds_alternative<Placed>(expected)) {
        break;
      }
    }
    ASSERT_EQ(std::holds_alternative<Placed>(outcome), allowed <= degraded.size());
    if (allowed <= degraded.size()) {
      EXPECT_EQ(cluster.Names(outcome), cluster.Names(expected));
      used_some += allowed > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(used_some, 20U) << "the seeds show little";
}

}  // namespace
}  // namespace asterism::scheduler
