// What is exported reads back, by our own importers, as the same domains.

#include "topology/export_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "fmt/format.h"
#include "rapidcheck/gtest.h"
#include "topology/import/import_text.h"
#include "topology/natural_order.h"

namespace asterism::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Groups of unequal sizes below blocks of unequal sizes; some nodes without a place.
Cluster MixedCluster(uint64_t seed) {
  base::Rng rng(seed);
  std::vector<NodeFacts> nodes;
  for (size_t block = 0; block < 2 + rng.Below(3); ++block) {
    for (size_t leaf = 0; leaf < 1 + rng.Below(4); ++leaf) {
      for (size_t node = 0; node < 1 + rng.Below(9); ++node) {
        nodes.push_back({fmt::format("n{:03}", nodes.size()),
                         {fmt::format("leaf-{}-{}", block, leaf), fmt::format("block-{}", block)}});
      }
    }
  }
  nodes.push_back({"lost", {"", ""}});
  auto cluster = BuildCluster({"node", "leaf", "block", "cluster"}, std::move(nodes));
  return *std::move(cluster);
}

using Domains = std::map<std::string, std::vector<std::string>>;

Domains DomainsOf(const Cluster& cluster, size_t level) {
  Domains domains;
  for (size_t node = 0; node < cluster.node_count(); ++node) {
    const DomainId domain = cluster.DomainOf(level, NodeId(node));
    if (cluster.named(level, domain)) {
      domains[cluster.domain_name(level, domain)].push_back(cluster.node_name(NodeId(node)));
    }
  }
  return domains;
}

// The nodes below each switch of a declared tree.
Domains DomainsOf(const DeclaredTree& tree) {
  std::map<std::string, const DeclaredSwitch*> by_name;
  for (const DeclaredSwitch& each : tree.switches) {
    by_name[each.name] = &each;
  }
  Domains domains;
  for (const DeclaredSwitch& each : tree.switches) {
    std::vector<const DeclaredSwitch*> below = {&each};
    for (size_t i = 0; i < below.size(); ++i) {
      for (const std::string& child : below[i]->children) {
        below.push_back(by_name.at(child));
      }
      domains[each.name].insert(domains[each.name].end(), below[i]->nodes.begin(),
                                below[i]->nodes.end());
    }
    std::sort(domains[each.name].begin(), domains[each.name].end(), NaturalLess);
  }
  return domains;
}

void ExpectSame(const Cluster& cluster, const DeclaredTree& tree) {
  const Domains read = DomainsOf(tree);
  for (const size_t level : {size_t{1}, size_t{2}}) {
    for (const auto& [name, nodes] : DomainsOf(cluster, level)) {
      const auto it = read.find(name);
      ASSERT_NE(it, read.end()) << name;
      EXPECT_EQ(it->second, nodes) << name;
    }
  }
}

RC_GTEST_PROP(ExportText, TreesAndHyperNodesReadBackAsTheSameDomains, ()) {
  const Cluster cluster = MixedCluster(*rc::gen::inRange<uint64_t>(1, 100'000));
  const auto slurm = ImportText("topology.conf", SlurmTree(cluster));
  RC_ASSERT(slurm.ok());
  ExpectSame(cluster, *slurm->tree);
  const auto volcano = ImportText("hypernodes.yaml", HyperNodes(cluster));
  RC_ASSERT(volcano.ok());
  ExpectSame(cluster, *volcano->tree);
}

RC_GTEST_PROP(ExportText, BlocksReadBackAndAreValid, ()) {
  const Cluster cluster = MixedCluster(*rc::gen::inRange<uint64_t>(1, 100'000));
  for (const size_t level : {size_t{1}, size_t{2}}) {
    const auto blocks = ImportText("topology.conf", SlurmBlocks(cluster, level));
    RC_ASSERT(blocks.ok());
    RC_ASSERT(blocks->note_count == 0U);
    Domains read;
    for (const DeclaredBlock& block : blocks->tree->blocks) {
      read[block.name] = block.nodes;
    }
    RC_ASSERT(read == DomainsOf(cluster, level));
  }
}

RC_GTEST_PROP(ExportText, LabelsReadBackAsLevelsFromTheInside, ()) {
  const Cluster cluster = MixedCluster(*rc::gen::inRange<uint64_t>(1, 100'000));
  for (const NodeLabels& node : TopographLabels(cluster)) {
    const LabelledNode read = ReadNodeLabels(node.node, node.labels, {});
    if (node.node == "lost") {
      RC_ASSERT(read.levels.empty());
      continue;
    }
    const NodeId id = cluster.FindNode(node.node);
    RC_ASSERT(read.levels.size() == 2U);
    RC_ASSERT(read.levels[0].value == cluster.domain_name(1, cluster.DomainOf(1, id)));
    RC_ASSERT(read.levels[1].value == cluster.domain_name(2, cluster.DomainOf(2, id)));
  }
}

TEST(ExportText, KueueListsTheOutermostFirst) {
  const auto kueue = ImportText("kueue.yaml", KueueTopology(MixedCluster(1), "default"));
  ASSERT_TRUE(kueue.ok()) << kueue.status();
  EXPECT_THAT(kueue->summary["levels_outer_to_inner"],
              ElementsAre("asterism.dev/domain-block", "asterism.dev/domain-leaf",
                          "kubernetes.io/hostname"));
}

TEST(ExportText, NamesThatAFormatDoesNotAllowAreHashed) {
  EXPECT_EQ(LabelValue("leaf-1"), "leaf-1");
  EXPECT_EQ(LabelValue(std::string(64, 'a')).size(), 17U);
  EXPECT_THAT(LabelValue("MF0;A09:MQM9701/U1"), ::testing::StartsWith("x"));
  const auto cluster = BuildCluster({"node", "leaf", "cluster"},
                                    {{"n1", {"a b,c"}}, {"n2", {"a b,c"}}, {"n3", {"Leaf"}}});
  ASSERT_TRUE(cluster.ok());
  const auto slurm = ImportText("topology.conf", SlurmTree(*cluster));
  ASSERT_TRUE(slurm.ok()) << slurm.status();
  EXPECT_EQ(slurm->tree->switches[1].nodes.size(), 2U);
  EXPECT_THAT(HyperNodes(*cluster), HasSubstr("name: x"));
  EXPECT_THAT(DomainLabels(*cluster)[2].labels[0].first, "asterism.dev/domain-leaf");
}

}  // namespace
}  // namespace asterism::topology
