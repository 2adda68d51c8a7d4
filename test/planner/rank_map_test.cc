#include "planner/rank_map.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/model_presets.h"
#include "planner/traffic.h"
#include "rapidcheck/gtest.h"

namespace asterism::planner {
namespace {

using testing::ElementsAre;

ParallelPlan PlanOf(const Degrees& degrees) {
  ParallelPlan plan;
  plan.degrees = degrees;
  plan.sequence = 4096;
  plan.global_batch = 64 * degrees.data;
  return plan;
}

// Written by hand from the generators of Megatron-LM's parallel_state: tp 2, cp 2, dp 2, pp 2.
TEST(RankMap, MegatronsOrder) {
  const RankMap map(PlanOf({.tensor = 2, .pipeline = 2, .context = 2, .data = 2}),
                    RankOrder::kDataBeforePipeline);
  EXPECT_THAT(map.GroupOf(GroupKind::kTensor, 5), ElementsAre(4, 5));
  EXPECT_THAT(map.GroupOf(GroupKind::kContext, 5), ElementsAre(5, 7));
  EXPECT_THAT(map.GroupOf(GroupKind::kData, 5), ElementsAre(1, 5));
  EXPECT_THAT(map.GroupOf(GroupKind::kShard, 5), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(map.GroupOf(GroupKind::kPipeline, 5), ElementsAre(5, 13));
  const RankMap other(PlanOf({.tensor = 2, .pipeline = 2, .context = 2, .data = 2}),
                      RankOrder::kPipelineBeforeData);
  EXPECT_THAT(other.GroupOf(GroupKind::kPipeline, 5), ElementsAre(1, 5));
  EXPECT_THAT(other.GroupOf(GroupKind::kData, 5), ElementsAre(5, 13));
}

TEST(RankMap, ExpertsFoldIntoTheRanksOfAStage) {
  const RankMap map(PlanOf({.tensor = 2, .pipeline = 2, .context = 1, .data = 4, .expert = 4}),
                    RankOrder::kDataBeforePipeline);
  EXPECT_THAT(map.GroupOf(GroupKind::kExpert, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(map.GroupOf(GroupKind::kExpertData, 1), ElementsAre(1, 5));
  EXPECT_THAT(map.GroupOf(GroupKind::kExpert, 14), ElementsAre(12, 13, 14, 15));
}

TEST(RankMap, SameBytes) {
  ParallelPlan plan = PlanOf({.tensor = 2, .pipeline = 1, .context = 1, .data = 4});
  const auto states = [&plan] {
    return RankMap(plan, RankOrder::kDataBeforePipeline).SameStates(3);
  };
  EXPECT_THAT(states(), ElementsAre(1, 3, 5, 7));
  plan.sharding = Sharding::kOptimizer;
  EXPECT_THAT(states(), ElementsAre(3));
  plan.replicas = 2;
  EXPECT_THAT(states(), ElementsAre(3, 7));
  plan.sharding = Sharding::kFull;
  EXPECT_THAT(RankMap(plan, RankOrder::kDataBeforePipeline).SameWeights(3), ElementsAre(3, 7));
}

RC_GTEST_PROP(RankMapProperty, GroupsAreAPartitionAndCoordinatesGoBack, ()) {
  const auto any = [](int64_t most) { return *rc::gen::inRange<int64_t>(1, most + 1); };
  ParallelPlan plan =
      PlanOf({.tensor = any(4), .pipeline = any(4), .context = any(3), .data = any(6)});
  Degrees& d = plan.degrees;
  const int64_t stage = d.tensor * d.context * d.data;
  d.expert = any(8);
  d.expert_tensor = any(3);
  RC_PRE(stage % (d.expert * d.expert_tensor) == 0);
  const RankMap map(plan, *rc::gen::elementOf(std::vector<RankOrder>{
                              RankOrder::kDataBeforePipeline, RankOrder::kPipelineBeforeData}));
  for (int64_t rank = 0; rank < map.ranks(); ++rank) {
    RC_ASSERT(map.RankOf(map.CoordinatesOf(rank)) == rank);
  }
  for (const GroupKind kind : kGroupKinds) {
    std::multiset<int64_t> seen;
    for (int64_t rank = 0; rank < map.ranks(); ++rank) {
      const std::vector<int64_t> group = map.GroupOf(kind, rank);
      RC_ASSERT(std::ssize(group) == map.SizeOf(kind));
      RC_ASSERT(std::find(group.begin(), group.end(), rank) != group.end());
      RC_ASSERT(map.GroupOf(kind, group.front()) == group);
      if (group.front() == rank || *std::min_element(group.begin(), group.end()) == rank) {
        seen.insert(group.begin(), group.end());
      }
    }
    RC_ASSERT(std::ssize(seen) == map.ranks());
  }
}

// A tensor group fits the first level, the shards cross to the second; no level has a name.
TEST(Traffic, GroupsNameTheLevelThatTheyCross) {
  ParallelPlan plan = PlanOf({.tensor = 8, .pipeline = 2, .context = 1, .data = 4});
  plan.sharding = Sharding::kOptimizer;
  const ModelSpec& model = *FindModelPreset("llama-3-70b");
  const RankMap map(plan, RankOrder::kDataBeforePipeline);
  const auto traffic = [&](const ClusterSpec& cluster) {
    return EstimateTraffic(model, plan, cluster, ProfileOf(Runtime::kMegatron), ShippedConstants(),
                           map);
  };
  const std::vector<GroupTraffic> two =
      traffic({.gpu = *FindGpu("H100"), .levels = {{"a", 8, 450, 0}, {"b", 1024, 50, 0}}});
  ASSERT_EQ(two.size(), 3U);
  EXPECT_EQ(two[0].kind, GroupKind::kTensor);
  EXPECT_EQ(two[0].level, 0U);
  EXPECT_EQ(two[0].groups, 8);
  EXPECT_EQ(two[1].kind, GroupKind::kPipeline);
  EXPECT_EQ(two[1].level, 1U);
  EXPECT_EQ(two[1].stride, 32);
  EXPECT_EQ(two[2].kind, GroupKind::kShard);
  // 4 all-reduces a layer and micro-batch of 2 x 7/8 x 2 s h bytes.
  EXPECT_DOUBLE_EQ(two[0].bytes_per_step, 64.0 * 40 * 4 * 2 * 7 / 8 * 2 * 4096 * 8192);
  const std::vector<GroupTraffic> one =
      traffic({.gpu = *FindGpu("H100"), .levels = {{"all", 64, 450, 0}}});
  EXPECT_EQ(one[2].level, 0U);
}

}  // namespace
}  // namespace asterism::planner
