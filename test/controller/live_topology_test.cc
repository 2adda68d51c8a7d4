// What agents measure becomes the model that gangs are placed by: the whole controller against the
// fake API server, with agents that speak to its registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/cluster_topology.h"
#include "controller/control_plane.h"
#include "fake_cluster.h"
#include "fmt/format.h"
#include "test/source_tree.h"

namespace asterism::controller {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string NodeName(int index) {
  return fmt::format("node-{:03}", index);
}

// An NVLink domain of that many nodes: 0-5, 6-11, ...
class LiveTopologyTest : public ::testing::Test {
 protected:
  static constexpr int kNodes = 12;
  static constexpr int kNodesPerDomain = 6;

  void Begin(int nodes_per_declared = 0) {
    cluster_.AddNodes(kNodes, nodes_per_declared == 0 ? 4 : nodes_per_declared);
    if (nodes_per_declared == 0) {
      for (int i = 0; i < kNodes; ++i) {
        Patch(NodeName(i), {{"asterism.dev/declared-supernode", nullptr}});
      }
    }
    Lead("a");
  }
  void Lead(const std::string& name) {
    cluster_.StartController(name);
    ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.leader() != nullptr; }));
  }
  void Patch(const std::string& node, const nlohmann::json& labels) {
    cluster_.server().Patch(kube::kNodes, {"", node},
                            nlohmann::json{{"metadata", {{"labels", labels}}}}.dump(),
                            {.type = kube::PatchType::kMerge}, [](auto) {});
  }
  static v1::NodeMeasurement Measured(int node, const std::string& uuid, int links_down = 0) {
    v1::NodeMeasurement measurement;
    measurement.set_generation(1);
    measurement.set_full(true);
    for (int gpu = 0; gpu < 8; ++gpu) {
      v1::MeasuredGpu& added = *measurement.mutable_gpus()->add_gpus();
      added.set_uuid(fmt::format("GPU-{}-{}", node, gpu));
      added.set_product("B200");
      for (int link = 0; link < 18; ++link) {
        added.add_links()->set_up(gpu > 0 || link >= links_down);
      }
    }
    v1::MeasuredNvlinkDomain& domain = *measurement.mutable_nvlink_domain();
    domain.set_state(v1::MeasuredNvlinkDomain::MEMBER);
    domain.set_cluster_uuid(uuid);
    domain.set_clique_id(1);
    domain.set_health(v1::MeasuredNvlinkDomain::HEALTHY);
    return measurement;
  }
  static std::string UuidOf(int node) {
    return fmt::format("4a1e7d02-0000-4000-8000-{:012}", node / kNodesPerDomain + 1);
  }
  // The agent of a node attaches and tells.
  void Tell(int node, const v1::NodeMeasurement& measurement) {
    AgentRegistry& agents = cluster_.leader()->agents();
    v1::AgentHello hello;
    hello.set_node(NodeName(node));
    hello.set_boot_id("boot");
    const uint64_t stream = ++streams_;
    agents.Attach(stream, hello);
    EXPECT_FALSE(agents.OnMeasurement(stream, measurement));
    stream_of_node_[node] = stream;
  }
  void TellAll() {
    for (int i = 0; i < kNodes; ++i) {
      Tell(i, Measured(i, UuidOf(i)));
    }
    cluster_.Run(absl::Seconds(6));
  }
  void BeatAll() {
    for (const auto& [node, stream] : stream_of_node_) {
      cluster_.leader()->agents().Hear(stream);
      cluster_.leader()->agents().OnBeat(stream);
    }
  }
  std::shared_ptr<const TopologyState> state() { return cluster_.leader()->topology_state(); }
  // Node -> domain of the level above the node.
  std::map<std::string, std::string> Supernodes() {
    std::map<std::string, std::string> places;
    const topology::Cluster& cluster = *cluster_.leader()->view()->cluster;
    for (size_t i = 0; i < cluster.node_count(); ++i) {
      const auto domain = cluster.DomainOf(1, topology::NodeId(i));
      places[cluster.node_name(topology::NodeId(i))] =
          cluster.named(1, domain) ? cluster.domain_name(1, domain) : "";
    }
    return places;
  }
  std::string DomainLabel(int node) {
    const auto object = cluster_.server().Find(kube::kNodes, {"", NodeName(node)});
    return object->at("metadata").at("labels").value("asterism.dev/domain-supernode", "");
  }
  nlohmann::json TopologyObject() {
    const auto object = cluster_.server().Find(kClusterTopologies, {"", "cluster"});
    return object == nullptr ? nlohmann::json() : *object;
  }
  std::vector<std::string> NodeEvents() {
    std::vector<std::string> notes;
    for (const auto& event : cluster_.server().All(kube::kEvents)) {
      if (event->at("regarding").at("kind") == "Node") {
        notes.push_back(event->value("reason", "") + ": " + event->value("note", ""));
      }
    }
    return notes;
  }
  size_t Count(topology::FindingKind kind) {
    size_t count = 0;
    for (const topology::Finding& finding : *state()->snapshot->findings) {
      count += finding.kind == kind ? 1 : 0;
    }
    return count;
  }

  FakeCluster cluster_{7};
  uint64_t streams_ = 0;
  std::map<int, uint64_t> stream_of_node_;
};

TEST_F(LiveTopologyTest, AGangIsPlacedByTheNvlinkDomainsThatAgentsMeasure) {
  Begin();
  TellAll();
  std::set<std::string> domains;
  for (const auto& [node, domain] : Supernodes()) {
    domains.insert(domain);
  }
  EXPECT_THAT(domains, SizeIs(2));
  cluster_.CreateJob(
      "llama", 8 * kNodesPerDomain,
      {{"placement", {{"levels", {{{"level", "supernode"}, {"mode", "Required"}}}}}}});
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf("llama") == "Running"; }))
      << cluster_.StatusOf("llama").dump(1);
  std::set<std::string> used;
  for (const auto& [name, pod] : cluster_.PodsOf("llama")) {
    used.insert(Supernodes().at(pod["spec"]["nodeName"]));
  }
  EXPECT_THAT(used, SizeIs(1)) << "six nodes fit into no slice of four";
}

TEST_F(LiveTopologyTest, WhereNodesAreIsWrittenOnThemOnceAndFoundByTheNextLeader) {
  Begin();
  TellAll();
  ASSERT_TRUE(cluster_.RunUntil([&] { return DomainLabel(kNodes - 1) != ""; }));
  cluster_.Run(absl::Seconds(20));
  for (int i = 0; i < kNodes; ++i) {
    EXPECT_EQ(DomainLabel(i), UuidOf(i) + ".1");
  }
  const auto before = Supernodes();
  const std::string version = TopologyObject()["metadata"]["resourceVersion"];
  const auto node = *cluster_.server().Find(kube::kNodes, {"", NodeName(3)});
  for (int i = 0; i < 12; ++i) {
    cluster_.Run(absl::Seconds(10));
    BeatAll();
  }
  EXPECT_EQ(TopologyObject()["metadata"]["resourceVersion"], version) << "nothing changes";
  EXPECT_EQ(*cluster_.server().Find(kube::kNodes, {"", NodeName(3)}), node);
  cluster_.KillController("a");
  stream_of_node_.clear();
  Lead("b");
  EXPECT_EQ(Supernodes(), before) << "no agent has spoken to it";
  EXPECT_EQ(
      CountOrigins(*state()->snapshot, 1)[static_cast<size_t>(topology::PlaceOrigin::kRemembered)],
      size_t{kNodes});
  TellAll();
  EXPECT_EQ(Supernodes(), before);
  EXPECT_EQ(
      CountOrigins(*state()->snapshot, 1)[static_cast<size_t>(topology::PlaceOrigin::kNvlink)],
      size_t{kNodes});
}

TEST_F(LiveTopologyTest, ALinkThatGoesDownIsAnEventAFindingAndAMetricOnce) {
  Begin();
  TellAll();
  EXPECT_THAT(NodeEvents(), IsEmpty());
  Tell(4, Measured(4, UuidOf(4), 2));
  cluster_.Run(absl::Seconds(15));
  EXPECT_EQ(Count(topology::FindingKind::kNvlinkLinkDown), 2U) << "the node, and its GPU";
  EXPECT_THAT(NodeEvents(), Contains(AllOf(HasSubstr("NvlinkLinkDown"), HasSubstr("node-004"))));
  const size_t events = NodeEvents().size();
  EXPECT_THAT(cluster_.registry("a").Expose(),
              HasSubstr("asterism_topology_anomalies{kind=\"nvlink-link-down\"} 2"));
  EXPECT_THAT(cluster_.registry("a").Expose(),
              HasSubstr("asterism_topology_nodes{level=\"node\",state=\"degraded\"} 1"));
  EXPECT_THAT(TopologyObject()["status"]["anomalies"].dump(), HasSubstr("nvlink-link-down"));
  cluster_.Run(absl::Seconds(30));
  EXPECT_THAT(NodeEvents(), SizeIs(events));
  // The next leader finds it told already.
  cluster_.KillController("a");
  Lead("b");
  for (int i = 0; i < kNodes; ++i) {
    Tell(i, Measured(i, UuidOf(i), i == 4 ? 2 : 0));
  }
  cluster_.Run(absl::Seconds(15));
  EXPECT_EQ(Count(topology::FindingKind::kNvlinkLinkDown), 2U);
  EXPECT_THAT(NodeEvents(), SizeIs(events));
}

TEST_F(LiveTopologyTest, AnUnhealthyNodeTakesNoNewGangUntilItIsFitOrItsAgentIsSilent) {
  Begin();
  TellAll();
  cluster_.CreateJob("runs", 8);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf("runs") == "Running"; }));
  v1::NodeMeasurement sick = Measured(0, UuidOf(0));
  sick.mutable_nvlink_domain()->set_health(v1::MeasuredNvlinkDomain::UNHEALTHY);
  std::string home = cluster_.PodsOf("runs").begin()->second["spec"]["nodeName"];
  const int other = home == NodeName(0) ? 1 : 0;
  Tell(other, sick);
  cluster_.CreateJob("whole", 8 * (kNodes - 1));
  cluster_.Run(absl::Seconds(10));
  EXPECT_THAT(cluster_.PodsOf("whole"), IsEmpty());
  EXPECT_EQ(cluster_.StateOf("runs"), "Running");
  sick.mutable_nvlink_domain()->set_health(v1::MeasuredNvlinkDomain::HEALTHY);
  Tell(other, sick);
  EXPECT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf("whole") == "Running"; }));
}

TEST_F(LiveTopologyTest, ADegradedNodeIsTheLastChoice) {
  Begin();
  TellAll();
  Tell(0, Measured(0, UuidOf(0), 2));
  cluster_.Run(absl::Seconds(15));
  ASSERT_THAT(cluster_.registry("a").Expose(),
              HasSubstr("asterism_topology_nodes{level=\"node\",state=\"degraded\"} 1"));
  cluster_.CreateJob("most", 8 * (kNodes - 1));
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf("most") == "Running"; }));
  for (const auto& [name, pod] : cluster_.PodsOf("most")) {
    EXPECT_NE(pod["spec"]["nodeName"], NodeName(0)) << name;
  }
  cluster_.CreateJob("last", 8);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf("last") == "Running"; }));
  EXPECT_EQ(cluster_.PodsOf("last").begin()->second["spec"]["nodeName"], NodeName(0));
}

TEST_F(LiveTopologyTest, ASilentAgentTakesNothingAway) {
  Begin();
  TellAll();
  const auto before = Supernodes();
  cluster_.Run(absl::Minutes(3));
  EXPECT_EQ(Supernodes(), before);
  EXPECT_EQ(Count(topology::FindingKind::kStale), size_t{kNodes});
  cluster_.CreateJob("whole", 8 * kNodes);
  EXPECT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf("whole") == "Running"; }));
}

TEST_F(LiveTopologyTest, AChangeOfManyNodesIsHeldUntilAnOperatorConfirmsIt) {
  Begin();
  TellAll();
  const auto before = Supernodes();
  const auto moved = [](int node) {
    return Measured(node, fmt::format("4a1e7d02-0000-4000-8000-{:012}", 77 + node % 2));
  };
  for (int i = 0; i < kNodes; ++i) {
    Tell(i, moved(i));
  }
  ASSERT_TRUE(cluster_.RunUntil([&] { return state()->snapshot->change_held; }));
  cluster_.Run(absl::Seconds(30));
  EXPECT_EQ(Supernodes(), before);
  EXPECT_THAT(TopologyObject()["status"]["anomalies"].dump(), HasSubstr("mass-change-held"));
  const auto annotate = [&](const std::string& change) {
    cluster_.server().Patch(
        kClusterTopologies, {"", "cluster"},
        nlohmann::json{{"metadata", {{"annotations", {{std::string(kConfirmChange), change}}}}}}
            .dump(),
        {.type = kube::PatchType::kMerge}, [](auto) {});
    cluster_.Run(absl::Seconds(15));
  };
  annotate("another");
  EXPECT_EQ(Supernodes(), before);
  annotate(state()->held_change);
  EXPECT_NE(Supernodes(), before);
  EXPECT_FALSE(state()->snapshot->change_held);
}

TEST_F(LiveTopologyTest, AHeldChangePassesWhenItIsStillSoLater) {
  Begin();
  TellAll();
  const auto before = Supernodes();
  for (int i = 0; i < kNodes; ++i) {
    Tell(i, Measured(i, fmt::format("4a1e7d02-0000-4000-8000-{:012}", 77 + i % 2)));
  }
  cluster_.Run(absl::Minutes(4));
  EXPECT_EQ(Supernodes(), before);
  cluster_.Run(absl::Minutes(2));
  EXPECT_NE(Supernodes(), before);
}

TEST_F(LiveTopologyTest, ARunningGangKeepsItsNodesWhenTheyMove) {
  Begin();
  TellAll();
  cluster_.CreateJob(
      "llama", 8 * kNodesPerDomain,
      {{"placement", {{"levels", {{{"level", "supernode"}, {"mode", "Required"}}}}}}});
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf("llama") == "Running"; }));
  const auto pods = cluster_.PodsOf("llama");
  for (int i = 0; i < kNodes; ++i) {
    Tell(i, Measured(i, fmt::format("4a1e7d02-0000-4000-8000-{:012}", 77 + i % 2)));
  }
  cluster_.Run(absl::Minutes(7));
  EXPECT_EQ(cluster_.PodsOf("llama"), pods);
  EXPECT_EQ(cluster_.StateOf("llama"), "Running");
  EXPECT_EQ(cluster_.StatusOf("llama")["placement"]["epoch"], 1);
  EXPECT_EQ(cluster_.Violations(), "");
}

TEST_F(LiveTopologyTest, ADumpIsReadAgainWhenItChangesAndABrokenOneChangesNothing) {
  const std::string path = ::testing::TempDir() + "fabric-" + std::to_string(getpid());
  const auto copy = [&](const std::string& name) {
    std::ifstream source(asterism::test_paths::SourceTree() + "/test/golden/topology/" + name);
    std::ofstream(path) << source.rdbuf();
    cluster_.Run(absl::Seconds(25));
  };
  const auto last_seen = [&] {
    for (const topology::SourceState& source : state()->sources) {
      if (source.name.starts_with("fabric/")) {
        return source.last_seen;
      }
    }
    return absl::InfinitePast();
  };
  cluster_.configuration().topology.fabric_files = {path};
  Begin();
  EXPECT_EQ(last_seen(), absl::InfinitePast()) << "there is no file yet";
  copy("fabric-clean.ibnetdiscover");
  const absl::Time first = last_seen();
  EXPECT_GT(first, absl::InfinitePast());
  EXPECT_EQ(Count(topology::FindingKind::kCrossedRails), 0U);
  cluster_.Run(absl::Minutes(5));
  EXPECT_EQ(last_seen(), first) << "it has not changed";
  copy("fabric-crossed-short-missing.ibnetdiscover");
  EXPECT_GT(last_seen(), first);
  EXPECT_EQ(Count(topology::FindingKind::kCrossedRails), 1U);
  const absl::Time second = last_seen();
  copy("kueue.yaml");
  EXPECT_EQ(last_seen(), second);
  EXPECT_EQ(Count(topology::FindingKind::kCrossedRails), 1U);
  std::filesystem::remove(path);
  cluster_.Run(absl::Seconds(25));
  EXPECT_EQ(Count(topology::FindingKind::kCrossedRails), 1U);
}

TEST_F(LiveTopologyTest, WhatPeopleDeclareHoldsWhereNobodyMeasures) {
  Begin(3);
  for (const auto& [node, domain] : Supernodes()) {
    EXPECT_NE(domain, "");
  }
  EXPECT_EQ(
      CountOrigins(*state()->snapshot, 1)[static_cast<size_t>(topology::PlaceOrigin::kDeclared)],
      size_t{kNodes});
  const std::string old = Supernodes()[NodeName(0)];
  for (int i = 0; i < kNodes; ++i) {
    Patch(NodeName(i), {{"asterism.dev/declared-supernode", fmt::format("rack-{}", i / 2)}});
  }
  cluster_.Run(absl::Seconds(3));
  EXPECT_EQ(Supernodes()[NodeName(0)], "rack-0") << "at once: it is no measured change";
}

}  // namespace
}  // namespace asterism::controller
