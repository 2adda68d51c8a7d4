#include "topology/leaf_groups.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "base/strings.h"
#include "fmt/format.h"
#include "test/source_tree.h"
#include "test/topology/fabric_generator.h"
#include "topology/fabric_analysis.h"
#include "topology/import/import_text.h"

namespace asterism::topology {
namespace {

// The two rules that others use, for comparison.
struct NaiveCounts {
  size_t exact_signature = 0;  // equal sets of leafs of a host
  size_t shared_host = 0;      // union over any shared host
};

NaiveCounts CountNaively(const FabricAnalysis& analysis) {
  std::set<std::set<uint32_t>> signatures;
  std::map<uint32_t, uint32_t> parent;
  const auto find = [&parent](uint32_t leaf) {
    while (parent.at(leaf) != leaf) {
      leaf = parent[leaf] = parent[parent[leaf]];
    }
    return leaf;
  };
  for (const LeafSwitch& leaf : analysis.leafs) {
    parent[leaf.device] = leaf.device;
  }
  for (const FabricHost& host : analysis.hosts) {
    if (host.role != HostRole::kGpu && host.role != HostRole::kDegraded) {
      continue;
    }
    std::set<uint32_t> leafs;
    for (const HostPort& port : host.ports) {
      if (port.compute && parent.contains(port.switch_device)) {
        leafs.insert(port.switch_device);
      }
    }
    if (!leafs.empty()) {
      signatures.insert(leafs);
      for (const uint32_t leaf : leafs) {
        parent[find(leaf)] = find(*leafs.begin());
      }
    }
  }
  std::set<uint32_t> roots;
  for (const auto& [leaf, above] : parent) {
    roots.insert(find(leaf));
  }
  return {signatures.size(), roots.size()};
}

size_t GroupsThatAreRight(const GeneratedFabric& made, const FabricAnalysis& analysis) {
  size_t right = 0;
  for (const FabricGroup& group : analysis.groups) {
    std::set<uint32_t> truths;
    for (const uint32_t leaf : group.leafs) {
      truths.insert(made.group_of_leaf[analysis.leafs[leaf].device]);
    }
    right += truths.size() == 1 ? 1 : 0;
  }
  return right;
}

struct FaultRow {
  std::string name;
  double missing;
  double crossed;
  size_t foreign;
};

// 640 groups x 20 hosts x 8 rails.
TEST(LeafGroups, OverlapIsRightUnderEveryFaultWhereTheNaiveRulesAreNot) {
  const std::vector<FaultRow> rows = {
      {"none", 0, 0, 0},
      {"0.1 % missing", 0.001, 0, 0},
      {"1 % missing", 0.01, 0, 0},
      {"5 foreign", 0, 0, 5},
      {"0.5 % missing, 0.05 % crossed, 64 foreign", 0.005, 0.0005, 64},
      {"5 % missing, 0.5 % crossed, 640 foreign", 0.05, 0.005, 640}};
  for (const FaultRow& row : rows) {
    SCOPED_TRACE(row.name);
    const GeneratedFabric made = MakeFabric({.groups = 640,
                                             .spines = 2,
                                             .missing = row.missing,
                                             .crossed = row.crossed,
                                             .foreign = row.foreign},
                                            17);
    const FabricAnalysis analysis = AnalyzeFabric(made.fabric, {});
    ASSERT_EQ(analysis.hosts.size(), 12'800U);
    EXPECT_EQ(analysis.groups.size(), 640U);
    EXPECT_EQ(GroupsThatAreRight(made, analysis), 640U);
    size_t astray = 0;
    for (size_t host = 0; host < analysis.hosts.size(); ++host) {
      const uint32_t group = analysis.hosts[host].group;
      ASSERT_NE(group, kNoGroup);
      const uint32_t leaf = analysis.groups[group].leafs.front();
      astray += made.group_of_leaf[analysis.leafs[leaf].device] != made.group_of_host[host] ? 1 : 0;
    }
    EXPECT_EQ(astray, 0U);
    const NaiveCounts naive = CountNaively(analysis);
    if (row.missing > 0) {
      EXPECT_GT(naive.exact_signature, 640U);
    }
    if (row.foreign > 0) {
      EXPECT_LT(naive.shared_host, 640U);
    }
  }
}

TEST(LeafGroups, TheNaiveRulesOfTheCorpusGiveWhatIsKnown) {
  const std::string file = asterism::test_paths::SharedTree() +
                           "/data/topology/ib/"
                           "own-27-hdr-10group-missing-crossed-foreign-cables.ibnetdiscover";
  std::ifstream stream(file);
  if (!stream) {
    GTEST_SKIP() << "there is no " << file;
  }
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  const auto imported = ImportText("own-27", text);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const NaiveCounts naive = CountNaively(AnalyzeFabric(*imported->fabric, {}));
  EXPECT_EQ(naive.exact_signature, 19U);
  EXPECT_EQ(naive.shared_host, 6U);
}

TEST(LeafGroups, ACleanFabricOf12800HostsHasNoFinding) {
  const GeneratedFabric made = MakeFabric({.groups = 640, .spines = 8}, 3);
  const FabricAnalysis analysis = AnalyzeFabric(made.fabric, {});
  const std::vector<Finding> findings = FabricFindings(made.fabric, analysis);
  EXPECT_TRUE(findings.empty()) << findings.size()
                                << " findings, the first: " << FindingName(findings.front().kind)
                                << " " << findings.front().evidence;
}

TEST(LeafGroups, EachFaultIsFoundOnceAndNothingElse) {
  const GeneratedFabric made =
      MakeFabric({.groups = 20, .hosts_per_group = 16, .rails = 4, .missing = 0.01}, 5);
  const FabricAnalysis analysis = AnalyzeFabric(made.fabric, {});
  size_t missing = 0;
  for (const Finding& finding : FabricFindings(made.fabric, analysis)) {
    EXPECT_EQ(finding.kind, FindingKind::kMissingPort) << finding.evidence;
    ++missing;
  }
  EXPECT_EQ(missing, made.links_missing);
}

TEST(LeafGroups, AGroupIsFoundFromSwitchRecordsAlone) {
  const GeneratedFabric made =
      MakeFabric({.groups = 6, .hosts_per_group = 9, .rails = 3, .adapter_records = false}, 5);
  const FabricAnalysis analysis = AnalyzeFabric(made.fabric, {});
  EXPECT_EQ(analysis.groups.size(), 6U);
  EXPECT_EQ(GroupsThatAreRight(made, analysis), 6U);
}

TEST(LeafGroups, ADumpReadBackIsTheFabricThatWasWritten) {
  const GeneratedFabric made = MakeFabric({.groups = 5, .rails = 2, .missing = 0.02}, 11);
  const auto imported = ImportText("dump", DumpText(made.fabric));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->fabric->devices.size(), made.fabric.devices.size());
  EXPECT_EQ(imported->fabric->half_links.size(), made.fabric.half_links.size());
  EXPECT_EQ(imported->note_count, 0U);
  EXPECT_EQ(AnalyzeFabric(*imported->fabric, {}).groups.size(), 5U);
}

TEST(LeafGroups, UnequalGroupsAndAnyOrderOfLeafs) {
  LeafHosts sets;
  sets.AddLeaf(std::vector<uint32_t>{0, 1, 2});
  sets.AddLeaf(std::vector<uint32_t>{7, 8, 9, 10, 11});
  sets.AddLeaf(std::vector<uint32_t>{2, 1, 0, 0});
  sets.AddLeaf(std::vector<uint32_t>{11, 10, 9, 8, 2});  // one cable from the other group
  const LeafGrouping grouping = GroupLeafs(sets);
  EXPECT_EQ(grouping.group_of_leaf, (std::vector<uint32_t>{0, 1, 0, 1}));
  EXPECT_EQ(grouping.group_of_host[2], 0U);
  EXPECT_EQ(grouping.group_of_host[5], kNoGroup);
}

}  // namespace
}  // namespace asterism::topology
