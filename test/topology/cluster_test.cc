#include "topology/cluster.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topology/natural_order.h"

namespace asterism::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kFourLevels = {"node", "leaf", "spine", "cluster"};

std::vector<std::string> NodeNames(const Cluster& cluster) {
  std::vector<std::string> names;
  for (size_t i = 0; i < cluster.node_count(); ++i) {
    names.push_back(cluster.node_name(NodeId(i)));
  }
  return names;
}

std::vector<std::string> DomainNames(const Cluster& cluster, size_t level) {
  std::vector<std::string> names;
  for (size_t i = 0; i < cluster.domain_count(level); ++i) {
    names.push_back(cluster.domain_name(level, DomainId(i)));
  }
  return names;
}

std::vector<std::string> NodesIn(const Cluster& cluster, size_t level, const std::string& name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < cluster.domain_count(level); ++i) {
    if (cluster.domain_name(level, DomainId(i)) == name) {
      const NodeRange range = cluster.NodesOf(level, DomainId(i));
      for (size_t node = range.begin.index(); node < range.end.index(); ++node) {
        names.push_back(cluster.node_name(NodeId(node)));
      }
    }
  }
  return names;
}

// Every promise of cluster.h that holds for any cluster.
void ExpectConsistent(const Cluster& cluster) {
  for (size_t level = 0; level < cluster.level_count(); ++level) {
    std::set<std::string> names;
    size_t next = 0;
    for (size_t i = 0; i < cluster.domain_count(level); ++i) {
      const DomainId domain(i);
      const NodeRange range = cluster.NodesOf(level, domain);
      EXPECT_EQ(range.begin.index(), next);
      next = range.end.index();
      EXPECT_TRUE(names.insert(cluster.domain_name(level, domain)).second)
          << "level " << level << ": " << cluster.domain_name(level, domain);
      for (size_t node = range.begin.index(); node < range.end.index(); ++node) {
        EXPECT_EQ(cluster.DomainOf(level, NodeId(node)), domain);
      }
      if (!cluster.named(level, domain)) {
        EXPECT_EQ(range.size(), 1U);
      }
      if (level + 1 < cluster.level_count()) {
        const DomainId parent(cluster.Parents(level)[i]);
        EXPECT_EQ(cluster.DomainOf(level + 1, range.begin), parent);
        EXPECT_EQ(cluster.DomainOf(level + 1, NodeId(range.end.index() - 1)), parent);
      }
    }
    EXPECT_EQ(next, cluster.node_count());
    if (level > 0) {
      const std::span<const uint32_t> first = cluster.FirstChildren(level);
      ASSERT_EQ(first.size(), cluster.domain_count(level) + 1);
      for (size_t i = 0; i < cluster.domain_count(level); ++i) {
        for (uint32_t child = first[i]; child < first[i + 1]; ++child) {
          EXPECT_EQ(cluster.Parents(level - 1)[child], i);
        }
      }
      EXPECT_EQ(first.back(), cluster.domain_count(level - 1));
    }
  }
  for (size_t i = 0; i < cluster.node_count(); ++i) {
    EXPECT_EQ(cluster.FindNode(cluster.node_name(NodeId(i))), NodeId(i));
  }
}

std::string ErrorOf(std::vector<std::string> levels, std::vector<NodeFacts> nodes) {
  const auto cluster = BuildCluster(std::move(levels), std::move(nodes));
  return cluster.ok() ? "" : std::string(cluster.status().message());
}

TEST(NaturalOrder, CountsAsPeopleDo) {
  std::vector<std::string> names = {"node-10",
                                    "node-2",
                                    "node-1",
                                    "node",
                                    "node-02",
                                    "a10b2",
                                    "a10b10",
                                    "a9",
                                    "",
                                    "node-2-1",
                                    "9999999999999999999999",
                                    "10000000000000000000000"};
  std::sort(names.begin(), names.end(), NaturalLess);
  EXPECT_THAT(names,
              ElementsAre("", "9999999999999999999999", "10000000000000000000000", "a9", "a10b2",
                          "a10b10", "node", "node-1", "node-02", "node-2", "node-2-1", "node-10"));
}

TEST(NaturalOrder, IsATotalOrder) {
  base::Rng rng(7);
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) {
    std::string name;
    for (size_t length = rng.Below(5); length > 0; --length) {
      name += "a0129-"[rng.Below(6)];
    }
    names.push_back(name);
  }
  for (const std::string& left : names) {
    for (const std::string& right : names) {
      const int order = NaturalCompare(left, right);
      EXPECT_EQ(order == 0, left == right) << left << " " << right;
      EXPECT_EQ(order<0, NaturalCompare(right, left)> 0) << left << " " << right;
      for (const std::string& third : names) {
        if (order < 0 && NaturalLess(right, third)) {
          EXPECT_TRUE(NaturalLess(left, third)) << left << " " << right << " " << third;
        }
      }
    }
  }
}

TEST(Cluster, SortsNodesByTheirDomainsFromTheOutsideAndThenByNumber) {
  const auto cluster = BuildCluster(kFourLevels, {{"n10", {"L2", "A"}},
                                                  {"n9", {"L2", "A"}},
                                                  {"n1", {"L10", "A"}},
                                                  {"n5", {"L1", "B"}},
                                                  {"n7", {"L1", "A"}}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_THAT(NodeNames(*cluster), ElementsAre("n7", "n9", "n10", "n1", "n5"));
  EXPECT_THAT(DomainNames(*cluster, 1), ElementsAre("A/L1", "L2", "L10", "B/L1"));
  EXPECT_THAT(DomainNames(*cluster, 2), ElementsAre("A", "B"));
  EXPECT_THAT(DomainNames(*cluster, 3), ElementsAre("cluster"));
  EXPECT_THAT(NodesIn(*cluster, 1, "L2"), ElementsAre("n9", "n10"));
  EXPECT_EQ(cluster->FindLevel("spine"), 2U);
  EXPECT_EQ(cluster->FindLevel("rack"), std::nullopt);
  EXPECT_FALSE(cluster->FindNode("n8").valid());
  ExpectConsistent(*cluster);
}

TEST(Cluster, NodesWithoutAValueStandAloneBehindTheOthers) {
  const auto cluster = BuildCluster(kFourLevels, {{"n1", {"", "A"}},
                                                  {"n2", {"", "A"}},
                                                  {"n3", {"L1", "A"}},
                                                  {"n4", {"L1", ""}},
                                                  {"n5", {"L1", ""}},
                                                  {"n6", {"", ""}}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_THAT(NodeNames(*cluster), ElementsAre("n3", "n1", "n2", "n4", "n5", "n6"));
  EXPECT_THAT(DomainNames(*cluster, 1),
              ElementsAre("A/L1", "unnamed-n1", "unnamed-n2", "unnamed-n4/L1", "unnamed-n5/L1",
                          "unnamed-n6"));
  EXPECT_THAT(DomainNames(*cluster, 2), ElementsAre("A", "unnamed-n4", "unnamed-n5", "unnamed-n6"));
  EXPECT_TRUE(cluster->named(1, DomainId(0)));
  EXPECT_FALSE(cluster->named(1, DomainId(1)));
  EXPECT_TRUE(cluster->named(1, DomainId(3)));
  EXPECT_FALSE(cluster->named(2, DomainId(1)));
  ExpectConsistent(*cluster);
}

TEST(Cluster, NamesStayUniqueEvenWhereASourceImitatesThem) {
  const auto cluster = BuildCluster(kFourLevels, {{"n1", {"L1", "A"}},
                                                  {"n2", {"L1", "B"}},
                                                  {"n3", {"A/L1", "B"}},
                                                  {"n4", {"unnamed-n5", "B"}},
                                                  {"n5", {"", "B"}}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ExpectConsistent(*cluster);
}

TEST(Cluster, TakesOneLevelAndSixteenAndNoNodes) {
  const auto one = BuildCluster({"node"}, {{"b", {}}, {"a", {}}});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(NodeNames(*one), ElementsAre("a", "b"));
  ExpectConsistent(*one);

  std::vector<std::string> levels;
  for (int i = 0; i < 16; ++i) {
    levels.push_back("level-" + std::to_string(i));
  }
  const auto sixteen = BuildCluster(
      levels, {{"a", std::vector<std::string>(14, "x")}, {"b", std::vector<std::string>(14, "x")}});
  ASSERT_TRUE(sixteen.ok()) << sixteen.status();
  ExpectConsistent(*sixteen);

  const auto none = BuildCluster({"node", "leaf", "cluster"}, {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->domain_count(1), 0U);
  EXPECT_EQ(none->domain_count(2), 1U);
  ExpectConsistent(*none);
}

TEST(Cluster, RefusesWhatItCannotModelAndSaysWhatToDo) {
  EXPECT_THAT(ErrorOf({}, {}), HasSubstr("1 to 16 levels, not 0"));
  EXPECT_THAT(ErrorOf(std::vector<std::string>(17, "a"), {}), HasSubstr("not 17"));
  EXPECT_THAT(ErrorOf({"node", "Rack", "cluster"}, {}),
              HasSubstr("levels[1]: \"Rack\" is not a level name: use 1 to 32 of a-z, 0-9 and -"));
  EXPECT_THAT(ErrorOf({"node", std::string(33, 'a')}, {}), HasSubstr("levels[1]"));
  EXPECT_THAT(ErrorOf({"node", ""}, {}), HasSubstr("levels[1]"));
  EXPECT_THAT(ErrorOf({"node", "a", "node"}, {}),
              HasSubstr("levels[2]: \"node\" is already levels[0]"));
  EXPECT_THAT(ErrorOf({"node", "leaf", "cluster"}, {{"n1", {"a"}}, {"n1", {"b"}}}),
              HasSubstr("node \"n1\" is listed twice"));
  EXPECT_THAT(ErrorOf({"node", "leaf", "cluster"}, {{"n1", {}}}),
              HasSubstr("node \"n1\" has 0 domain values, needs 1"));
  EXPECT_THAT(ErrorOf({"node"}, {{"n1", {"a"}}}), HasSubstr("has 1 domain values, needs 0"));
  EXPECT_THAT(ErrorOf({"node"}, {{"", {}}}), HasSubstr("a node name has 1 to 253 characters"));
  EXPECT_THAT(ErrorOf({"node", "leaf", "cluster"}, {{"n1", {std::string(254, 'x')}}}),
              HasSubstr("node \"n1\": its value for level \"leaf\" has 254 characters"));
}

TEST(Cluster, TakesNamesOfTheLengthThatKubernetesAllows) {
  const std::string longest(253, 'x');
  EXPECT_EQ(ErrorOf({"node", "leaf", "cluster"}, {{longest, {longest}}}), "");
  EXPECT_THAT(ErrorOf({"node"}, {{longest + "x", {}}}),
              HasSubstr("a node name has 1 to 253 characters"));
  EXPECT_EQ(ErrorOf({std::string(32, 'a')}, {}), "");
}

std::string Dump(const Cluster& cluster) {
  std::string text;
  for (size_t level = 0; level < cluster.level_count(); ++level) {
    for (size_t i = 0; i < cluster.domain_count(level); ++i) {
      text += cluster.domain_name(level, DomainId(i)) + "=" +
              std::to_string(cluster.NodesOf(level, DomainId(i)).size()) + " ";
    }
    text += "\n";
  }
  return text;
}

TEST(Cluster, IsTheSameForEveryOrderOfItsNodes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    const size_t levels = 3 + rng.Below(3);
    std::vector<std::string> names = {"node"};
    for (size_t level = 1; level < levels; ++level) {
      names.push_back("l" + std::to_string(level));
    }
    std::vector<NodeFacts> nodes;
    for (size_t i = rng.Below(20); i > 0; --i) {
      NodeFacts node{"n" + std::to_string(i), {}};
      for (size_t level = 1; level + 1 < levels; ++level) {
        node.domains.push_back(rng.Chance(0.2) ? "" : "d" + std::to_string(rng.Below(4)));
      }
      nodes.push_back(node);
    }
    const auto first = BuildCluster(names, nodes);
    ASSERT_TRUE(first.ok()) << first.status();
    ExpectConsistent(*first);
    rng.Shuffle(nodes);
    const auto second = BuildCluster(names, nodes);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(Dump(*first), Dump(*second));
  }
}

TEST(Cluster, Topo05ANodeThatLosesItsLabelLeavesTheDomainAndStaysInTheCluster) {
  std::vector<NodeFacts> nodes = {{"n1", {"X"}}, {"n2", {"X"}}, {"n3", {"X"}}, {"n4", {"X"}}};
  nodes[3].domains[0].clear();
  const auto cluster = BuildCluster({"node", "leaf", "cluster"}, nodes);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_THAT(NodesIn(*cluster, 1, "X"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(NodesIn(*cluster, 2, "cluster"), ElementsAre("n1", "n2", "n3", "n4"));
  const NodeId lost = cluster->FindNode("n4");
  EXPECT_FALSE(cluster->named(1, cluster->DomainOf(1, lost)));
  // X is one domain whatever the order in which its members were told.
  EXPECT_THAT(DomainNames(*cluster, 1), ElementsAre("X", "unnamed-n4"));
}

}  // namespace
}  // namespace asterism::topology
