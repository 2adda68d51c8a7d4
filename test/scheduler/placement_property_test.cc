#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cluster_fixture.h"
#include "gtest/gtest.h"
#include "placement_oracle.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {
namespace {

// A small cluster, partly held, and a request; all from one seed.
struct RandomCase {
  explicit RandomCase(uint64_t seed);

  std::unique_ptr<TestCluster> cluster;
  PlacementRequest request;
};

std::vector<std::string> LevelNames(size_t count) {
  std::vector<std::string> names = {"node"};
  for (size_t level = 1; level < count; ++level) {
    names.push_back(level + 1 == count ? "cluster" : "level-" + std::to_string(level));
  }
  return names;
}

RandomCase::RandomCase(uint64_t seed) {
  base::Rng rng(seed);
  const size_t levels = 1 + rng.Below(5);
  const int64_t gpus = 1 + static_cast<int64_t>(rng.Below(4));
  const bool products = rng.Chance(0.3);
  const bool classes = rng.Chance(0.3);
  const bool unnamed = rng.Chance(0.3);
  const size_t count = 1 + rng.Below(6);
  std::vector<std::string> names;
  cluster = std::make_unique<TestCluster>(LevelNames(levels), gpus);
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> domains;
    for (size_t level = 1; level + 1 < levels; ++level) {
      domains.push_back(unnamed && rng.Chance(0.2) ? "" : std::string(1, "abc"[rng.Below(3)]));
    }
    names.push_back("node-" + std::to_string(rng.Below(100)) + "-" + std::to_string(i));
    cluster->AddNode(names.back(), domains, products && rng.Chance(0.5) ? "H200" : "H100",
                     classes ? static_cast<uint32_t>(rng.Below(2)) : 0);
  }
  cluster->Build();
  for (const std::string& name : names) {
    if (rng.Chance(0.4)) {
      cluster->Occupy(name, static_cast<int64_t>(rng.Below(static_cast<uint64_t>(gpus) + 1)));
    }
    if (rng.Chance(0.1)) {
      cluster->SetUsable(name, false);
    }
  }
  request = cluster->Request(1 + static_cast<int64_t>(rng.Below(5)),
                             1 + static_cast<int64_t>(rng.Below(2)));
  for (size_t i = rng.Below(3); i > 0; --i) {
    request.rules.push_back(
        {rng.Below(levels),
         1 + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(request.pods))),
         rng.Chance(0.5)});
  }
  if (classes && rng.Chance(0.5)) {
    request.node_classes = base::Bitmap(2);
    request.node_classes.Set(rng.Below(2));
  }
  if (products && rng.Chance(0.5)) {
    request.products = {rng.Chance(0.5) ? "H200" : "H100"};
  }
  if (rng.Chance(0.2)) {
    request.excluded.push_back(names[rng.Below(count)]);
  }
  if (rng.Chance(0.2)) {
    request.policy = PlacementPolicy::kPack;
  }
  if (rng.Chance(0.3)) {
    // The gang was placed once; some of its pods stay.
    PlacementRequest before = request;
    before.excluded.clear();
    if (rng.Chance(0.5)) {
      before.rules.clear();
    }
    const PlacementOutcome outcome = Place(before, cluster->ledger());
    if (const auto* placed = std::get_if<Placed>(&outcome)) {
      cluster->Book(request.gang_uid, request, *placed);
      for (const NodeId node : placed->nodes) {
        request.kept.push_back(rng.Chance(0.6) ? cluster->Name(node) : "");
      }
      if (rng.Chance(0.5)) {
        cluster->SetUsable(cluster->Name(placed->nodes[0]), false);
      }
    }
  }
}

bool AnyKept(const PlacementRequest& request) {
  return std::any_of(request.kept.begin(), request.kept.end(),
                     [](const std::string& name) { return !name.empty(); });
}

void CheckAgainstOracle(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const RandomCase random(seed);
  const Ledger& ledger = random.cluster->ledger();
  PlacementOracle oracle(random.request, ledger);
  const std::optional<OracleAnswer> best = oracle.Best();
  const PlacementOutcome outcome = Place(random.request, ledger);
  const auto* placed = std::get_if<Placed>(&outcome);
  ASSERT_EQ(placed != nullptr, best.has_value()) << Describe(outcome);
  if (placed == nullptr) {
    ASSERT_EQ(std::holds_alternative<Never>(outcome), !oracle.FitsEmpty()) << Describe(outcome);
    return;
  }
  ASSERT_EQ(placed->product, best->product) << Describe(outcome);
  ASSERT_EQ(oracle.Violation(placed->nodes, *best), "") << Describe(outcome);
  ASSERT_EQ(oracle.KeyOf(placed->nodes, *best), best->key) << Describe(outcome);
  for (const LevelUse& use : placed->levels) {
    if (!AnyKept(random.request)) {
      ASSERT_EQ(use.ring_cuts, use.ring_cuts_minimum) << "level " << use.level;
    }
  }
}

// ASTERISM_SEED=17 runs that case alone.
std::vector<uint64_t> Seeds(uint64_t count) {
  if (const char* one = std::getenv("ASTERISM_SEED");
      one != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    return {std::strtoull(one, nullptr, 10)};
  }
  std::vector<uint64_t> seeds(count);
  for (uint64_t i = 0; i < count; ++i) {
    seeds[i] = i + 1;
  }
  return seeds;
}

TEST(PlacementProperty, IsAsGoodAsBruteForce) {
  for (const uint64_t seed : Seeds(3000)) {
    CheckAgainstOracle(seed);
    if (HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace asterism::scheduler
