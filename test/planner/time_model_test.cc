#include "planner/time_model.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "planner/calibrate.h"
#include "planner/collective.h"
#include "planner/flops.h"
#include "planner/model_presets.h"

namespace asterism::planner {
namespace {

ClusterSpec Hopper() {
  return {.gpu = *FindGpu("H100"), .levels = {{"inner", 8, 450, 0}, {"outer", 65536, 50, 0}}};
}

ParallelPlan SomePlan() {
  ParallelPlan plan;
  plan.degrees = {.tensor = 4, .pipeline = 4, .data = 4};
  plan.sequence_parallel = true;
  plan.sharding = Sharding::kOptimizer;
  plan.sequence = 4096;
  plan.global_batch = 128;
  return plan;
}

TimeEstimate Estimate(const ModelSpec& model, const ParallelPlan& plan,
                      const ClusterSpec& cluster = Hopper()) {
  return EstimateTime(model, plan, cluster, ProfileOf(Runtime::kMegatron), ShippedConstants());
}

// 2104.04473 section 5.1: three quarters of the classic 96 B s L h^2 (...) without recompute.
TEST(Flops, AgreeWithTheClassicCount) {
  ModelSpec model = *FindModelPreset("gpt-3-175b");
  model.biases = false;
  const double tokens = 2048.0 * 64;
  const LayerFlops layer = FlopsOfLayer(model, LayerKind::kDense, tokens, 2048, Masking::kFull);
  const double forward = 96 * layer.total() + HeadFlops(model, tokens);
  // Full recompute runs the layers' forward a fourth time, the head's three times.
  const double step = 4 * 96 * layer.total() + 3 * HeadFlops(model, tokens);
  EXPECT_NEAR(step / ClassicHardwareFlops(model, 64, 2048), 1, 1e-6);
  EXPECT_GT(step, 3 * forward);
}

// Bridge: (6 P + 6 L h s) a token, P without the input embedding.
TEST(Flops, CountALlamaAsBridgeDoes) {
  const ModelSpec model = *FindModelPreset("llama-3-8b");
  const double weights = 8'030'261'248.0 - 128256.0 * 4096;
  EXPECT_DOUBLE_EQ(ModelFlopsPerToken(model, 8192), 6 * weights + 6.0 * 32 * 4096 * 8192);
}

TEST(Flops, ExpertsCountTheirTopK) {
  const ModelSpec model = *FindModelPreset("mixtral-8x7b");
  const LayerFlops layer = FlopsOfLayer(model, LayerKind::kExpert, 1000, 4096, Masking::kCausal);
  EXPECT_DOUBLE_EQ(layer.routed, 2.0 * 1000 * 2 * 3 * 4096 * 14336);
  EXPECT_DOUBLE_EQ(layer.mlp, 0);
}

TEST(Collective, VolumesAreThoseOfARing) {
  EXPECT_DOUBLE_EQ(RingReduceBytes(8, 1000), 2 * 7.0 / 8 * 1000);
  EXPECT_DOUBLE_EQ(RingGatherBytes(4, 1000), 750);
  EXPECT_DOUBLE_EQ(RingGatherBytes(1, 1000), 0);
}

TEST(Collective, FindsTheLevelByItsSize) {
  const ClusterSpec cluster = Hopper();
  const TimeConstants constants;
  const auto rate = [&](RankGroup group) {
    return LinkOf(cluster, group, constants).bytes_per_second / 1e9;
  };
  EXPECT_DOUBLE_EQ(rate({.ranks = 8}), 450 * constants.inner_share);
  // Every eighth GPU: one port each.
  EXPECT_DOUBLE_EQ(rate({.ranks = 16, .stride = 8}), 50 * constants.network_share);
  // Two members a node, two ports.
  EXPECT_DOUBLE_EQ(rate({.ranks = 16, .stride = 4}), 2 * 50 * constants.network_share);
  // Whole nodes, eight ports, but not faster than inside.
  EXPECT_DOUBLE_EQ(rate({.ranks = 16}),
                   std::min(450 * constants.inner_share, 8 * 50 * constants.network_share));
}

TEST(Collective, KnowsAnyNumberOfLevels) {
  for (size_t count = 1; count <= 5; ++count) {
    ClusterSpec cluster{.gpu = *FindGpu("H100")};
    for (size_t level = 0; level < count; ++level) {
      cluster.levels.push_back({std::string(1, static_cast<char>('a' + level)),
                                int64_t{8} << (2 * level), 450 / static_cast<double>(level + 1),
                                0});
    }
    ASSERT_TRUE(CheckCluster(cluster).ok());
    const Link link = LinkOf(cluster, {.ranks = 1 << 20}, TimeConstants{});
    EXPECT_GT(link.bytes_per_second, 0) << count;
  }
}

TEST(TimeModel, BubbleVanishesWithMicroBatches) {
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  ParallelPlan plan = SomePlan();
  plan.global_batch = plan.degrees.data;
  const TimeEstimate one = Estimate(model, plan);
  plan.global_batch *= 10'000;
  const TimeEstimate many = Estimate(model, plan);
  EXPECT_DOUBLE_EQ(one.fill, many.fill);
  EXPECT_GT(one.fill / one.Seconds(), 0.5);
  EXPECT_LT(many.fill / many.Seconds(), 0.001);
}

TEST(TimeModel, InterleavingDividesTheBubble) {
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  ParallelPlan plan = SomePlan();
  const double fill = Estimate(model, plan).fill;
  plan.virtual_stages = 5;
  plan.schedule = Schedule::kInterleaved;
  EXPECT_NEAR(Estimate(model, plan).fill, fill / 5, 1e-12);
}

TEST(TimeModel, WeakScalingCostsOnlyTheDataExchange) {
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  ParallelPlan plan = SomePlan();
  ParallelPlan twice = plan;
  twice.degrees.data *= 2;
  twice.global_batch *= 2;
  const TimeEstimate a = Estimate(model, plan);
  const TimeEstimate b = Estimate(model, twice);
  EXPECT_NEAR(b.Seconds() - b.data_exchange - b.optimizer,
              a.Seconds() - a.data_exchange - a.optimizer, 1e-9);
}

TEST(TimeModel, MoreBandwidthNeverSlows) {
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  for (const int64_t tensor : {1, 2, 8, 16}) {
    ParallelPlan plan = SomePlan();
    plan.degrees.tensor = tensor;
    plan.degrees.context = 2;
    const double before = Estimate(model, plan).Seconds();
    for (size_t level = 0; level < 2; ++level) {
      ClusterSpec faster = Hopper();
      faster.levels[level].gigabytes_per_second *= 2;
      EXPECT_LE(Estimate(model, plan, faster).Seconds(), before);
    }
    ClusterSpec faster = Hopper();
    faster.gpu.memory_gigabytes_per_second *= 2;
    faster.gpu.bf16_flops_per_second *= 2;
    EXPECT_LT(Estimate(model, plan, faster).Seconds(), before);
  }
}

// 2205.05198 table 4: full recompute costs a layer 39 %, at least the third that a forward is.
TEST(TimeModel, FullRecomputeCostsAThirdOfALayerAndMore) {
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  ParallelPlan plan = SomePlan();
  const StageTime none = Estimate(model, plan).stages[1];
  plan.recompute.mode = RecomputeMode::kFull;
  const StageTime full = Estimate(model, plan).stages[1];
  EXPECT_GT(full.Slot() / none.Slot(), 1.32);
  EXPECT_LT(full.Slot() / none.Slot(), 1.5);
}

TEST(TimeModel, Fp8IsFasterOnlyWhereTheGpuHasIt) {
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  ParallelPlan plan = SomePlan();
  const double bf16 = Estimate(model, plan).Seconds();
  plan.precision = Precision::kFp8;
  const double ratio = bf16 / Estimate(model, plan).Seconds();
  // 70 pairs of DGX Cloud recipes: 1.19 to 1.61.
  EXPECT_GT(ratio, 1.19);
  EXPECT_LT(ratio, 1.61);
  ClusterSpec ampere = Hopper();
  ampere.gpu = *FindGpu("A100-80");
  const double fp8 = Estimate(model, plan, ampere).Seconds();
  plan.precision = Precision::kBf16;
  EXPECT_DOUBLE_EQ(fp8, Estimate(model, plan, ampere).Seconds());
}

TimeEstimate EstimateWith(Runtime runtime, const ParallelPlan& plan) {
  return EstimateTime(*FindModelPreset("llama-3-70b"), plan, Hopper(), ProfileOf(runtime),
                      ShippedConstants());
}

// DeepSpeed's pipeline engine reduces gradients after the last backward, and its stages wait for
// each transfer.
TEST(TimeModel, WhatAPipelineEngineDoesNotHideIsWaitedFor) {
  const ParallelPlan plan = SomePlan();
  const TimeEstimate hidden = EstimateWith(Runtime::kMegatron, plan);
  const TimeEstimate waited = EstimateWith(Runtime::kDeepSpeedBf16, plan);
  const double bytes = (6.0 + 2) / (4 + 2);  // its gradients are fp32 beside bf16
  EXPECT_NEAR(waited.data_exchange, hidden.data_exchange * bytes / ShippedConstants().exposed_data,
              1e-9);
  EXPECT_GT(waited.pipeline_exchange, 3 * hidden.pipeline_exchange);
  ParallelPlan one_stage = plan;
  one_stage.degrees = {.tensor = 4, .data = 16};
  EXPECT_NEAR(EstimateWith(Runtime::kDeepSpeedBf16, one_stage).data_exchange,
              EstimateWith(Runtime::kMegatron, one_stage).data_exchange * bytes, 1e-9);
}

TEST(TimeModel, WholeGradientsAreExchangedTwice) {
  ParallelPlan plan = SomePlan();
  const double sharded = EstimateWith(Runtime::kMegatron, plan).data_exchange;
  plan.sharding = Sharding::kNone;
  EXPECT_NEAR(EstimateWith(Runtime::kMegatron, plan).data_exchange, sharded * (4 + 4) / (4 + 2),
              1e-9);
}

// 2104.04473 section 4.1: each tensor rank sends its part, with or without sequence parallelism.
TEST(TimeModel, TensorRanksShareATransfer) {
  ParallelPlan plan = SomePlan();
  const double split = EstimateWith(Runtime::kMegatron, plan).pipeline_exchange;
  plan.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(EstimateWith(Runtime::kMegatron, plan).pipeline_exchange, split);
}

TEST(TimeModel, ALayerTakesWhatTheSlowestHostNeeds) {
  ModelSpec small = *FindModelPreset("llama-3-8b");
  small.hidden = 512;
  small.ffn = 1024;
  ParallelPlan plan;
  plan.sequence = 128;
  plan.global_batch = 1;
  const auto layer = [&](int64_t tensor) {
    plan.degrees.tensor = tensor;
    const StageTime stage = Estimate(small, plan).stages.front();
    return (stage.Slot() - stage.head) / (3.0 * static_cast<double>(small.layers));
  };
  const double host = ShippedConstants().launch_us * 1e-6;
  EXPECT_NEAR(layer(1), host, 1e-9);
  EXPECT_GT(layer(8), layer(2));
  // A pass that exchanges waits once more for nobody: two thirds of its exchanges count.
  EXPECT_NEAR(layer(8), host * (1 + 3 * ShippedConstants().host_spread), 0.1 * host);
}

// The head's output is many times wider than a layer's, so that few tokens fill the GPU.
TEST(TimeModel, TheHeadNeedsFewerTokensThanALayer) {
  ParallelPlan plan = SomePlan();
  plan.degrees = {.data = 64};
  plan.sequence = 256;
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  const TimeEstimate few = Estimate(model, plan);
  plan.micro_batch = 64;
  plan.global_batch = 64 * 64;
  const TimeEstimate many = Estimate(model, plan);
  const double layers = 64 * few.stages[0].products / many.stages[0].products;
  const double head = 64 * few.stages[0].head / many.stages[0].head;
  EXPECT_GT(layers, 1.5);
  EXPECT_LT(head, 1.1);
}

TEST(Calibrate, FindsConstantsThatMadeTheTimes) {
  const ModelSpec model = *FindModelPreset("llama-3-70b");
  const ClusterSpec cluster = Hopper();
  TimeConstants truth;
  truth.product_efficiency = 0.6;
  truth.exposed_exchange = 0.4;
  std::vector<ParallelPlan> plans;
  for (const int64_t tensor : {1, 2, 4, 8}) {
    plans.push_back(SomePlan());
    plans.back().degrees.tensor = tensor;
  }
  std::vector<TimePoint> points;
  for (const ParallelPlan& plan : plans) {
    points.push_back(
        {&model, &plan, &cluster, &ProfileOf(Runtime::kMegatron),
         EstimateTime(model, plan, cluster, ProfileOf(Runtime::kMegatron), truth).Seconds()});
  }
  const TimeConstants fitted = CalibrateTime(points, ShippedConstants());
  for (const TimePoint& point : points) {
    const double before = Estimate(model, *point.plan).Seconds() / point.measured_seconds;
    const double after =
        EstimateTime(model, *point.plan, cluster, ProfileOf(Runtime::kMegatron), fitted).Seconds() /
        point.measured_seconds;
    EXPECT_LT(std::abs(std::log(after)), std::abs(std::log(before)));
    EXPECT_NEAR(after, 1, 0.02);
  }
  // Same points, same constants.
  const TimeConstants again = CalibrateTime(points, ShippedConstants());
  for (double TimeConstants::*const each : CalibratedConstants()) {
    EXPECT_EQ(fitted.*each, again.*each);
  }
}

TEST(Calibrate, WithoutPointsKeepsThePrior) {
  const TimeConstants fitted = CalibrateTime({}, ConstantsOf("kort22 A100-80"));
  for (double TimeConstants::*const each : CalibratedConstants()) {
    EXPECT_EQ(fitted.*each, ConstantsOf("kort22 A100-80").*each);
  }
}

TEST(TimeConstants, TableHoldsOnlyPossibleValues) {
  EXPECT_GE(TimeTableEntries().size(), 2U);
  for (const std::string_view entry : TimeTableEntries()) {
    const TimeConstants& constants = ConstantsOf(entry);
    EXPECT_LE(constants.product_efficiency, 0.96) << entry;
    EXPECT_LE(constants.attention_efficiency, 0.96) << entry;
    EXPECT_LE(constants.network_share, 1) << entry;
  }
  EXPECT_EQ(&ConstantsOf("no such entry"), &ShippedConstants());
}

}  // namespace
}  // namespace asterism::planner
