#include "scheduler/placement.h"

#include <string>

#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Leafs() {
  return {"node", "leaf", "cluster"};
}

TEST(Placement, Topo01ThirdPodStaysWithItsSiblings) {
  TestCluster cluster({"node", "leaf", "spine", "cluster"}, 8);
  for (const auto& [name, leaf, spine] :
       std::vector<std::array<std::string, 3>>{{"n1", "s0", "A"},
                                               {"n2", "s0", "A"},
                                               {"n3", "s1", "A"},
                                               {"n4", "s1", "A"},
                                               {"n5", "s2", "B"},
                                               {"n6", "s2", "B"}}) {
    cluster.AddNode(name, {leaf, spine});
  }
  cluster.Build();
  PlacementRequest request = cluster.Request(4, 8);
  request.rules = {{1, 4, false}};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n1", "n2", "n3", "n4"));
  cluster.Occupy("n2", 8);
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n3", "n4", "n5", "n6"));
}

TEST(Placement, Queue01) {
  TestCluster cluster(Leafs(), 8);
  cluster.AddNode("n1", {"a"});
  cluster.AddNode("n2", {"a"});
  cluster.Build();
  cluster.Occupy("n1", 4);
  cluster.Occupy("n2", 4);
  PlacementOutcome outcome = Place(cluster.Request(1, 8), cluster.ledger());
  EXPECT_EQ(Describe(outcome), "");
  EXPECT_EQ(std::get<NotNow>(outcome).nearest_change, "");
  outcome = Place(cluster.Request(2, 8), cluster.ledger());
  EXPECT_EQ(Describe(outcome), "");
  EXPECT_EQ(std::get<NotNow>(outcome).nearest_change, "");
  EXPECT_EQ(Describe(Place(cluster.Request(1, 16), cluster.ledger())), "");
  EXPECT_EQ(Describe(Place(cluster.Request(3, 8), cluster.ledger())), "");
  EXPECT_EQ(Describe(Place(cluster.Request(1, 1), cluster.ledger())), "");
}

}  // namespace
}  // namespace asterism::scheduler
