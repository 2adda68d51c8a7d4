#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cluster_fixture.h"
#include "gtest/gtest.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {
namespace {

// Edge by edge, for orders that no engine would choose.
TEST(LevelUse, CountsAnyOrderOfNodes) {
  int wrapped = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    const size_t levels = 1 + rng.Below(4);
    std::vector<std::string> names = {"node"};
    for (size_t level = 1; level < levels; ++level) {
      names.push_back("level-" + std::to_string(level));
    }
    TestCluster cluster(names, 8);
    const size_t count = 1 + rng.Below(9);
    for (size_t i = 0; i < count; ++i) {
      std::vector<std::string> domains;
      for (size_t level = 1; level + 1 < levels; ++level) {
        domains.push_back(std::to_string(rng.Below(3)));
      }
      cluster.AddNode("n" + std::to_string(i), domains);
    }
    cluster.Build();
    const topology::Cluster& model = cluster.ledger().cluster();
    std::vector<NodeId> nodes;
    for (size_t rank = rng.Below(12); rank > 0; --rank) {
      nodes.emplace_back(rng.Below(count));
    }
    const std::vector<LevelUse> uses = MeasureLevels(model, nodes);
    ASSERT_EQ(uses.size(), levels);
    for (size_t level = 0; level < levels; ++level) {
      std::set<size_t> domains;
      int64_t cuts = 0;
      for (size_t rank = 0; rank < nodes.size(); ++rank) {
        const topology::DomainId here = model.DomainOf(level, nodes[rank]);
        domains.insert(here.index());
        cuts += here != model.DomainOf(level, nodes[(rank + 1) % nodes.size()]) ? 1 : 0;
      }
      const auto used = static_cast<int64_t>(domains.size());
      EXPECT_EQ(uses[level].level, level);
      EXPECT_EQ(uses[level].domains, used);
      EXPECT_EQ(uses[level].ring_cuts, cuts);
      EXPECT_EQ(uses[level].ring_cuts_minimum, used > 1 ? used : 0);
      wrapped += cuts > 0 && nodes.front() == nodes.back() ? 1 : 0;
    }
  }
  EXPECT_GT(wrapped, 50);
}

}  // namespace
}  // namespace asterism::scheduler
