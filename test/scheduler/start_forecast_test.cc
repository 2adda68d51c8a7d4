#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/rng.h"
#include "cluster_fixture.h"
#include "gtest/gtest.h"
#include "scheduler/ledger.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

std::optional<absl::Time> PredictedStart(const PlacementRequest& request, const Ledger& ledger) {
  const PlacementOutcome outcome = Place(request, ledger);
  const auto* later = std::get_if<NotNow>(&outcome);
  EXPECT_NE(later, nullptr) << Describe(outcome);
  return later == nullptr ? std::nullopt : later->predicted_start;
}

// A gang of one pod of 8 GPUs a node.
void BookWithEnd(TestCluster& cluster, const std::string& uid, const std::vector<int>& nodes,
                 std::optional<absl::Time> end) {
  const PlacementRequest request = cluster.Request(1, 8);
  Gang gang;
  gang.uid = uid;
  gang.name = "default/" + uid;
  gang.gpu_slot = request.gpu_slot;
  gang.gpus_per_block = 8;
  gang.request = request.request;
  gang.expected_end = end;
  for (size_t i = 0; i < nodes.size(); ++i) {
    gang.blocks.push_back({static_cast<int64_t>(i), "n" + std::to_string(nodes[i]), 1});
  }
  cluster.ledger().PutGang(gang);
}

TestCluster EightNodes() {
  TestCluster cluster({"node", "leaf", "cluster"}, 8);
  for (int i = 0; i < 8; ++i) {
    cluster.AddNode("n" + std::to_string(i), {i < 4 ? "left" : "right"});
  }
  cluster.Build();
  return cluster;
}

TEST(StartForecast, IsTheEndAfterWhichTheGangFits) {
  TestCluster cluster = EightNodes();
  BookWithEnd(cluster, "a", {0, 1}, kStart + absl::Hours(3));
  BookWithEnd(cluster, "b", {2, 3}, kStart + absl::Hours(1));
  BookWithEnd(cluster, "c", {4, 5}, kStart + absl::Hours(2));
  BookWithEnd(cluster, "d", {6, 7}, std::nullopt);
  EXPECT_EQ(PredictedStart(cluster.Request(1, 8), cluster.ledger()), kStart + absl::Hours(1));
  EXPECT_EQ(PredictedStart(cluster.Request(4, 8), cluster.ledger()), kStart + absl::Hours(2));
  // The rule needs a whole leaf, which takes longer.
  PlacementRequest leaf = cluster.Request(4, 8);
  leaf.rules = {{1, 4, true}};
  EXPECT_EQ(PredictedStart(leaf, cluster.ledger()), kStart + absl::Hours(3));
  // Of d nobody knows.
  EXPECT_EQ(PredictedStart(cluster.Request(7, 8), cluster.ledger()), std::nullopt);
}

TEST(StartForecast, IsNotTheGangsOwnEnd) {
  TestCluster cluster = EightNodes();
  cluster.Occupy("n0", 8);
  BookWithEnd(cluster, "gang", {1, 2, 3, 4, 5, 6, 7}, kStart);
  EXPECT_EQ(PredictedStart(cluster.Request(8, 8), cluster.ledger()), std::nullopt);
}

// An estimate says nothing of who holds what.
TEST(StartForecast, AnExpectedEndIsNotInTheDigest) {
  TestCluster cluster = EightNodes();
  BookWithEnd(cluster, "a", {0}, std::nullopt);
  const uint64_t digest = cluster.ledger().Digest();
  BookWithEnd(cluster, "a", {0}, kStart);
  EXPECT_EQ(cluster.ledger().Digest(), digest);
  EXPECT_EQ(cluster.ledger().ExpectedEnds(), (std::vector<ExpectedEnd>{{kStart, "a"}}));
}

// One after the other really goes, until it fits.
TEST(StartForecast, IsWhatHappens) {
  int known = 0;
  int unknown = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    TestCluster cluster = EightNodes();
    for (int i = 0; i < 8; ++i) {
      const bool tells = rng.Chance(0.8);
      const auto hours = static_cast<int64_t>(rng.Below(6));  // some end together
      BookWithEnd(cluster, "g" + std::to_string(i), {i},
                  tells ? std::optional(kStart + absl::Hours(hours)) : std::nullopt);
    }
    PlacementRequest request = cluster.Request(1 + static_cast<int64_t>(rng.Below(6)), 8);
    if (rng.Chance(0.5)) {
      request.rules = {{1, std::min<int64_t>(request.pods, 4), true}};
    }
    const std::optional<absl::Time> predicted = PredictedStart(request, cluster.ledger());
    std::optional<absl::Time> happened;
    for (const ExpectedEnd& end : cluster.ledger().ExpectedEnds()) {
      cluster.ledger().RemoveGang(end.gang_uid);
      if (std::holds_alternative<Placed>(Place(request, cluster.ledger()))) {
        happened = end.at;
        break;
      }
    }
    EXPECT_EQ(predicted, happened);
    (predicted.has_value() ? known : unknown)++;
  }
  EXPECT_GT(known, 50);
  EXPECT_GT(unknown, 20);
}

}  // namespace
}  // namespace asterism::scheduler
