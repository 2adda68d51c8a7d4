#include "topology/topology_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "fmt/format.h"
#include "rapidcheck/gtest.h"
#include "test/topology/fabric_generator.h"

namespace asterism::topology {
namespace {

using Kind = LevelSource::Kind;

const absl::Time kStart = absl::FromUnixSeconds(1'780'000'000);

std::vector<LabelledNode> NodesOf(const GeneratedFabric& made) {
  std::vector<LabelledNode> nodes;
  for (const std::string& host : made.hosts) {
    nodes.push_back(ReadNodeLabels(host, {{"nvidia.com/gpu.count", "8"}}, {8, 8, 0, true}));
  }
  return nodes;
}

// What the agent of a host of the generator reports.
NodeReport ReportOf(const GeneratedFabric& made, size_t host, size_t rails, uint64_t generation) {
  NodeReport report{.node = made.hosts[host],
                    .boot_id = "boot",
                    .generation = generation,
                    .gpu_count = 8,
                    .health = NodeHealth::kHealthy};
  for (size_t rail = 0; rail < rails; ++rail) {
    report.nics.push_back(
        {.node_guid = 0xb83fd20000000000 + 4 * (host * rails + rail), .compute = true});
  }
  return report;
}

KeeperOptions TwoLevels() {
  KeeperOptions options;
  options.levels = {{.name = "supernode", .kind = Kind::kSlice},
                    {.name = "leafgroup", .kind = Kind::kLeafGroup}};
  return options;
}

// Node -> domains, as a person would compare two snapshots.
std::map<std::string, std::vector<std::string>> Places(const TopologySnapshot& snapshot) {
  std::map<std::string, std::vector<std::string>> places;
  const Cluster& cluster = *snapshot.cluster;
  for (size_t i = 0; i < cluster.node_count(); ++i) {
    for (size_t level = 1; level + 1 < cluster.level_count(); ++level) {
      const DomainId domain = cluster.DomainOf(level, NodeId(i));
      places[cluster.node_name(NodeId(i))].push_back(
          cluster.named(level, domain) ? cluster.domain_name(level, domain) : "");
    }
  }
  return places;
}

size_t CountFindings(const TopologySnapshot& snapshot, FindingKind kind) {
  return static_cast<size_t>(
      std::count_if(snapshot.findings->begin(), snapshot.findings->end(),
                    [kind](const Finding& finding) { return finding.kind == kind; }));
}

TEST(TopologyKeeper, AFabricGivesLeafGroupsAndSlices) {
  const GeneratedFabric made = MakeFabric({.groups = 5, .hosts_per_group = 10, .rails = 4}, 1);
  TopologyKeeper keeper(TwoLevels());
  keeper.PutNodes(NodesOf(made), kStart);
  EXPECT_EQ(keeper.snapshot()->cluster->node_count(), 50U);
  keeper.PutFabric("ibnetdiscover", made.fabric, kStart);
  const auto snapshot = keeper.snapshot();
  EXPECT_EQ(snapshot->cluster->domain_count(2), 5U);
  EXPECT_EQ(snapshot->cluster->domain_count(1), 15U);  // 4 + 4 + 2 in each group
  EXPECT_EQ((*snapshot->conditions)[0].rail_mask, 0b1111U);
  EXPECT_FALSE(snapshot->change_held);
}

TEST(TopologyKeeper, NamesThatDoNotMatchAreJoinedByGuid) {
  const GeneratedFabric made = MakeFabric({.groups = 3, .hosts_per_group = 6, .rails = 2}, 1);
  Fabric nameless = made.fabric;
  for (FabricDevice& device : nameless.devices) {
    if (device.kind == DeviceKind::kAdapter) {
      device.name = "MT4129 ConnectX7   Mellanox Technologies";
    }
  }
  TopologyKeeper keeper(TwoLevels());
  keeper.PutNodes(NodesOf(made), kStart);
  keeper.PutFabric("ibnetdiscover", nameless, kStart);
  EXPECT_EQ(Places(*keeper.snapshot())["h000003"][1], "");
  for (size_t host = 0; host < made.hosts.size(); ++host) {
    keeper.PutReport(ReportOf(made, host, 2, 1), kStart);
  }
  keeper.PutFabric("ibnetdiscover", nameless, kStart);
  EXPECT_EQ(keeper.snapshot()->cluster->domain_count(2), 3U);
}

TEST(TopologyKeeper, AHealthReportTouchesTheConditionsOnly) {
  const GeneratedFabric made = MakeFabric({.groups = 3, .hosts_per_group = 6, .rails = 2}, 1);
  TopologyKeeper keeper(TwoLevels());
  keeper.PutNodes(NodesOf(made), kStart);
  keeper.PutReport(ReportOf(made, 4, 2, 1), kStart);
  const auto before = keeper.snapshot();
  NodeReport report = ReportOf(made, 4, 2, 2);
  report.health = NodeHealth::kDegraded;
  report.bad_links = 3;
  keeper.PutReport(report, kStart + absl::Seconds(30));
  const auto after = keeper.snapshot();
  EXPECT_EQ(before->cluster, after->cluster);
  EXPECT_GT(after->generation, before->generation);
  const NodeId node = after->cluster->FindNode("h000004");
  EXPECT_EQ((*after->conditions)[node.index()].bad_links, 3U);
  keeper.PutReport(ReportOf(made, 4, 2, 1), kStart + absl::Seconds(31));  // late
  EXPECT_EQ((*keeper.snapshot()->conditions)[node.index()].bad_links, 3U);
}

TEST(TopologyKeeper, ASilentAgentIsStaleAndItsNodeKeepsItsPlace) {
  const GeneratedFabric made = MakeFabric({.groups = 3, .hosts_per_group = 6, .rails = 2}, 1);
  TopologyKeeper keeper(TwoLevels());
  keeper.PutNodes(NodesOf(made), kStart);
  keeper.PutFabric("ibnetdiscover", made.fabric, kStart);
  keeper.PutReport(ReportOf(made, 0, 2, 1), kStart);
  const auto places = Places(*keeper.snapshot());
  keeper.Tick(kStart + absl::Seconds(91));
  const auto stale = keeper.snapshot();
  EXPECT_EQ(Places(*stale), places);
  EXPECT_TRUE((*stale->conditions)[0].stale);
  EXPECT_EQ((*stale->conditions)[0].health, NodeHealth::kUnknown);
  EXPECT_EQ(CountFindings(*stale, FindingKind::kStale), 1U);
  keeper.Tick(kStart + absl::Hours(25));
  EXPECT_EQ(CountFindings(*keeper.snapshot(), FindingKind::kStale), 2U);
  EXPECT_EQ(Places(*keeper.snapshot()), places);
}

TEST(TopologyKeeper, AChangeOfManyNodesIsHeldUntilItIsSeenAgainOrConfirmed) {
  const GeneratedFabric made = MakeFabric({.groups = 10, .hosts_per_group = 10, .rails = 2}, 1);
  GeneratedFabric moved = MakeFabric({.groups = 10, .hosts_per_group = 10, .rails = 2}, 1);
  // Group 0 and 1 swap halves of their hosts: the switches of one half are those of the other.
  for (HalfLink& half : moved.fabric.half_links) {
    for (uint32_t* end : {&half.device, &half.peer}) {
      if (moved.fabric.devices[*end].kind == DeviceKind::kSwitch && *end < 4) {
        const bool swap = half.port <= 6 && half.peer_port <= 6;
        *end = swap ? (*end + 2) % 4 : *end;
      }
    }
  }
  for (const bool confirmed : {false, true}) {
    TopologyKeeper keeper(TwoLevels());
    keeper.PutNodes(NodesOf(made), kStart);
    keeper.PutFabric("ibnetdiscover", made.fabric, kStart);
    const auto before = Places(*keeper.snapshot());
    keeper.PutFabric("ibnetdiscover", moved.fabric, kStart + absl::Minutes(1));
    EXPECT_TRUE(keeper.snapshot()->change_held);
    EXPECT_EQ(CountFindings(*keeper.snapshot(), FindingKind::kMassChangeHeld), 1U);
    EXPECT_EQ(Places(*keeper.snapshot()), before);
    if (confirmed) {
      keeper.Confirm();
    } else {
      keeper.PutFabric("ibnetdiscover", moved.fabric, kStart + absl::Minutes(2));
    }
    EXPECT_FALSE(keeper.snapshot()->change_held);
    EXPECT_NE(Places(*keeper.snapshot()), before);
  }
}

TEST(TopologyKeeper, ANodeLeavesAfterThreeListingsOrAtACommand) {
  const GeneratedFabric made = MakeFabric({.groups = 4, .hosts_per_group = 10, .rails = 2}, 1);
  TopologyKeeper keeper(TwoLevels());
  std::vector<LabelledNode> nodes = NodesOf(made);
  keeper.PutNodes(nodes, kStart);
  nodes.pop_back();
  for (int listing = 1; listing <= 3; ++listing) {
    EXPECT_EQ(keeper.snapshot()->cluster->node_count(), 40U);
    keeper.PutNodes(nodes, kStart);
    keeper.PutNodes({}, kStart);  // no answer: does not count
  }
  EXPECT_EQ(keeper.snapshot()->cluster->node_count(), 39U);
  keeper.RemoveNode("h000001");
  EXPECT_EQ(keeper.snapshot()->cluster->node_count(), 38U);
}

TEST(TopologyKeeper, ANewLeaderFindsTheSameIdsFromTheLabels) {
  const GeneratedFabric made = MakeFabric({.groups = 4, .hosts_per_group = 10, .rails = 2}, 1);
  TopologyKeeper first(TwoLevels());
  first.PutNodes(NodesOf(made), kStart);
  first.PutFabric("ibnetdiscover", made.fabric, kStart);
  std::vector<LabelledNode> labelled;
  for (const auto& [name, path] : Places(*first.snapshot())) {
    labelled.push_back(ReadNodeLabels(name, {{"asterism.dev/domain-leafgroup", path[1]}}, {}));
  }
  // All switches were replaced meanwhile.
  Fabric replaced = made.fabric;
  Fabric renamed;
  for (const FabricDevice& device : replaced.devices) {
    const bool is_switch = device.kind == DeviceKind::kSwitch;
    const uint32_t index = renamed.Device(device.guid + (is_switch ? 0x1000 : 0), device.kind);
    const uint64_t guid = renamed.devices[index].guid;
    renamed.devices[index] = device;
    renamed.devices[index].guid = guid;
  }
  renamed.half_links = replaced.half_links;
  TopologyKeeper second(TwoLevels());
  second.PutNodes(std::move(labelled), kStart);
  second.PutFabric("ibnetdiscover", std::move(renamed), kStart);
  EXPECT_EQ(Places(*second.snapshot()), Places(*first.snapshot()));
}

TEST(TopologyKeeper, NvlinkDomainsStayWhileTheFabricManagerRestarts) {
  KeeperOptions options;
  TopologyKeeper keeper(options);  // supernode: auto
  std::vector<LabelledNode> nodes;
  for (int i = 0; i < 36; ++i) {
    nodes.push_back(ReadNodeLabels(fmt::format("t{}", i), {}, {4, 4, 0, true}));
  }
  keeper.PutNodes(nodes, kStart);
  EXPECT_EQ(keeper.snapshot()->cluster->domain_count(1), 9U);  // by name, four each
  for (int i = 0; i < 36; ++i) {
    keeper.PutReport({.node = fmt::format("t{}", i),
                      .generation = 1,
                      .gpu_count = 4,
                      .domain_state = DomainState::kMember,
                      .nvlink_domain = i < 18 ? "4a1e7d02.1" : "4a1e7d02.2"},
                     kStart);
  }
  EXPECT_EQ(keeper.snapshot()->cluster->domain_count(1), 2U);
  for (int i = 0; i < 36; ++i) {
    keeper.PutReport({.node = fmt::format("t{}", i), .generation = 2, .gpu_count = 4}, kStart);
  }
  EXPECT_EQ(keeper.snapshot()->cluster->domain_count(1), 2U);
}

// Whatever one source says or does not say, the nodes and their named domains stay within the TTL.
RC_GTEST_PROP(TopologyKeeper, NoSingleSourceTakesCapacity, ()) {
  const auto seed = *rc::gen::inRange<uint64_t>(1, 1'000'000);
  base::Rng rng(seed);
  const FabricShape shape{.groups = 6, .hosts_per_group = 8, .rails = 4, .spines = 2};
  const GeneratedFabric made = MakeFabric(shape, seed);
  TopologyKeeper keeper(TwoLevels());
  const std::vector<LabelledNode> nodes = NodesOf(made);
  keeper.PutNodes(nodes, kStart);
  keeper.PutFabric("ibnetdiscover", made.fabric, kStart);
  for (size_t host = 0; host < made.hosts.size(); ++host) {
    keeper.PutReport(ReportOf(made, host, shape.rails, 1), kStart);
  }
  absl::Time now = kStart;
  for (int step = 0; step < 12; ++step) {
    now += absl::Seconds(static_cast<int64_t>(rng.Below(60)));
    Fabric broken = made.fabric;
    switch (rng.Below(6)) {
      case 0:
        keeper.PutNodes({}, now);
        break;
      case 1:
        keeper.PutFabric("ibnetdiscover", Fabric(), now);
        break;
      case 2:  // a dump that was cut
        broken.half_links.resize(rng.Below(broken.half_links.size()));
        keeper.PutFabric("ibnetdiscover", std::move(broken), now);
        break;
      case 3: {  // an agent restarts and knows nothing yet
        NodeReport report = ReportOf(made, rng.Below(made.hosts.size()), shape.rails, 1);
        report.boot_id = "again";
        report.nics.clear();
        report.gpu_count = 0;
        keeper.PutReport(std::move(report), now);
        break;
      }
      case 4:
        keeper.Tick(now);
        break;
      case 5: {  // a listing that lacks nodes, twice at most in a row
        std::vector<LabelledNode> some(nodes.begin(), nodes.begin() + 20);
        keeper.PutNodes(some, now);
        keeper.PutNodes(nodes, now);
        break;
      }
    }
    RC_ASSERT(keeper.snapshot()->cluster->node_count() == made.hosts.size());
    for (const auto& [name, path] : Places(*keeper.snapshot())) {
      for (size_t level = 0; level < path.size(); ++level) {
        RC_ASSERT(!path[level].empty());
      }
    }
  }
}

std::vector<LabelledNode> PlainNodes(int count, const Labels& labels = {}) {
  std::vector<LabelledNode> nodes;
  for (int i = 0; i < count; ++i) {
    nodes.push_back(ReadNodeLabels(fmt::format("t{}", i), labels, {4, 4, 0, true}));
  }
  return nodes;
}

NodeReport InDomain(int node, const std::string& domain, uint64_t generation = 1) {
  return {.node = fmt::format("t{}", node),
          .boot_id = "boot",
          .generation = generation,
          .gpu_count = 4,
          .domain_state = DomainState::kMember,
          .nvlink_domain = domain,
          .health = NodeHealth::kHealthy};
}

size_t Placed(const TopologyKeeper& keeper, PlaceOrigin origin) {
  return keeper.CountOrigins(0)[static_cast<size_t>(origin)];
}

TEST(TopologyKeeper, AutoTakesForEachNodeTheBestThatIsKnownOfIt) {
  TopologyKeeper keeper({});
  std::vector<LabelledNode> nodes = PlainNodes(12, {{"asterism.dev/declared-supernode", "rack"}});
  nodes[11] = ReadNodeLabels("t11", {{"network.topology.nvidia.com/leaf", "leaf-of-cloud"}}, {});
  keeper.PutNodes(nodes, kStart);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kDeclared), 11U);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kLabel), 1U);
  keeper.PutReport(InDomain(0, "4a1e7d02.1"), kStart);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kNvlink), 0U) << "a domain of one node is the node";
  keeper.PutReport(InDomain(1, "4a1e7d02.1"), kStart);
  keeper.Confirm();
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kNvlink), 2U);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kDeclared), 9U);
}

TEST(TopologyKeeper, ALabelThatTheSiteNamesIsFollowedWhateverIsMeasured) {
  KeeperOptions options;
  options.levels = {{.name = "rack", .kind = Kind::kLabel, .label = "example.com/rack"}};
  TopologyKeeper keeper(options);
  const auto labelled = [](int per_rack) {
    std::vector<LabelledNode> nodes = PlainNodes(12);
    for (size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].declared.push_back(
          {"example.com/rack", fmt::format("r{}", i / static_cast<size_t>(per_rack))});
    }
    return nodes;
  };
  keeper.PutNodes(labelled(4), kStart);
  EXPECT_EQ(keeper.snapshot()->cluster->domain_count(1), 3U);
  keeper.PutNodes(labelled(2), kStart);
  EXPECT_EQ(keeper.snapshot()->cluster->domain_count(1), 6U) << "people may move all at once";
  keeper.PutNodes(PlainNodes(12), kStart);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kNobody), 12U);
}

TEST(TopologyKeeper, WhatAFormerLeaderSaidHoldsUntilSomebodySaysOtherwise) {
  TopologyKeeper keeper({});
  std::vector<LabelledNode> nodes;
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(ReadNodeLabels(fmt::format("t{}", i),
                                   {{"asterism.dev/domain-supernode", "4a1e7d02.1"}}, {}));
  }
  keeper.PutNodes(nodes, kStart);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kRemembered), 4U);
  EXPECT_EQ(keeper.snapshot()->cluster->domain_count(1), 1U);
  // Somebody takes the label off a node, and with it the memory.
  keeper.PutNode(ReadNodeLabels("t3", {}, {}));
  keeper.Settle();
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kRemembered), 3U);
  // One node's agent says that it is in no domain any more.
  NodeReport none = InDomain(0, "");
  none.domain_state = DomainState::kNone;
  keeper.PutReport(none, kStart);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kRemembered), 2U);
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kNobody), 2U);
}

TEST(TopologyKeeper, SlicesAreTheSameForTheNextLeader) {
  const GeneratedFabric made = MakeFabric({.groups = 2, .hosts_per_group = 10, .rails = 2}, 1);
  TopologyKeeper first(TwoLevels());
  // The first hosts come late and take the last places.
  std::vector<LabelledNode> nodes = NodesOf(made);
  first.PutNodes({nodes.begin() + 3, nodes.end()}, kStart);
  first.PutFabric("ibnetdiscover", made.fabric, kStart);
  first.PutNodes(nodes, kStart);
  std::vector<LabelledNode> labelled;
  for (const auto& [name, path] : Places(*first.snapshot())) {
    labelled.push_back(ReadNodeLabels(
        name,
        {{"asterism.dev/domain-supernode", path[0]}, {"asterism.dev/domain-leafgroup", path[1]}},
        {}));
  }
  TopologyKeeper second(TwoLevels());
  second.PutNodes(labelled, kStart);
  EXPECT_EQ(Places(*second.snapshot()), Places(*first.snapshot())) << "before it sees the fabric";
  second.PutFabric("ibnetdiscover", made.fabric, kStart);
  EXPECT_EQ(Places(*second.snapshot()), Places(*first.snapshot()));
}

TEST(TopologyKeeper, AnIdThatTooManyNodesClaimIsNoDomain) {
  TopologyKeeper keeper({});
  keeper.PutNodes(PlainNodes(40), kStart);
  for (int i = 0; i < 40; ++i) {
    keeper.PutReport(InDomain(i, "00000000-0001.0"), kStart);  // a placeholder: 160 GPUs
  }
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kNvlink), 0U);
  EXPECT_EQ(CountFindings(*keeper.snapshot(), FindingKind::kCliqueOversize), 1U);
}

TEST(TopologyKeeper, LinksThatAreDarkOnEveryBoardOfAProductAreNotDown) {
  TopologyKeeper keeper({});
  keeper.PutNodes(PlainNodes(6), kStart);
  for (int i = 0; i < 6; ++i) {
    NodeReport report = InDomain(i, "4a1e7d02.1");
    report.product = "H100 with four GPUs";
    report.bad_links = i == 5 ? 14 : 12;
    report.good_links = i == 5 ? 22 : 24;
    keeper.PutReport(report, kStart);
  }
  keeper.Tick(kStart);
  EXPECT_EQ(CountFindings(*keeper.snapshot(), FindingKind::kNvlinkLinkDown), 1U);
  for (int i = 0; i < 6; ++i) {
    const NodeId node = keeper.snapshot()->cluster->FindNode(fmt::format("t{}", i));
    const NodeCondition& condition = (*keeper.snapshot()->conditions)[node.index()];
    EXPECT_EQ(condition.bad_links, i == 5 ? 2U : 0U);
    EXPECT_EQ(condition.health, i == 5 ? NodeHealth::kDegraded : NodeHealth::kHealthy);
  }
}

TEST(TopologyKeeper, AReportMayComeBeforeItsNode) {
  TopologyKeeper keeper({});
  keeper.PutNodes(PlainNodes(1), kStart);
  keeper.PutReport(InDomain(1, "4a1e7d02.1"), kStart);
  keeper.PutReport(InDomain(0, "4a1e7d02.1"), kStart);
  EXPECT_TRUE(keeper.PutNode(PlainNodes(2)[1]));
  keeper.Settle();
  EXPECT_EQ(Placed(keeper, PlaceOrigin::kNvlink), 2U);
}

TEST(TopologyKeeper, NothingNewIsNoNewSnapshot) {
  TopologyKeeper keeper({});
  keeper.PutNodes(PlainNodes(4), kStart);
  keeper.PutReport(InDomain(0, "4a1e7d02.1"), kStart);
  const auto before = keeper.snapshot();
  keeper.PutReport(InDomain(0, "4a1e7d02.1", 2), kStart + absl::Seconds(1));
  keeper.Tick(kStart + absl::Seconds(2));
  EXPECT_FALSE(keeper.PutNode(PlainNodes(1)[0]));
  keeper.Settle();
  EXPECT_EQ(keeper.snapshot(), before);
}

// Only the moves of a mass change wait: what else an update brings counts at once.
TEST(TopologyKeeper, ANewNodeDoesNotWaitForAChangeThatIsHeld) {
  TopologyKeeper keeper({});
  keeper.PutNodes(PlainNodes(8), kStart);
  for (int i = 0; i < 8; ++i) {
    keeper.PutReport(InDomain(i, i < 4 ? "4a1e7d02.1" : "4a1e7d02.2"), kStart);
  }
  const auto before = Places(*keeper.snapshot());
  std::vector<NodeReport> moved;
  for (int i = 0; i < 8; ++i) {
    moved.push_back(InDomain(i, i % 2 == 0 ? "4a1e7d02.1" : "4a1e7d02.2", 2));
  }
  keeper.PutReports(moved, kStart);
  ASSERT_TRUE(keeper.snapshot()->change_held);
  const std::string change = keeper.HeldChange();
  EXPECT_EQ(Places(*keeper.snapshot()), before);
  keeper.PutNode(PlainNodes(9)[8]);
  EXPECT_EQ(keeper.HeldChange(), change);
  keeper.DropNode("t0");
  keeper.Settle();
  EXPECT_FALSE(keeper.snapshot()->cluster->FindNode("t0").valid());
  EXPECT_TRUE(keeper.snapshot()->cluster->FindNode("t8").valid());
}

TEST(DomainIds, AnIdSurvivesUntilHalfOfItsMembersHaveLeft) {
  DomainIds ids;
  std::vector<std::string> members;
  for (int i = 0; i < 100; ++i) {
    members.push_back(fmt::format("n{}", i));
  }
  EXPECT_EQ(ids.Assign({{"leaf-a", members}})[0], "leaf-a");
  std::vector<std::string> changed = members;
  for (int i = 0; i < 49; ++i) {
    changed[static_cast<size_t>(i)] = fmt::format("new{}", i);
  }
  EXPECT_EQ(ids.Assign({{"leaf-b", changed}})[0], "leaf-a");
  // More than half are in another domain now: the id goes with them.
  DomainIds others;
  others.Assign({{"leaf-a", members}});
  const std::vector<std::string> stayed(members.begin(), members.begin() + 49);
  const std::vector<std::string> moved(members.begin() + 49, members.end());
  EXPECT_THAT(others.Assign({{"leaf-b", stayed}, {"leaf-c", moved}}),
              ::testing::ElementsAre("leaf-b", "leaf-a"));
}

TEST(DomainIds, ADumpThatIsCutRenamesNothing) {
  DomainIds ids;
  ids.Assign({{"leaf-a", {"1", "2", "3", "4", "5", "6"}}});
  EXPECT_EQ(ids.Assign({{"leaf-b", {"6"}}})[0], "leaf-a");
}

TEST(DomainIds, TwoDomainsNeverShareAnId) {
  DomainIds ids;
  ids.Assign({{"leaf-a", {"1", "2", "3", "4"}}});
  EXPECT_THAT(ids.Assign({{"leaf-a", {"1", "2"}}, {"leaf-a", {"3", "4"}}}),
              ::testing::ElementsAre("leaf-a", "leaf-a-2"));
}

}  // namespace
}  // namespace asterism::topology
