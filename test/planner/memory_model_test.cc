#include "planner/memory_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/cluster_spec.h"
#include "planner/device_memory.h"
#include "planner/layer_activation.h"
#include "planner/model_presets.h"
#include "planner/schedule.h"
#include "planner/stage_layout.h"

namespace asterism::planner {
namespace {

constexpr double kOneGibibyte = 1073741824.0;

// A row of the worked example of reference section 3.7, in GiB.
struct Worked {
  friend void PrintTo(const Worked& worked, std::ostream* out) { *out << worked.name; }

  const char* name;
  const char* preset;
  int64_t layers;
  int64_t kv_heads;
  int64_t dense_layers;
  Degrees degrees;
  int64_t sequence;
  double states;
  double activations;
  double layer_buffer;
  double head_buffer;
  double moment;
  double measured;
};

class WorkedExample : public testing::TestWithParam<Worked> {};

TEST_P(WorkedExample, EachTermIsTheReferences) {
  const Worked& worked = GetParam();
  ModelSpec model = *FindModelPreset(worked.preset);
  model.layers = worked.layers;
  model.dense_layers = worked.dense_layers;
  if (worked.kv_heads > 0) {
    model.attention.kv_heads = worked.kv_heads;
  }
  ParallelPlan plan;
  plan.degrees = worked.degrees;
  plan.sequence_parallel = worked.degrees.tensor > 1;
  plan.sharding = Sharding::kOptimizer;
  plan.sequence = worked.sequence;
  plan.global_batch = 4 * worked.degrees.data;
  const MemoryEstimate memory = EstimateMemory(model, plan, ProfileOf(Runtime::kMegatron));
  const StageMemory& stage = memory.stages[memory.peak_stage];
  EXPECT_NEAR(stage.States() / kOneGibibyte, worked.states, 0.03);
  EXPECT_NEAR(stage.activations / kOneGibibyte, worked.activations, 0.02);
  EXPECT_NEAR(stage.layer_gradient_buffers / kOneGibibyte, worked.layer_buffer, 0.01);
  EXPECT_NEAR(stage.head_gradient_buffer / kOneGibibyte, worked.head_buffer, 0.01);
  EXPECT_NEAR(stage.Moment() / kOneGibibyte, worked.moment, 0.01);
  EXPECT_NEAR(stage.Allocated() / kOneGibibyte / worked.measured, 1, 0.005);
}

INSTANTIATE_TEST_SUITE_P(Rows, WorkedExample,
                         testing::Values(Worked{"llama 70B TP2",
                                                "llama-3-70b",
                                                12,
                                                0,
                                                0,
                                                {.tensor = 2, .data = 4},
                                                4096,
                                                51.84,
                                                6.28,
                                                0.80,
                                                0.98,
                                                0.98,
                                                60.68},
                                         Worked{"llama 70B TP8",
                                                "llama-3-70b",
                                                12,
                                                0,
                                                0,
                                                {.tensor = 8},
                                                4096,
                                                25.92,
                                                1.57,
                                                0.20,
                                                0.24,
                                                0.24,
                                                28.29},
                                         Worked{"llama 405B TP2",
                                                "llama-3-405b",
                                                4,
                                                16,
                                                0,
                                                {.tensor = 2, .data = 4},
                                                4096,
                                                71.61,
                                                4.00,
                                                3.00,
                                                1.96,
                                                1.10,
                                                81.59},
                                         Worked{"llama 70B CP8",
                                                "llama-3-70b",
                                                12,
                                                0,
                                                0,
                                                {.context = 8},
                                                32768,
                                                86.40,
                                                12.56,
                                                1.59,
                                                1.96,
                                                1.96,
                                                104.51},
                                         Worked{"DeepSeek-V2 EP8",
                                                "deepseek-v2",
                                                4,
                                                0,
                                                1,
                                                {.data = 8, .expert = 8},
                                                4096,
                                                37.55,
                                                5.09,
                                                0.37,
                                                0.98,
                                                1.56,
                                                45.63}));

TEST(StateBytes, AreTheSchemesOfTheReference) {
  constexpr double kRanks = 8;
  const auto total = [](Runtime runtime, Sharding sharding) {
    return StateBytesPerParameter(ProfileOf(runtime).states, sharding, kRanks).total();
  };
  EXPECT_DOUBLE_EQ(total(Runtime::kMegatron, Sharding::kNone), 18);
  EXPECT_DOUBLE_EQ(total(Runtime::kMegatron, Sharding::kOptimizer), 6 + 12 / kRanks);
  EXPECT_DOUBLE_EQ(total(Runtime::kMegatron, Sharding::kFull), 18 / kRanks);
  EXPECT_DOUBLE_EQ(total(Runtime::kDeepSpeedFp16, Sharding::kNone), 20);
  EXPECT_DOUBLE_EQ(total(Runtime::kDeepSpeedFp16, Sharding::kOptimizer), 4 + 16 / kRanks);
  EXPECT_DOUBLE_EQ(total(Runtime::kDeepSpeedFp16, Sharding::kGradients), 2 + 18 / kRanks);
  EXPECT_DOUBLE_EQ(total(Runtime::kTorchTitan, Sharding::kFull), 16 / kRanks);
}

ModelSpec Gpt22b() {
  ModelSpec model = *FindModelPreset("gpt-3-175b");
  model.layers = 48;
  model.hidden = 6144;
  model.attention = {.heads = 64, .kv_heads = 64, .head_size = 96};
  model.ffn = 24576;
  return model;
}

// Korthikanti 2022, table 2: bytes of one layer over s b h.
TEST(LayerActivation, IsTheClassicFormula) {
  const ModelSpec model = Gpt22b();
  ParallelPlan plan;
  plan.sequence = 2048;
  plan.micro_batch = 4;
  const RuntimeProfile& old = ProfileOf(Runtime::kMegatron2022);
  const double sbh = 2048.0 * 4 * 6144;
  const double scores = 5.0 * 64 * 2048 / 6144;
  const auto layer = [&] { return ActivationOfLayer(model, plan, old, LayerKind::kDense); };
  EXPECT_NEAR(layer().Whole() / sbh, 34 + scores, 1e-9);
  plan.degrees.tensor = 8;
  EXPECT_NEAR(layer().Whole() / sbh, 10 + (24 + scores) / 8, 1e-9);
  plan.sequence_parallel = true;
  EXPECT_NEAR(layer().Whole() / sbh, (34 + scores) / 8, 1e-9);
  EXPECT_NEAR(layer().Kept({.mode = RecomputeMode::kSelective}) / sbh, 34.0 / 8, 1e-9);
  EXPECT_NEAR(layer().Kept({.mode = RecomputeMode::kFull}) / sbh, 2.0 / 8, 1e-9);
}

// The same paper, figure 1: 22B on 8 GPUs.
TEST(MemoryModel, ReproducesActivationsOf22B) {
  ParallelPlan plan;
  plan.degrees.tensor = 8;
  plan.sequence = 2048;
  plan.micro_batch = 4;
  plan.global_batch = 4;
  const auto memory = EstimateMemory(Gpt22b(), plan, ProfileOf(Runtime::kMegatron2022));
  EXPECT_NEAR(memory.stages[0].activations / kOneGibibyte, 59.25, 0.01);
}

TEST(Schedule, KeepsWhatTheTablesSay) {
  ParallelPlan plan;
  plan.degrees.pipeline = 8;
  plan.global_batch = 64;
  const auto in_flight = [&plan](Schedule schedule, int64_t stage) {
    plan.schedule = schedule;
    return InFlight(plan, stage);
  };
  EXPECT_EQ(in_flight(Schedule::kGPipe, 3), 64);
  EXPECT_EQ(in_flight(Schedule::kOneForwardOneBackward, 0), 8);
  EXPECT_EQ(in_flight(Schedule::kOneForwardOneBackward, 7), 1);
  EXPECT_EQ(in_flight(Schedule::kZeroBubbleH1, 2), 6);
  EXPECT_EQ(in_flight(Schedule::kZeroBubble2p, 0), 16);
  EXPECT_EQ(in_flight(Schedule::kZeroBubbleV, 7), 8);
  EXPECT_EQ(in_flight(Schedule::kDualPipeV, 4), 9);
  plan.virtual_stages = 4;
  // p (1 + (p - 1)/(p v)) micro-batches through all layers of the rank.
  EXPECT_DOUBLE_EQ(in_flight(Schedule::kInterleaved, 0), 8 * (1 + 7.0 / (8 * 4)));
  EXPECT_EQ(WeightCopies(Schedule::kDualPipeV), 2);
  EXPECT_EQ(WeightCopies(Schedule::kZeroBubbleV), 1);
  plan.global_batch = 1;
  EXPECT_EQ(in_flight(Schedule::kOneForwardOneBackward, 0), 1);
}

TEST(StageLayout, GoesRoundAndCountsEnds) {
  ModelSpec model = *FindModelPreset("llama-3-405b");
  ParallelPlan plan;
  plan.degrees.pipeline = 8;
  plan.virtual_stages = 8;
  plan.count_embedding = true;
  plan.count_loss = true;
  const std::vector<StageBlocks> stages = LayOutStages(model, plan);
  ASSERT_EQ(stages.size(), 8U);
  EXPECT_EQ(stages[0].layers(), 15);
  EXPECT_EQ(stages[3].layers(), 16);
  EXPECT_EQ(stages[7].layers(), 15);
  EXPECT_TRUE(stages[0].embedding);
  EXPECT_TRUE(stages[7].head);
}

TEST(StageLayout, KeepsDenseLayersInFrontAndPredictionLast) {
  ModelSpec model = *FindModelPreset("deepseek-v3");
  model.mtp_depth = 1;
  ParallelPlan plan;
  plan.degrees.pipeline = 4;
  const std::vector<StageBlocks> stages = LayOutStages(model, plan);
  EXPECT_EQ(stages[0].dense_layers, 3);
  EXPECT_EQ(stages[0].expert_layers, 13);
  EXPECT_EQ(stages[3].expert_layers, 16);
  EXPECT_EQ(stages[3].prediction_depths, 1);
}

TEST(StageLayout, TakesStatedEnds) {
  ParallelPlan plan;
  plan.degrees.pipeline = 4;
  plan.first_layers = 7;
  plan.last_layers = 5;
  const auto stages = LayOutStages(*FindModelPreset("llama-3-8b"), plan);
  EXPECT_EQ(stages[0].layers(), 7);
  EXPECT_EQ(stages[1].layers(), 10);
  EXPECT_EQ(stages[2].layers(), 10);
  EXPECT_EQ(stages[3].layers(), 5);
}

TEST(DeviceMemory, HasThreeNumbersInOrder) {
  const DeviceMemory memory = EstimateDevice(60e9, ProfileOf(Runtime::kMegatron));
  for (const Span& span : {memory.allocated, memory.reserved, memory.device}) {
    EXPECT_LT(span.low, span.value);
    EXPECT_LT(span.value, span.high);
  }
  EXPECT_LT(memory.allocated.value, memory.reserved.value);
  EXPECT_LT(memory.reserved.value, memory.device.value);
  EXPECT_TRUE(Fits(memory, memory.device.high));
  EXPECT_FALSE(Fits(memory, memory.device.high - 1));
}

// 224 GB of states on a 141 GB GPU: the simplest test of all (reference section 5).
TEST(DeviceMemory, UnshardedStatesOf14BDoNotFitAnH200) {
  const DeviceMemory memory = EstimateDevice(14e9 * 16, ProfileOf(Runtime::kTorchTitan));
  EXPECT_FALSE(Fits(memory, FindGpu("H200")->memory_bytes));
}

TEST(ClusterSpec, FindsGpusAndLevels) {
  ASSERT_NE(FindGpu("H100"), nullptr);
  EXPECT_EQ(FindGpu("H99"), nullptr);
  for (const std::string_view name : GpuNames()) {
    ClusterSpec cluster{.gpu = *FindGpu(name), .levels = {{"inner", 8, 450, 3.4}}};
    EXPECT_TRUE(CheckCluster(cluster).ok()) << name;
  }
  ClusterSpec cluster{.gpu = *FindGpu("H100"),
                      .levels = {{"a", 8, 450, 3.4}, {"b", 72, 50, 14}, {"c", 500, 50, 20}}};
  EXPECT_EQ(cluster.gpus(), 500);
  EXPECT_EQ(cluster.LevelOf(8), 0U);
  EXPECT_EQ(cluster.LevelOf(9), 1U);
  EXPECT_EQ(cluster.LevelOf(501), 3U);
  cluster.levels[1].gpus = 8;
  EXPECT_THAT(std::string(CheckCluster(cluster).message()),
              testing::HasSubstr("levels.b.gpus: 8 is not more than the level inside it (8)"));
  cluster.levels[1] = {"b", 72, 0, 14};
  EXPECT_THAT(std::string(CheckCluster(cluster).message()), testing::HasSubstr("levels.b"));
  cluster.levels.clear();
  EXPECT_THAT(std::string(CheckCluster(cluster).message()), testing::HasSubstr("levels"));
}

}  // namespace
}  // namespace asterism::planner
