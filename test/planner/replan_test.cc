#include "planner/replan.h"

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/constraints.h"
#include "planner/model_presets.h"
#include "planner/plan_answer.h"

namespace asterism::planner {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Lt;
using testing::Not;

SearchRequest AskFor(std::string_view model, int64_t gpus) {
  SearchRequest request;
  request.model = *FindModelPreset(model);
  request.cluster = {.gpu = *FindGpu("H100"),
                     .levels = {{"inner", 8, 450, 3}, {"outer", 1 << 20, 50, 14}}};
  request.gpus = gpus;
  request.global_batch = 1024;
  request.sequence = 8192;
  request.constants = *ConstantsOfGpu("H100");
  return request;
}

TEST(Replan, KeepsShardsWhereThatIsNearlyBest) {
  SearchRequest request = AskFor("llama-3-70b", 512);
  const PlanAnswer answer = *AnswerPlan(request);
  request.max_spare_gpus = 256;
  const auto next = Replan(request, answer.best().plan, 256);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_LE(next->next.gpus, 256);
  EXPECT_TRUE(CheckPlan(request.model, next->next.plan, next->next.gpus).empty());
  if (next->keeps_shards) {
    EXPECT_EQ(next->next.plan.degrees.tensor, answer.best().plan.degrees.tensor);
    EXPECT_EQ(next->next.plan.degrees.pipeline, answer.best().plan.degrees.pipeline);
  } else {
    EXPECT_GT(next->regret, kRegretMax);
    EXPECT_GT(next->bytes_to_move, 0);
  }
}

TEST(Replan, ReshardsWhereTheKeptPlanLosesTooMuch) {
  SearchRequest request = AskFor("llama-3-8b", 64);
  ParallelPlan poor = AnswerPlan(request)->best().plan;
  poor.degrees = {.tensor = 8, .pipeline = 4, .data = 2};
  poor.sequence_parallel = true;
  request.max_spare_gpus = 31;
  const auto next = Replan(request, poor, 8);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(next->keeps_shards);
  EXPECT_GT(next->regret, kRegretMax);
  // Weights and states of 8 billion parameters, at most 18 bytes a parameter and rank.
  EXPECT_GT(next->bytes_to_move, 8e9);
  EXPECT_LT(next->bytes_to_move, 18.0 * 8.1e9 * 64);
}

TEST(Replan, NothingMovesWhereNothingChanges) {
  const SearchRequest request = AskFor("llama-3-8b", 64);
  const ParallelPlan plan = AnswerPlan(request)->best().plan;
  EXPECT_EQ(BytesToMove(request, plan, plan), 0);
  const auto same = Replan(request, plan, 0);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE(same->keeps_shards);
  EXPECT_EQ(same->next.plan, plan);
}

TEST(Replan, NamesALossThatCannotBe) {
  const SearchRequest request = AskFor("llama-3-8b", 64);
  const ParallelPlan plan = AnswerPlan(request)->best().plan;
  EXPECT_THAT(std::string(Replan(request, plan, 64).status().message()),
              HasSubstr("lost_gpus: 64 is out of range"));
}

TEST(LegalWorldSizes, AreLegalAndSmaller) {
  const SearchRequest request = AskFor("llama-3-70b", 512);
  const ParallelPlan plan = AnswerPlan(request)->best().plan;
  const std::vector<int64_t> sizes = LegalWorldSizes(request, plan, 100);
  EXPECT_THAT(sizes, Not(IsEmpty()));
  EXPECT_THAT(sizes, Each(Lt(512)));
  EXPECT_THAT(sizes, Contains(256));
}

TEST(MinimumGpus, IsWhereTheModelBeginsToFit) {
  SearchRequest request = AskFor("llama-3-405b", 8);
  const PlanAnswer answer = *AnswerPlan(request);
  ASSERT_THAT(answer.outcome.best, IsEmpty());
  ASSERT_GT(answer.minimum_gpus, 8);
  EXPECT_THAT(answer.impossible, HasSubstr(fmt::format("use {} GPUs", answer.minimum_gpus)));
  request.gpus = answer.minimum_gpus;
  EXPECT_THAT(AnswerPlan(request)->outcome.best, Not(IsEmpty()));
  request.gpus = answer.minimum_gpus - 8;
  EXPECT_THAT(AnswerPlan(request)->outcome.best, IsEmpty());
}

TEST(PlanAnswer, TermsAddUpAndNeighboursAreRefused) {
  for (const Framework framework : {Framework::kMegatron, Framework::kDeepSpeed,
                                    Framework::kTorchTitan, Framework::kAccelerate}) {
    SearchRequest request = AskFor("llama-3-8b", 64);
    request.framework = framework;
    request.runtime = RuntimeOf(framework);
    const PlanAnswer answer = *AnswerPlan(request);
    ASSERT_THAT(answer.outcome.best, Not(IsEmpty())) << FrameworkName(framework);
    double seconds = 0;
    for (const auto& term : answer.time_terms) {
      seconds += term.second;
    }
    EXPECT_NEAR(seconds, answer.best().seconds, 1e-9 * seconds);
    EXPECT_FALSE(answer.bound_by.empty());
    EXPECT_LE(answer.neighbours.size(), kNeighboursShown);
    for (const RejectedNeighbour& each : answer.neighbours) {
      EXPECT_FALSE(each.id.empty() || each.reason.empty() || each.change.empty());
    }
    EXPECT_THAT(CheckLaunch(request.model, answer.tuned.launch, answer.tuned.environment, 64),
                IsEmpty())
        << FrameworkName(framework);
    for (const LaunchChoice& each : answer.tuned.choices) {
      EXPECT_FALSE(each.reason.empty());
    }
  }
}

}  // namespace
}  // namespace asterism::planner
