#include "scheduler/ledger.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/ledger_rows.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr int64_t kHugeRequest = std::numeric_limits<int64_t>::max();

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() : cluster_({"node", "leaf", "cluster"}, 8) {
    for (const char* name : {"n1", "n2", "n3"}) {
      cluster_.AddNode(name, {"L1"});
    }
    cluster_.Build();
  }

  Ledger& ledger() { return cluster_.ledger(); }
  NodeId Node(const std::string& name) { return ledger().cluster().FindNode(name); }
  int64_t Used(const std::string& name) { return ledger().used(Node(name))[cluster_.gpu_slot()]; }
  int64_t Free(const std::string& name) { return ledger().Free(Node(name))[cluster_.gpu_slot()]; }

  Gang MakeGang(const std::string& uid, std::vector<std::string> nodes, int64_t epoch = 1) {
    Gang gang;
    gang.uid = uid;
    gang.name = "default/" + uid;
    gang.queue = "research";
    gang.epoch = epoch;
    gang.gpu_slot = cluster_.gpu_slot();
    gang.gpus_per_block = 4;
    gang.request = cluster_.Amounts(4, 1);
    for (size_t i = 0; i < nodes.size(); ++i) {
      gang.blocks.push_back({static_cast<int64_t>(i) * 4, nodes[i], epoch});
    }
    return gang;
  }

  PodState GangPod(const std::string& uid, int64_t first_rank, const std::string& pin,
                   const std::string& node, int64_t epoch = 1) {
    PodState pod;
    pod.uid = uid;
    pod.name = "default/" + uid;
    pod.gang_uid = "g";
    pod.first_rank = first_rank;
    pod.pinned_node = pin;
    pod.node = node;
    pod.epoch = epoch;
    pod.requests = cluster_.Amounts(4, 1);
    return pod;
  }

  BlockState StateOf(int64_t first_rank) {
    return ledger().FindGang("g")->FindBlock(first_rank)->state;
  }
  void ExpectSound() { EXPECT_TRUE(ledger().Verify().ok()) << ledger().Verify(); }

  TestCluster cluster_;
};

TEST_F(LedgerTest, ABlockHoldsBeforeItsPodExistsAndIsCountedOnceWithIt) {
  ledger().PutGang(MakeGang("g", {"n1", "n2"}));
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(StateOf(0), BlockState::kReserved);
  ledger().PutPod(GangPod("p0", 0, "n1", ""));
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(StateOf(0), BlockState::kPinned);
  ledger().PutPod(GangPod("p0", 0, "n1", "n1"));
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(StateOf(0), BlockState::kBound);
  EXPECT_EQ(ledger().FindGang("g")->FindBlock(0)->pod_uid, "p0");
  EXPECT_EQ(StateOf(4), BlockState::kReserved);
  ExpectSound();
  ledger().RemovePod("p0");
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(StateOf(0), BlockState::kReserved);
  ledger().RemoveGang("g");
  EXPECT_EQ(Used("n1"), 0);
  EXPECT_EQ(ledger().FindGang("g"), nullptr);
  ExpectSound();
}

TEST_F(LedgerTest, ThePodMayComeBeforeItsGangAndStayBehindIt) {
  ledger().PutPod(GangPod("p0", 0, "n1", "n1"));
  EXPECT_EQ(Used("n1"), 4);
  ledger().PutGang(MakeGang("g", {"n1"}));
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(StateOf(0), BlockState::kBound);
  ledger().RemoveGang("g");
  EXPECT_EQ(Used("n1"), 4) << "the pod still runs";
  ExpectSound();
}

TEST_F(LedgerTest, AnEndedPodHoldsNothingButItsBlockStillDoes) {
  ledger().PutGang(MakeGang("g", {"n1"}));
  PodState pod = GangPod("p0", 0, "n1", "n1");
  ledger().PutPod(pod);
  pod.ended = true;
  ledger().PutPod(pod);
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(StateOf(0), BlockState::kReserved);
  cluster_.Occupy("n2", 3);
  EXPECT_EQ(Used("n2"), 3);
  ExpectSound();
}

TEST_F(LedgerTest, PodsOfOlderEpochsAndTerminatingOnesHoldBesideTheBlock) {
  ledger().PutGang(MakeGang("g", {"n1"}, 2));
  ledger().PutPod(GangPod("old", 0, "n1", "n1", 1));
  EXPECT_EQ(Used("n1"), 8);
  EXPECT_EQ(StateOf(0), BlockState::kReserved);
  PodState present = GangPod("new", 0, "n1", "n1", 2);
  ledger().PutPod(present);
  EXPECT_EQ(Used("n1"), 8);
  present.deleting = true;
  ledger().PutPod(present);
  EXPECT_EQ(Used("n1"), 12);
  EXPECT_EQ(Free("n1"), -4);
  ledger().RemovePod("old");
  ledger().RemovePod("new");
  EXPECT_EQ(Used("n1"), 4);
  ExpectSound();
}

TEST_F(LedgerTest, ASpareHoldsAsMuchAsAPodUntilItsGangGoes) {
  Gang gang = MakeGang("g", {"n1"});
  gang.spares = {{"n2", 1}, {"n3", 2}, {"n2", 2}};
  ledger().PutGang(gang);
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(Used("n2"), 8);
  EXPECT_EQ(Used("n3"), 4);
  EXPECT_EQ(ledger().HeldBy("g", Node("n2"))[cluster_.gpu_slot()], 8);
  EXPECT_EQ(ledger().GpusOfQueue(gang.queue), 16);
  EXPECT_EQ(ledger().FindGang("g")->spares, gang.spares);
  EXPECT_EQ(ledger().FindGang("g")->gpus_held(), 4 * gang.gpus_per_block);
  ExpectSound();
  PlacementRequest request = cluster_.Request(1, 8);
  request.excluded = {"n1", "n3"};
  EXPECT_TRUE(std::holds_alternative<NotNow>(Place(request, ledger()))) << "n2 is held by spares";
  request.gang_uid = "g";
  EXPECT_TRUE(std::holds_alternative<Placed>(Place(request, ledger()))) << "by its own";
  const uint64_t digest = ledger().Digest();
  gang.spares.pop_back();
  ledger().PutGang(gang);
  EXPECT_EQ(Used("n2"), 4);
  EXPECT_NE(ledger().Digest(), digest);
  gang.spares.push_back({"n2", 2});
  ledger().PutGang(gang);
  EXPECT_EQ(ledger().Digest(), digest);
  ledger().RemoveGang("g");
  EXPECT_EQ(Used("n2"), 0);
  EXPECT_EQ(Used("n3"), 0);
  ExpectSound();
}

TEST_F(LedgerTest, WhatTheGangHoldsIncludesItsPodsThatLeave) {
  ledger().PutGang(MakeGang("g", {"n1"}, 2));
  ledger().PutPod(GangPod("old", 0, "n1", "n1", 1));
  ledger().PutPod(GangPod("elsewhere", 4, "n2", "n2", 1));
  cluster_.Occupy("n1", 1);
  EXPECT_EQ(ledger().HeldBy("g", Node("n1"))[cluster_.gpu_slot()], 8);
  EXPECT_EQ(ledger().HeldBy("g", Node("n2"))[cluster_.gpu_slot()], 4);
  EXPECT_EQ(ledger().HeldBy("g", Node("n3")), ResourceVector());
  EXPECT_EQ(ledger().HeldBy("other", Node("n1")), ResourceVector());
}

TEST_F(LedgerTest, OfTwoCandidatesTheLowerUidIsPresentAndTheOtherIsForeign) {
  ledger().PutGang(MakeGang("g", {"n1"}));
  ledger().PutPod(GangPod("b", 0, "n1", "n1"));
  ledger().PutPod(GangPod("a", 0, "n1", "n1"));
  EXPECT_EQ(ledger().FindGang("g")->blocks[0].pod_uid, "a");
  EXPECT_EQ(Used("n1"), 8);
  ledger().RemovePod("a");
  EXPECT_EQ(ledger().FindGang("g")->blocks[0].pod_uid, "b");
  EXPECT_EQ(Used("n1"), 4);
  ExpectSound();
}

TEST_F(LedgerTest, APodOnAnotherNodeThanItsBlockIsForeign) {
  ledger().PutGang(MakeGang("g", {"n1"}));
  ledger().PutPod(GangPod("p0", 0, "n1", "n2"));
  EXPECT_EQ(StateOf(0), BlockState::kReserved);
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(Used("n2"), 4);
  ExpectSound();
}

TEST_F(LedgerTest, ABlockHoldsWhatItsPodAsksForWhereThatIsMore) {
  ledger().PutGang(MakeGang("g", {"n1"}));
  PodState pod = GangPod("p0", 0, "n1", "");
  pod.requests[kCpuSlot] = 1000;
  pod.requests[cluster_.gpu_slot()] = 2;
  ledger().PutPod(pod);
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(ledger().used(Node("n1"))[kCpuSlot], 1000);
  EXPECT_EQ(ledger().HeldBy("g", Node("n1"))[kCpuSlot], 1000);
  ledger().RemovePod("p0");
  EXPECT_EQ(ledger().used(Node("n1"))[kCpuSlot], 0);
  ExpectSound();
}

TEST_F(LedgerTest, AMovedBlockLetsGoOfItsOldHome) {
  ledger().PutGang(MakeGang("g", {"n1", "n2"}));
  Gang moved = MakeGang("g", {"n1", "n3"});
  moved.epoch = 2;
  moved.blocks[1].epoch = 2;
  ledger().PutGang(moved);
  EXPECT_EQ(Used("n1"), 4);
  EXPECT_EQ(Used("n2"), 0);
  EXPECT_EQ(Used("n3"), 4);
  EXPECT_EQ(ledger().FindGang("g")->epoch, 2);
  ExpectSound();
}

TEST_F(LedgerTest, HoldersOfUnknownNodesWaitForTheNode) {
  cluster_.Occupy("later", 5);
  ledger().PutGang(MakeGang("g", {"later"}));
  EXPECT_EQ(ledger().FindGang("g")->blocks[0].node, "later");
  ExpectSound();
  NodeState state;
  state.name = "later";
  state.allocatable = cluster_.Amounts(16, 110);
  ledger().SetNode(state);
  ExpectSound();
  auto built = topology::BuildCluster({"node"}, {{"later", {}}, {"n2", {}}});
  ASSERT_TRUE(built.ok());
  ledger().SetCluster(std::make_shared<const topology::Cluster>(*std::move(built)));
  EXPECT_EQ(Used("later"), 9);
  EXPECT_EQ(Free("later"), 7);
  EXPECT_EQ(Free("n2"), 8) << "its state is kept";
  ExpectSound();
}

TEST_F(LedgerTest, ANodeThatLeavesTheModelKeepsItsHolders) {
  cluster_.Occupy("n1", 5);
  auto small = topology::BuildCluster({"node"}, {{"n2", {}}});
  auto large = topology::BuildCluster({"node"}, {{"n2", {}}, {"n1", {}}});
  ledger().SetCluster(std::make_shared<const topology::Cluster>(*std::move(small)));
  EXPECT_EQ(ledger().node_count(), 1U);
  ExpectSound();
  ledger().SetCluster(std::make_shared<const topology::Cluster>(*std::move(large)));
  EXPECT_EQ(Used("n1"), 5);
  ExpectSound();
}

TEST_F(LedgerTest, ARemovedNodeIsNeverPlacedOnAndItsHoldersStay) {
  cluster_.Occupy("n1", 5);
  ledger().RemoveNode("n1");
  EXPECT_EQ(Used("n1"), 5);
  EXPECT_EQ(Free("n1"), -5);
  EXPECT_FALSE(ledger().View()->nodes[Node("n1").index()].usable);
  EXPECT_EQ(ledger().PlaceableColumn()[Node("n1").index()], 0);
  ExpectSound();
}

TEST_F(LedgerTest, NegativeRequestsGiveNoCredit) {
  PodState pod;
  pod.uid = "p";
  pod.node = "n1";
  pod.requests = cluster_.Amounts(-100, 1);
  ledger().PutPod(pod);
  Gang gang = MakeGang("g", {"n1"});
  gang.request = cluster_.Amounts(-100, 1);
  ledger().PutGang(gang);
  EXPECT_EQ(Used("n1"), 0);
  NodeState state = ledger().node_state(Node("n2"));
  state.allocatable = cluster_.Amounts(-8, 110);
  ledger().SetNode(state);
  EXPECT_EQ(Free("n2"), 0);
  ExpectSound();
}

TEST_F(LedgerTest, SumsSaturateAndComeBackExactly) {
  PodState pod;
  pod.uid = "a";
  pod.node = "n1";
  pod.requests = cluster_.Amounts(kHugeRequest, 1);
  ledger().PutPod(pod);
  pod.uid = "b";
  ledger().PutPod(pod);
  cluster_.Occupy("n1", 3);
  EXPECT_EQ(Used("n1"), kHugeRequest);
  EXPECT_LT(Free("n1"), 0);
  ExpectSound();
  ledger().RemovePod("a");
  EXPECT_EQ(Used("n1"), kHugeRequest) << "the true sum is still more than fits";
  ledger().RemovePod("b");
  EXPECT_EQ(Used("n1"), 3);
  ExpectSound();
}

TEST_F(LedgerTest, ARankThatIsListedTwiceLivesAtItsNewestHome) {
  Gang gang = MakeGang("g", {"n1"});
  gang.blocks.push_back({0, "n2", 5});
  gang.blocks.push_back({0, "n3", 5});
  ledger().PutGang(gang);
  ASSERT_EQ(ledger().FindGang("g")->blocks.size(), 1U);
  EXPECT_EQ(ledger().FindGang("g")->blocks[0].node, "n2");
  EXPECT_EQ(Used("n1"), 0);
  ExpectSound();
}

TEST_F(LedgerTest, CountsTheGpusOfAQueue) {
  ledger().PutGang(MakeGang("g", {"n1", "n2"}));
  Gang other = MakeGang("h", {"n3"});
  other.queue = "production";
  ledger().PutGang(other);
  EXPECT_EQ(ledger().GpusOfQueue("research"), 8);
  EXPECT_EQ(ledger().GpusOfQueue("production"), 4);
  EXPECT_EQ(ledger().GpusOfQueue("nobody"), 0);
}

TEST_F(LedgerTest, AViewStaysAsItWasAndSharesWhatDidNotChange) {
  ledger().PutGang(MakeGang("g", {"n1"}));
  ledger().PutGang(MakeGang("h", {"n2"}));
  const std::shared_ptr<const LedgerView> before = ledger().View();
  EXPECT_EQ(ledger().View(), before);
  ledger().PutPod(GangPod("p0", 0, "n1", "n1"));
  const std::shared_ptr<const LedgerView> after = ledger().View();
  EXPECT_GT(after->version, before->version);
  EXPECT_EQ(before->gangs.find("g")->second->blocks[0].state, BlockState::kReserved);
  EXPECT_EQ(after->gangs.find("g")->second->blocks[0].state, BlockState::kBound);
  EXPECT_EQ(before->gangs.find("h")->second, after->gangs.find("h")->second);
  EXPECT_EQ(after->nodes[0].name, "n1");
  EXPECT_EQ(after->nodes[0].used[cluster_.gpu_slot()], 4);
  EXPECT_EQ(after->nodes[0].allocatable[cluster_.gpu_slot()], 8);
  EXPECT_EQ(after->resource_names[cluster_.gpu_slot()], "nvidia.com/gpu");
  EXPECT_EQ(after->cluster.get(), &ledger().cluster());
}

TEST_F(LedgerTest, APodThatIsSentAgainUnchangedChangesNothing) {
  ledger().PutPod(GangPod("p0", 0, "n1", "n1"));
  const uint64_t version = ledger().version();
  ledger().PutPod(GangPod("p0", 0, "n1", "n1"));
  EXPECT_EQ(ledger().version(), version);
  ledger().RemovePod("nobody");
  ledger().RemoveGang("nobody");
  EXPECT_EQ(ledger().version(), version);
}

TEST(Ledger, IsUsableBeforeAnyClusterIsKnown) {
  ResourceTable table;
  Ledger ledger(table);
  EXPECT_EQ(ledger.node_count(), 0U);
  EXPECT_EQ(ledger.View()->nodes.size(), 0U);
  EXPECT_TRUE(ledger.Verify().ok());
  PodState pod;
  pod.uid = "p";
  pod.node = "n1";
  pod.requests[kPodsSlot] = 1;
  ledger.PutPod(pod);
  EXPECT_TRUE(ledger.Verify().ok());
}

TEST(LedgerRows, ForgetsPlacesThatNobodyRefersTo) {
  LedgerRows rows;
  const PlaceId first = rows.Acquire("n1");
  EXPECT_EQ(rows.Acquire("n1"), first);
  rows.Release(first);
  EXPECT_EQ(rows.SortedRows().size(), 1U);
  rows.Release(first);
  EXPECT_TRUE(rows.SortedRows().empty());
  NodeState state;
  state.name = "n2";
  rows.SetState(state);
  rows.Release(rows.Acquire("n2"));
  EXPECT_EQ(rows.SortedRows().size(), 1U);
  rows.ClearState("n2");
  rows.ClearState("n2");
  EXPECT_TRUE(rows.SortedRows().empty());
  EXPECT_EQ(rows.Acquire("n3"), rows.Acquire("n3"));
  EXPECT_EQ(rows.SortedRows().front()->state.name, "n3");
}

TEST_F(LedgerTest, ForgetsProductsThatNoNodeHas) {
  const auto rename = [&](const std::string& node, const std::string& product) {
    NodeState state = ledger().node_state(Node(node));
    state.product = product;
    ledger().SetNode(state);
  };
  EXPECT_THAT(ledger().product_names(), ElementsAre(""));
  for (int i = 0; i < 1000; ++i) {
    rename("n1", "H100-" + std::to_string(i));
    rename("n2", "H200-" + std::to_string(i));
    ASSERT_EQ(ledger().Verify(), absl::OkStatus());
  }
  EXPECT_THAT(ledger().product_names(), UnorderedElementsAre("", "H100-999", "H200-999"));
  ledger().RemoveNode("n3");
  EXPECT_THAT(ledger().product_names(), UnorderedElementsAre("H100-999", "H200-999"));
  EXPECT_EQ(ledger().Verify(), absl::OkStatus());
}

TEST_F(LedgerTest, TellingANodeAgainIsNoChange) {
  const uint64_t version = ledger().version();
  const uint64_t node_version = ledger().node_version();
  ledger().SetNode(ledger().node_state(Node("n1")));
  ledger().RemoveNode("nobody");
  EXPECT_EQ(ledger().version(), version);
  EXPECT_EQ(ledger().node_version(), node_version);
  cluster_.SetUsable("n1", false);
  EXPECT_GT(ledger().version(), version);
  EXPECT_GT(ledger().node_version(), node_version);
}

// A gang that is carried out gives nobody room, however many events that takes.
TEST_F(LedgerTest, CommittingAGangFreesNoRoom) {
  const uint64_t before = ledger().room_version();
  ledger().PutGang(MakeGang("g", {"n1", "n2"}));
  ledger().PutPod(GangPod("p0", 0, "n1", ""));
  ledger().PutPod(GangPod("p4", 4, "n2", ""));
  ledger().PutPod(GangPod("p0", 0, "n1", "n1"));
  ledger().PutPod(GangPod("p4", 4, "n2", "n2"));
  EXPECT_EQ(ledger().room_version(), before);
  ledger().RemovePod("p0");
  EXPECT_EQ(ledger().room_version(), before) << "the block still holds its room";
  ledger().RemoveGang("g");
  EXPECT_GT(ledger().room_version(), before);
}

// Names get their slots in the order in which they are first seen; the digest must not care.
TEST(Ledger, DigestDoesNotDependOnTheOrderOfResourceNames) {
  const auto digest = [](const char* first, const char* second) {
    ResourceTable table;
    EXPECT_TRUE(table.SlotOf(first).has_value());
    EXPECT_TRUE(table.SlotOf(second).has_value());
    Ledger ledger(table);
    NodeState state;
    state.name = "n1";
    state.allocatable[*table.Find("a.com/x")] = 1;
    state.allocatable[*table.Find("b.com/y")] = 2;
    ledger.SetNode(state);
    return ledger.Digest();
  };
  EXPECT_EQ(digest("a.com/x", "b.com/y"), digest("b.com/y", "a.com/x"));
}

}  // namespace
}  // namespace asterism::scheduler
