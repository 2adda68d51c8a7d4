#include "scheduler/cluster_change.h"

#include <string>
#include <vector>

#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/ledger_image.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two leaves of two nodes; n1 and n2 are held.
class ClusterChangeTest : public ::testing::Test {
 protected:
  ClusterChangeTest() : cluster_({"node", "leaf", "cluster"}, 8) {
    cluster_.AddNode("n1", {"L1"}, "H100");
    cluster_.AddNode("n2", {"L1"}, "H100");
    cluster_.AddNode("n3", {"L2"}, "H100");
    cluster_.AddNode("n4", {"L2"}, "H100");
    cluster_.Build();
    cluster_.Occupy("n1", 8);
    cluster_.Occupy("n2", 8);
  }

  std::vector<std::string> PlaceOn(const LedgerImage& image, int64_t pods) {
    const ImageLedger copy(image);
    std::vector<std::string> names;
    const PlacementOutcome outcome = Place(cluster_.Request(pods, 8), copy.ledger());
    if (const auto* placed = std::get_if<Placed>(&outcome)) {
      for (const NodeId node : placed->nodes) {
        names.push_back(image.cluster->node_name(node));
      }
    }
    return names;
  }
  std::string Refusal(const ClusterChange& change) {
    LedgerImage image(cluster_.ledger());
    return std::string(ApplyChange(change, image).message());
  }

  TestCluster cluster_;
};

TEST_F(ClusterChangeTest, AnImageGrowsWithoutTheLedger) {
  LedgerImage image(cluster_.ledger());
  ASSERT_TRUE(
      ApplyChange({.kind = ClusterChangeKind::kAddNodes, .count = 2, .domain = "L2"}, image).ok());
  EXPECT_THAT(PlaceOn(image, 4), ElementsAre("added-0001", "added-0002", "n3", "n4"));
  EXPECT_EQ(image.cluster->domain_count(1), 2u);
  EXPECT_EQ(cluster_.ledger().node_count(), 4u);
}

TEST_F(ClusterChangeTest, AddedNodesAreLikeTheNamedOne) {
  LedgerImage image(cluster_.ledger());
  ASSERT_TRUE(
      ApplyChange(
          {.kind = ClusterChangeKind::kAddNodes, .count = 3, .like_node = "n1", .domain = "L9"},
          image)
          .ok());
  EXPECT_EQ(image.cluster->domain_count(1), 3u) << "a domain of its own";
  EXPECT_THAT(PlaceOn(image, 3), ElementsAre("added-0001", "added-0002", "added-0003"));
  // Again: names do not meet.
  ASSERT_TRUE(ApplyChange({.kind = ClusterChangeKind::kAddNodes, .count = 1}, image).ok());
  EXPECT_TRUE(image.cluster->FindNode("added-0004").valid());
}

TEST_F(ClusterChangeTest, RemovedAndCordonedNodesGetNothing) {
  LedgerImage image(cluster_.ledger());
  ASSERT_TRUE(ApplyChange({.kind = ClusterChangeKind::kCordonNodes, .nodes = {"n3"}}, image).ok());
  EXPECT_THAT(PlaceOn(image, 1), ElementsAre("n4"));
  ASSERT_TRUE(ApplyChange({.kind = ClusterChangeKind::kRemoveNodes, .nodes = {"n4"}}, image).ok());
  EXPECT_THAT(PlaceOn(image, 1), ElementsAre());
  ASSERT_TRUE(
      ApplyChange({.kind = ClusterChangeKind::kUncordonNodes, .nodes = {"n3"}}, image).ok());
  EXPECT_THAT(PlaceOn(image, 1), ElementsAre("n3"));
  // One that was removed is no node any more.
  EXPECT_FALSE(
      ApplyChange({.kind = ClusterChangeKind::kUncordonNodes, .nodes = {"n4"}}, image).ok());
}

TEST_F(ClusterChangeTest, AReleasedGangGivesItsRoomBack) {
  const PlacementOutcome outcome = Place(cluster_.Request(2, 8), cluster_.ledger());
  cluster_.Book("gang-1", cluster_.Request(2, 8), std::get<Placed>(outcome));
  LedgerImage image(cluster_.ledger());
  EXPECT_THAT(PlaceOn(image, 2), ElementsAre());
  image.Release(HeldBy(cluster_.ledger(), "gang-1"));
  EXPECT_THAT(PlaceOn(image, 2), ElementsAre("n3", "n4"));
}

TEST_F(ClusterChangeTest, AnImageIsSharedUntilSomethingChanges) {
  LedgerImages images;
  const auto first = images.Of(cluster_.ledger());
  EXPECT_EQ(images.Of(cluster_.ledger()), first);
  cluster_.Occupy("n3", 8);
  EXPECT_NE(images.Of(cluster_.ledger()), first);
  EXPECT_EQ(first->nodes[2].used, ResourceVector());
}

TEST_F(ClusterChangeTest, RefusalsNameTheFieldAndTheRemedy) {
  EXPECT_THAT(Refusal({.kind = ClusterChangeKind::kRemoveNodes, .nodes = {"n1", "n9"}}),
              HasSubstr("remove_nodes: \"n9\" is no GPU node of this cluster"));
  EXPECT_THAT(Refusal({.count = 0}), HasSubstr("add_nodes.count: 0 is not from 1 to 4096"));
  EXPECT_THAT(Refusal({.count = 1, .like_node = "n9"}), HasSubstr("add_nodes.like_node: \"n9\""));
  TestCluster flat({"node", "cluster"}, 8);
  flat.AddNode("n1", {});
  flat.Build();
  LedgerImage image(flat.ledger());
  EXPECT_THAT(std::string(ApplyChange({.count = 1, .domain = "L1"}, image).message()),
              HasSubstr("add_nodes.domain"));
  LedgerImage empty;
  empty.cluster = std::make_shared<const topology::Cluster>(
      *topology::BuildCluster({"node", "leaf", "cluster"}, {}));
  EXPECT_FALSE(ApplyChange({.count = 1}, empty).ok()) << "nothing to be like";
}

}  // namespace
}  // namespace asterism::scheduler
