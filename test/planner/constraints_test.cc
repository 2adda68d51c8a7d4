#include "planner/constraints.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/model_presets.h"

namespace asterism::planner {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string_view> IdsOf(const std::vector<Violation>& violations) {
  std::vector<std::string_view> ids;
  for (const Violation& violation : violations) {
    ids.push_back(violation.id);
    EXPECT_FALSE(violation.message.empty());
  }
  return ids;
}

struct Sample {
  ModelSpec model = *FindModelPreset("llama-3-70b");
  ParallelPlan plan;
  int64_t gpus = 64;
};

Sample LegalSample(Framework framework) {
  Sample sample;
  sample.plan.framework = framework;
  sample.plan.degrees = {.tensor = 4, .pipeline = 4, .data = 4};
  sample.plan.sequence = 4096;
  sample.plan.global_batch = 128;
  sample.plan.sequence_parallel = framework == Framework::kMegatron;
  if (framework == Framework::kAccelerate) {
    sample.plan.degrees = {.tensor = 4, .data = 16};
    sample.plan.sharding = Sharding::kFull;
  }
  return sample;
}

struct Illegal {
  friend void PrintTo(const Illegal& illegal, std::ostream* out) { *out << illegal.id; }

  const char* id;
  Framework framework;
  void (*change)(Sample&);
};

class IllegalPlan : public testing::TestWithParam<Illegal> {};

TEST_P(IllegalPlan, IsRefusedByName) {
  Sample sample = LegalSample(GetParam().framework);
  ASSERT_THAT(IdsOf(CheckPlan(sample.model, sample.plan, sample.gpus)), IsEmpty());
  GetParam().change(sample);
  ASSERT_TRUE(CheckDegrees(sample.plan).ok());
  EXPECT_THAT(IdsOf(CheckPlan(sample.model, sample.plan, sample.gpus)), Contains(GetParam().id));
}

constexpr Framework kM = Framework::kMegatron;
constexpr Framework kD = Framework::kDeepSpeed;
constexpr Framework kT = Framework::kTorchTitan;
constexpr Framework kA = Framework::kAccelerate;

void Virtual(Sample& s) {
  s.plan.schedule = Schedule::kInterleaved;
  s.plan.virtual_stages = 5;
}

void Mixture(Sample& s) {
  s.model = *FindModelPreset("qwen3-30b-a3b");
}

INSTANTIATE_TEST_SUITE_P(
    Rules, IllegalPlan,
    testing::Values(
        Illegal{"world.dense", kM, [](Sample& s) { s.gpus = 60; }},
        Illegal{"world.dense", kD, [](Sample& s) { s.plan.degrees.data = 5; }},
        Illegal{"world.exact", kT, [](Sample& s) { s.gpus = 128; }},
        Illegal{"world.exact", kA, [](Sample& s) { s.gpus = 63; }},
        Illegal{"world.expert", kM, [](Sample& s) { s.plan.degrees.expert = 3; }},
        Illegal{"heads.tp", kM, [](Sample& s) { s.model.attention.heads = 66; }},
        Illegal{"heads.tp", kT, [](Sample& s) { s.model.attention.heads = 66; }},
        Illegal{"kv.multiple_or_divisor", kM, [](Sample& s) { s.model.attention.kv_heads = 6; }},
        Illegal{"kv.divisible", kT, [](Sample& s) { s.model.attention.kv_heads = 2; }},
        Illegal{"kv.at_least", kD, [](Sample& s) { s.model.attention.kv_heads = 2; }},
        Illegal{"layers.pp", kM, [](Sample& s) { s.model.layers = 81; }},
        Illegal{"layers.pp", kM, [](Sample& s) { s.plan.first_layers = 19; }},
        Illegal{"layers.pp", kM, [](Sample& s) { s.plan.count_loss = true; }},
        Illegal{"layers.vpp", kM,
                [](Sample& s) {
                  Virtual(s);
                  s.plan.virtual_stages = 3;
                }},
        Illegal{"vpp.needs_pp", kM,
                [](Sample& s) {
                  Virtual(s);
                  s.plan.degrees.pipeline = 1;
                }},
        Illegal{"vpp.group_range", kM,
                [](Sample& s) {
                  Virtual(s);
                  s.plan.group_size = 2;
                }},
        Illegal{"vpp.group_range", kM,
                [](Sample& s) {
                  Virtual(s);
                  s.plan.group_size = 33;
                }},
        Illegal{"vpp.group_remainder", kM,
                [](Sample& s) {
                  Virtual(s);
                  s.plan.group_size = 31;
                }},
        Illegal{"stages.multiple", kT, [](Sample& s) { s.plan.schedule = Schedule::kInterleaved; }},
        Illegal{"stages.multiple", kT, [](Sample& s) { s.plan.virtual_stages = 2; }},
        Illegal{"seq.cp", kM,
                [](Sample& s) {
                  s.plan.degrees.context = 2;
                  s.plan.sequence = 4098;
                }},
        Illegal{"cp.ulysses", kM,
                [](Sample& s) {
                  s.plan.degrees.context = 32;
                  s.plan.context_exchange = ContextExchange::kAllToAll;
                }},
        Illegal{"experts.ep", kM, [](Sample& s) { s.plan.degrees.expert = 2; }},
        Illegal{"experts.ep", kT,
                [](Sample& s) {
                  Mixture(s);
                  s.plan.degrees.expert = 12;
                }},
        Illegal{"ep.mesh", kT,
                [](Sample& s) {
                  Mixture(s);
                  s.plan.degrees.expert = 32;
                }},
        Illegal{"batch.product", kM, [](Sample& s) { s.plan.global_batch = 126; }},
        Illegal{"batch.product", kD, [](Sample& s) { s.plan.micro_batch = 3; }},
        Illegal{"tokens.step", kT, [](Sample& s) { s.plan.global_batch = 126; }},
        Illegal{"tokens.step", kA, [](Sample& s) { s.plan.global_batch = 100; }},
        Illegal{"sp.needs_tp", kM, [](Sample& s) { s.plan.degrees.tensor = 1; }},
        Illegal{"shard.replicas", kM, [](Sample& s) { s.plan.replicas = 3; }},
        Illegal{"fsdp.torch", kM, [](Sample& s) { s.plan.sharding = Sharding::kFull; }},
        Illegal{"recompute.module", kM,
                [](Sample& s) {
                  s.plan.recompute = {.mode = RecomputeMode::kModules, .modules = kRecomputeMoe};
                }},
        Illegal{"recompute.module", kM,
                [](Sample& s) {
                  s.plan.recompute = {.mode = RecomputeMode::kModules,
                                      .modules = kRecomputeLatentUp};
                }},
        Illegal{"recompute.module", kM,
                [](Sample& s) { s.plan.recompute.mode = RecomputeMode::kOperators; }},
        Illegal{
            "recompute.selective", kM,
            [](Sample& s) { s.plan.recompute = {.mode = RecomputeMode::kSelective, .layers = 3}; }},
        Illegal{"zero.pipeline", kD, [](Sample& s) { s.plan.sharding = Sharding::kGradients; }},
        Illegal{"zero.pipeline", kD, [](Sample& s) { s.plan.sharding = Sharding::kFull; }},
        Illegal{"pp.none", kA, [](Sample& s) { s.plan.degrees.pipeline = 2; }},
        Illegal{"tp_cp.replicate", kA, [](Sample& s) { s.plan.replicas = 16; }}));

TEST(Constraints, UnevenStagesAreLegalWhereTheyAreSaid) {
  Sample sample = LegalSample(kM);
  sample.plan.first_layers = 19;
  sample.plan.last_layers = 21;
  EXPECT_THAT(CheckPlan(sample.model, sample.plan, 64), IsEmpty());
  sample = LegalSample(kM);
  sample.model.layers = 78;
  sample.plan.count_embedding = true;
  sample.plan.count_loss = true;
  EXPECT_THAT(CheckPlan(sample.model, sample.plan, 64), IsEmpty());
}

TEST(Constraints, MessageHasTheNumbers) {
  Sample sample = LegalSample(kM);
  sample.plan.global_batch = 126;
  const auto violations = CheckPlan(sample.model, sample.plan, 64);
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].message,
            "global batch 126 is not divisible by micro-batch x data = 4: change one");
}

TEST(Constraints, DegreesOutOfRangeNameTheField) {
  ParallelPlan plan = LegalSample(kM).plan;
  EXPECT_TRUE(CheckDegrees(plan).ok());
  plan.degrees.tensor = 0;
  EXPECT_THAT(std::string(CheckDegrees(plan).message()),
              HasSubstr("tensor: 0 is out of range: use a whole number from 1"));
  plan = LegalSample(kM).plan;
  plan.degrees.data = kDegreeMax;
  EXPECT_THAT(std::string(CheckDegrees(plan).message()), HasSubstr("degrees: their product"));
  plan = LegalSample(kM).plan;
  plan.sequence = 0;
  EXPECT_THAT(std::string(CheckDegrees(plan).message()), HasSubstr("sequence"));
}

}  // namespace
}  // namespace asterism::planner
