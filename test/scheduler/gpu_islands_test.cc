// Pods of a part of a node stay inside one island of GPUs where the gang fits so, and nowhere is a
// gang lost for it.
#include "scheduler/gpu_islands.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "cluster_fixture.h"
#include "gmock/gmock.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;

GpuIslands TwoHalves() {
  return {.islands = {0x0f, 0xf0}};
}

TEST(GpuIslands, CountsThePodsThatStayInside) {
  EXPECT_EQ(WholePods({}, 4, 8), kAnyIsland) << "nobody told";
  EXPECT_EQ(WholePods({.islands = {0xff}}, 4, 8), kAnyIsland) << "one switch";
  EXPECT_EQ(WholePods(TwoHalves(), 4, 8), 2);
  EXPECT_EQ(WholePods(TwoHalves(), 3, 8), 2);
  EXPECT_EQ(WholePods(TwoHalves(), 1, 8), kAnyIsland) << "one GPU is always inside";
  EXPECT_EQ(WholePods(TwoHalves(), 8, 8), kAnyIsland) << "larger than every island";
  GpuIslands taken = TwoHalves();
  taken.taken = 0x11;
  EXPECT_EQ(WholePods(taken, 4, 6), 0);
  EXPECT_EQ(WholePods(taken, 3, 6), 2);
  taken.taken = 0x03;
  EXPECT_EQ(WholePods(taken, 4, 6), 1);
}

TEST(GpuIslands, WhatIsPromisedSpoilsPlacesToo) {
  EXPECT_EQ(WholePods(TwoHalves(), 4, 7), 1) << "one GPU is promised, nobody knows which";
  EXPECT_EQ(WholePods(TwoHalves(), 4, 4), 1);
  EXPECT_EQ(WholePods(TwoHalves(), 2, 5), 2);
  EXPECT_EQ(WholePods(TwoHalves(), 4, 0), 0);
  EXPECT_EQ(WholePods(TwoHalves(), 4, -3), 0);
}

// n0 to n3, each of two halves; of n0 and n1 each half has two GPUs left, of the others one half.
TestCluster HalfTaken() {
  TestCluster cluster({"node", "leaf", "cluster"}, 8);
  for (int i = 0; i < 4; ++i) {
    cluster.AddNode("n" + std::to_string(i), {"leaf-" + std::to_string(i / 2)});
  }
  cluster.Build();
  for (int i = 0; i < 4; ++i) {
    const std::string name = "n" + std::to_string(i);
    cluster.Occupy(name, 4);
    GpuIslands islands = TwoHalves();
    islands.taken = i < 2 ? 0x33 : 0x0f;
    cluster.ledger().SetGpuIslands(name, islands);
  }
  return cluster;
}

TEST(GpuIslands, APodGoesWhereOneIslandHoldsIt) {
  TestCluster cluster = HalfTaken();
  EXPECT_THAT(cluster.Names(Place(cluster.Request(1, 4), cluster.ledger())), ElementsAre("n2"));
  EXPECT_THAT(cluster.Names(Place(cluster.Request(2, 4), cluster.ledger())),
              ElementsAre("n2", "n3"));
  EXPECT_THAT(cluster.Names(Place(cluster.Request(1, 2), cluster.ledger())), ElementsAre("n0"))
      << "two GPUs are together everywhere";
}

TEST(GpuIslands, AGangThatNeedsMoreGetsBrokenOnesToo) {
  TestCluster cluster = HalfTaken();
  EXPECT_EQ(cluster.Names(Place(cluster.Request(3, 4), cluster.ledger())).size(), 3);
  PlacementRequest request = cluster.Request(2, 4);
  request.rules = {{1, 2, true}};
  request.excluded = {"n3"};
  EXPECT_THAT(cluster.Names(Place(request, cluster.ledger())), ElementsAre("n0", "n1"))
      << "a required rule counts more";
}

TEST(GpuIslands, ASpareIsFoundInABrokenNode) {
  TestCluster cluster = HalfTaken();
  PlacementRequest request = cluster.Request(2, 4);
  request.spares = 1;
  const PlacementOutcome outcome = Place(request, cluster.ledger());
  ASSERT_TRUE(std::holds_alternative<Placed>(outcome)) << Describe(outcome);
  EXPECT_EQ(std::get<Placed>(outcome).spares.size(), 1);
}

TEST(GpuIslands, ANodeThatGoesTakesThemAlong) {
  TestCluster cluster = HalfTaken();
  EXPECT_FALSE(cluster.ledger().SplitColumn().empty());
  const uint64_t digest = cluster.ledger().Digest();
  const uint64_t room = cluster.ledger().room_version();
  for (int i = 0; i < 4; ++i) {
    cluster.ledger().SetGpuIslands("n" + std::to_string(i), {});
  }
  EXPECT_TRUE(cluster.ledger().SplitColumn().empty());
  EXPECT_EQ(cluster.ledger().Digest(), digest) << "it is a preference";
  EXPECT_EQ(cluster.ledger().room_version(), room);
  cluster.ledger().SetGpuIslands("n1", TwoHalves());
  cluster.ledger().RemoveNode("n1");
  EXPECT_TRUE(cluster.ledger().SplitColumn().empty());
}

// Islands never cost a gang its place, and where it fits inside them it is inside them.
TEST(GpuIslandsProperty, LoseNothing) {
  base::Rng rng(7);
  for (int round = 0; round < 400; ++round) {
    TestCluster plain({"node", "leaf", "cluster"}, 8);
    TestCluster split({"node", "leaf", "cluster"}, 8);
    const int nodes = 2 + static_cast<int>(rng.Below(6));
    for (TestCluster* cluster : {&plain, &split}) {
      for (int i = 0; i < nodes; ++i) {
        cluster->AddNode("n" + std::to_string(i), {"leaf-" + std::to_string(i / 3)});
      }
      cluster->Build();
    }
    const auto gpus = static_cast<int64_t>(2 + rng.Below(3));
    std::map<std::string, int64_t> whole;
    int64_t whole_pods = 0;
    for (int i = 0; i < nodes; ++i) {
      const std::string name = "n" + std::to_string(i);
      GpuIslands islands = TwoHalves();
      islands.taken = rng.Next() & 0xff;
      const auto held = static_cast<int64_t>(std::popcount(islands.taken));
      if (held > 0) {
        plain.Occupy(name, held);
        split.Occupy(name, held);
      }
      split.ledger().SetGpuIslands(name, islands);
      whole[name] = WholePods(islands, gpus, 8 - held);
      whole_pods += whole[name];
    }
    const auto pods = static_cast<int64_t>(1 + rng.Below(6));
    const PlacementOutcome without = Place(plain.Request(pods, gpus), plain.ledger());
    const PlacementOutcome with = Place(split.Request(pods, gpus), split.ledger());
    ASSERT_EQ(with.index(), without.index()) << Describe(with) << " against " << Describe(without);
    if (std::holds_alternative<Placed>(with) && pods <= whole_pods) {
      for (const std::string& name : split.Names(with)) {
        EXPECT_GE(--whole[name], 0) << "round " << round << ": " << Describe(with);
      }
    }
  }
}

}  // namespace
}  // namespace asterism::scheduler
