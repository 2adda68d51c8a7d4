#include "operator/node_class_table.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "feed_fixture.h"
#include "gtest/gtest.h"

namespace asterism::operators {
namespace {

TemplateFit Selecting(const std::string& key, const std::string& value) {
  TemplateFit fit;
  fit.node_selector[key] = value;
  return fit;
}

// The table, and the class of each node as its owner knows it.
class Classes {
 public:
  Classes()
      : table_([this](const kube::Node& node, uint32_t node_class) {
          class_of_[node.meta.name] = node_class;
        }) {}

  void Put(const std::string& name, const TestNode& node) {
    nodes_[name] = MakeNode(name, node);
    class_of_[name] = table_.Put(nodes_[name]);
  }
  void Remove(const std::string& name) {
    nodes_.erase(name);
    class_of_.erase(name);
    table_.Remove(name);
  }
  bool Allows(const base::Bitmap& allowed, const std::string& name) const {
    const uint32_t node_class = class_of_.at(name);
    return node_class < allowed.size() && allowed.Test(node_class);
  }
  // Empty, or the first node that the bitmap is wrong about.
  std::string WrongAbout(const base::Bitmap& allowed, const TemplateFit& fit) const {
    for (const auto& [name, node] : nodes_) {
      if (Allows(allowed, name) != Accepts(fit, node->meta.labels, node->taints)) {
        return name;
      }
    }
    return "";
  }

  NodeClassTable& table() { return table_; }
  const std::map<std::string, kube::Shared<kube::Node>>& nodes() const { return nodes_; }

 private:
  NodeClassTable table_;
  std::map<std::string, kube::Shared<kube::Node>> nodes_;
  std::map<std::string, uint32_t> class_of_;
};

TEST(NodeClassTable, LabelsNobodyAsksForMakeNoClasses) {
  Classes classes;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) {
      const std::string name = "n" + std::to_string(i);
      classes.Put(name, {.labels = {{"kubernetes.io/hostname", name},
                                    {"nvidia.com/gfd.timestamp", std::to_string(1000 * round + i)},
                                    {"pool", i % 2 == 0 ? "even" : "odd"}}});
    }
    EXPECT_EQ(classes.table().size(), 1U);
  }
  const TemplateFit even = Selecting("pool", "even");
  const base::Bitmap allowed = classes.table().Allowed(even);
  EXPECT_EQ(classes.table().size(), 3U) << "the class of all is free again, below the two";
  EXPECT_EQ(classes.WrongAbout(allowed, even), "");
  EXPECT_EQ(allowed.Count(), 1U);
}

TEST(NodeClassTable, ClassesWithoutNodesAreUsedAgain) {
  Classes classes;
  classes.Put("n", {.labels = {{"id", "0"}}});
  EXPECT_EQ(classes.table().Allowed(Selecting("id", "0")).Count(), 1U);
  for (int i = 1; i < 1000; ++i) {
    const uint64_t version = classes.table().version();
    classes.Put("n", {.labels = {{"id", std::to_string(i)}}});
    EXPECT_GT(classes.table().version(), version);
    EXPECT_LE(classes.table().size(), 2U);
  }
  EXPECT_EQ(classes.table().Allowed(Selecting("id", "0")).Count(), 0U);
  classes.Remove("n");
  EXPECT_EQ(classes.table().size(), 0U);
}

TEST(NodeClassTable, ABitmapIsNeverEmpty) {
  Classes classes;
  EXPECT_GT(classes.table().Allowed(Selecting("a", "b")).size(), 0U) << "that would mean: all";
}

TEST(NodeClassTable, AHeartbeatChangesNothing) {
  Classes classes;
  classes.Put("n", {.labels = {{"pool", "a"}}});
  classes.table().Allowed(Selecting("pool", "a"));
  const uint64_t version = classes.table().version();
  classes.Put("n", {.labels = {{"pool", "a"}}, .ready = false});
  EXPECT_EQ(classes.table().version(), version);
}

TEST(NodeClassTable, AKeyThatIsNewToTheClusterEndsEarlierAnswers) {
  Classes classes;
  classes.Put("n1", {});
  TemplateFit fit;
  fit.terms = {{{.key = "broken", .op = "DoesNotExist"}}};
  EXPECT_EQ(classes.WrongAbout(classes.table().Allowed(fit), fit), "");
  const uint64_t version = classes.table().version();
  classes.Put("n2", {.labels = {{"broken", "fan"}}});
  EXPECT_NE(classes.table().version(), version);
  EXPECT_EQ(classes.WrongAbout(classes.table().Allowed(fit), fit), "");
}

TEST(NodeClassTable, PreferencesMakeNoClasses) {
  Classes classes;
  classes.Put("n1", {});
  classes.Put("n2", {.taints = {{"slow", "", "PreferNoSchedule"}}});
  classes.Put("n3", {.taints = {{"gpu", "", "NoSchedule"}}});
  EXPECT_EQ(classes.table().size(), 2U);
  EXPECT_EQ(classes.WrongAbout(classes.table().Allowed({}), {}), "");
}

TemplateFit RandomFit(base::Rng& rng) {
  const auto word = [&](const char* prefix, uint64_t below) {
    return prefix + std::to_string(rng.Below(below));
  };
  TemplateFit fit;
  if (rng.Chance(0.5)) {
    fit.node_selector[word("k", 4)] = word("v", 3);
  }
  for (uint64_t i = rng.Below(3); i > 0; --i) {
    const char* const ops[] = {"In", "NotIn", "Exists", "DoesNotExist"};
    fit.terms.push_back({{.key = word("k", 4), .op = ops[rng.Below(4)], .values = {word("v", 3)}}});
  }
  if (rng.Chance(0.5)) {
    fit.tolerations.push_back({.key = word("t", 2), .op = "Exists"});
  }
  return fit;
}

TEST(NodeClassTableProperty, AnswersLikeEachNodeAskedAlone) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    Classes classes;
    std::vector<std::pair<TemplateFit, base::Bitmap>> answers;
    uint64_t version = classes.table().version();
    for (int step = 0; step < 60; ++step) {
      const std::string name = "n" + std::to_string(rng.Below(6));
      std::optional<std::pair<TemplateFit, base::Bitmap>> answer;
      if (rng.Chance(0.2)) {
        classes.Remove(name);
      } else if (rng.Chance(0.6)) {
        TestNode node;
        for (uint64_t i = rng.Below(4); i > 0; --i) {
          node.labels["k" + std::to_string(rng.Below(4))] = "v" + std::to_string(rng.Below(3));
        }
        if (rng.Chance(0.3)) {
          node.taints = {{"t" + std::to_string(rng.Below(2)), "",
                          rng.Chance(0.5) ? "NoSchedule" : "PreferNoSchedule"}};
        }
        classes.Put(name, node);
      } else {
        const TemplateFit fit = RandomFit(rng);
        answer.emplace(fit, classes.table().Allowed(fit));
      }
      if (classes.table().version() != version) {
        version = classes.table().version();
        answers.clear();
      }
      if (answer) {
        answers.push_back(*std::move(answer));
      }
      for (const auto& [fit, allowed] : answers) {
        ASSERT_EQ(classes.WrongAbout(allowed, fit), "");
      }
      ASSERT_LE(classes.table().size(), 7U) << "a class for each node, and one between";
    }
  }
}

}  // namespace
}  // namespace asterism::operators
