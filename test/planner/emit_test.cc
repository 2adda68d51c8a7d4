// Launch files: read back they are the same launch, and the framework's own checks have nothing
// against them.

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/constraints.h"
#include "planner/emit_accelerate.h"
#include "planner/emit_deepspeed.h"
#include "planner/emit_megatron.h"
#include "planner/emit_torchtitan.h"
#include "planner/launch_tuning.h"
#include "planner/setting_reader.h"
#include "rapidcheck/gtest.h"
#include "test/planner/framework_checks.h"
#include "test/planner/launch_sample.h"

namespace asterism::planner {
namespace {

using testing::HasSubstr;

template <typename Value>
Value DrawOf(std::initializer_list<Value> values) {
  return *rc::gen::elementOf(std::vector<Value>(values));
}

bool Coin() {
  return DrawOf({false, true});
}

void RandomDegrees(const ModelSpec& model, ParallelPlan& plan) {
  const bool megatron = plan.framework == Framework::kMegatron;
  plan.degrees.tensor = DrawOf<int64_t>({1, 1, 2, 4, 8});
  plan.degrees.pipeline =
      plan.framework == Framework::kAccelerate ? 1 : DrawOf<int64_t>({1, 1, 2, 3, 4});
  plan.degrees.context = DrawOf<int64_t>({1, 1, 2, 4});
  plan.degrees.data = DrawOf<int64_t>({1, 2, 6, 8, 16});
  if (model.experts.count > 0 && (megatron || plan.framework == Framework::kTorchTitan)) {
    plan.degrees.expert = DrawOf<int64_t>({1, 2, 4, 8});
    plan.degrees.expert_tensor = megatron ? DrawOf<int64_t>({1, 1, 2}) : 1;
  }
  const bool splits = megatron || plan.framework == Framework::kTorchTitan;
  plan.sequence_parallel = splits && plan.degrees.tensor > 1 && Coin();
  if (plan.degrees.context > 1) {
    plan.context_exchange =
        DrawOf({ContextExchange::kRing, ContextExchange::kAllGather, ContextExchange::kAllToAll});
  }
}

void RandomSchedule(ParallelPlan& plan) {
  if (plan.degrees.pipeline == 1) {
    return;
  }
  plan.count_embedding = Coin();
  plan.count_loss = plan.count_embedding;
  if (DrawOf({false, false, true})) {
    plan.first_layers = DrawOf<int64_t>({0, 7, 9});
    plan.last_layers = DrawOf<int64_t>({0, 7, 9});
    plan.count_embedding = plan.count_loss = false;
  }
  plan.virtual_stages = DrawOf<int64_t>({1, 1, 2, 4});
  if (plan.virtual_stages > 1) {
    plan.schedule = Schedule::kInterleaved;
    if (plan.framework == Framework::kTorchTitan && plan.virtual_stages == 2) {
      plan.schedule =
          DrawOf({Schedule::kInterleaved, Schedule::kZeroBubbleV, Schedule::kDualPipeV});
    }
    plan.group_size = DrawOf<int64_t>({0, 0, 4});
  } else if (plan.framework == Framework::kTorchTitan) {
    plan.schedule = DrawOf({Schedule::kOneForwardOneBackward, Schedule::kGPipe});
  }
}

Recompute RandomRecompute(Framework framework) {
  const auto full = Recompute{.mode = RecomputeMode::kFull};
  switch (framework) {
    case Framework::kMegatron: {
      const uint32_t modules = static_cast<uint32_t>(*rc::gen::inRange(1, 128));
      return DrawOf({Recompute{}, Recompute{.mode = RecomputeMode::kSelective},
                     Recompute{.mode = RecomputeMode::kModules, .modules = modules}, full,
                     Recompute{.mode = RecomputeMode::kFull, .layers = 3}});
    }
    case Framework::kTorchTitan:
      return DrawOf({Recompute{}, Recompute{.mode = RecomputeMode::kOperators}, full});
    case Framework::kDeepSpeed:
    case Framework::kAccelerate:
      return DrawOf({Recompute{}, full});
  }
  return {};
}

void RandomSwitches(LaunchPlan& launch) {
  LaunchSwitches& s = launch.switches;
  const Framework framework = launch.plan.framework;
  const bool rare = DrawOf({false, false, false, true});
  if (framework == Framework::kMegatron) {
    s.overlap_gradients = Coin();
    s.overlap_parameters = s.overlap_gradients && Coin();
    s.overlap_tensor = launch.plan.sequence_parallel && Coin();
    s.overlap_pipeline_fill = launch.plan.virtual_stages > 1 && Coin();
    s.blocking_pipeline = rare && Coin();
    s.overlap_experts = rare && Coin();
    s.delay_weight_gradients = s.overlap_experts && Coin();
    s.overlap_shared_experts = rare && Coin();
    s.grouped_gemm = launch.plan.degrees.expert > 1 && Coin();
    s.expert_dispatch =
        launch.plan.degrees.expert > 1
            ? DrawOf({ExpertDispatch::kAllGather, ExpertDispatch::kAllToAll, ExpertDispatch::kFlex})
            : ExpertDispatch::kAllGather;
    s.cuda_graphs =
        rare ? DrawOf({CudaGraphs::kLocal, CudaGraphs::kTransformerEngine}) : CudaGraphs::kNone;
    s.precise_optimizer = rare && Coin();
    s.optimizer_offload_percent = s.precise_optimizer ? DrawOf<int64_t>({0, 25, 57, 100}) : 0;
    s.activation_offload = rare && Coin();
    s.pipeline_before_data = Coin();
    if (launch.plan.sharding >= Sharding::kGradients) {
      s.megatron_fsdp = launch.plan.sharding == Sharding::kGradients || Coin();
      s.checkpoint =
          s.megatron_fsdp ? CheckpointFormat::kFsdpDtensor : CheckpointFormat::kTorchDist;
    }
  }
  if (framework == Framework::kDeepSpeed) {
    s.overlap_gradients = Coin();
    s.overlap_tensor = launch.plan.degrees.tensor > 1 && Coin();
    s.quantized_weights = rare && Coin();
    s.quantized_gradients = rare && Coin();
    s.optimizer_offload_percent = rare ? DrawOf<int64_t>({0, 40, 100}) : 0;
  }
  s.narrow_gradients = framework <= Framework::kDeepSpeed && Coin();
  s.compile = framework != Framework::kMegatron && Coin();
  s.parameter_offload = framework != Framework::kMegatron && rare && Coin();
  s.overlap_tensor = s.overlap_tensor || (framework == Framework::kTorchTitan &&
                                          launch.plan.sequence_parallel && s.compile && Coin());
  if (launch.plan.precision == Precision::kFp8) {
    s.fp8 = framework == Framework::kMegatron
                ? DrawOf({Fp8Recipe::kDelayed, Fp8Recipe::kTensorwise, Fp8Recipe::kBlockwise,
                          Fp8Recipe::kMxfp8})
                : DrawOf({Fp8Recipe::kTensorwise, Fp8Recipe::kTensorwise, Fp8Recipe::kMxfp8});
    s.fp8_parameters = Coin();
  }
}

// Legal in the eyes of the constraint table; most tries are not.
LaunchSample RandomLaunch(Framework framework) {
  for (int tries = 0; tries < 1000; ++tries) {
    LaunchSample sample;
    sample.model = *FindModelPreset(*rc::gen::elementOf(ModelPresetNames()));
    ParallelPlan& plan = sample.launch.plan;
    plan.framework = framework;
    RandomDegrees(sample.model, plan);
    RandomSchedule(plan);
    plan.recompute = RandomRecompute(framework);
    plan.precision = DrawOf({Precision::kBf16, Precision::kBf16, Precision::kFp8});
    plan.sharding =
        DrawOf({Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull});
    plan.replicas = DrawOf<int64_t>({1, 1, 2});
    plan.micro_batch = DrawOf<int64_t>({1, 2, 4});
    plan.global_batch = plan.micro_batch * plan.degrees.data * DrawOf<int64_t>({1, 4, 8, 24});
    plan.sequence = DrawOf<int64_t>({4096, 8192});
    RandomSwitches(sample.launch);
    sample.environment.device_connections = DrawOf<int64_t>({0, 1, 8});
    sample.environment.cuda_major = DrawOf<int64_t>({9, 10});
    sample.environment.expandable_segments = Coin();
    sample.gpus = plan.degrees.Gpus();
    if (CheckDegrees(plan).ok() &&
        CheckLaunch(sample.model, sample.launch, sample.environment, sample.gpus).empty()) {
      return sample;
    }
  }
  RC_FAIL("no legal launch in a thousand");
}

RC_GTEST_PROP(EmitProperty, MegatronReadsBackAndChecksOut, ()) {
  const LaunchSample sample = RandomLaunch(Framework::kMegatron);
  const std::vector<std::string> arguments = ArgumentsOf(EmitMegatron(sample.launch));
  const auto parsed = ParseMegatron(ReadArguments(arguments, MegatronSwitches()), sample.gpus);
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == sample.launch);
  const Complaints complaints =
      MegatronComplaints(arguments, sample.model, sample.environment, sample.gpus);
  RC_LOG() << fmt::format("{}\n{}\n", fmt::join(arguments, " "), fmt::join(complaints, "; "));
  RC_ASSERT(complaints == Complaints());
}

RC_GTEST_PROP(EmitProperty, BridgeReadsBack, ()) {
  const LaunchSample sample = RandomLaunch(Framework::kMegatron);
  const auto parsed =
      ParseBridge(ReadOverrides(OverridesOf(EmitBridge(sample.launch))), sample.gpus);
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == sample.launch);
}

RC_GTEST_PROP(EmitProperty, DeepSpeedReadsBackAndChecksOut, ()) {
  const LaunchSample sample = RandomLaunch(Framework::kDeepSpeed);
  const std::string text = JsonOf(EmitDeepSpeed(sample.launch));
  const auto fields = ParseNestedJson(text);
  RC_ASSERT(fields.ok());
  const auto parsed =
      ParseDeepSpeed(*fields, {.gpus = sample.gpus, .sequence = sample.launch.plan.sequence});
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == sample.launch);
  RC_ASSERT(DeepSpeedComplaints(text, sample.model, sample.gpus) == Complaints());
}

RC_GTEST_PROP(EmitProperty, TorchTitanReadsBackAndChecksOut, ()) {
  const LaunchSample sample = RandomLaunch(Framework::kTorchTitan);
  const std::string text = TomlOf(EmitTorchTitan(sample.model, sample.launch));
  const auto fields = ParseToml(text);
  RC_ASSERT(fields.ok());
  const auto parsed = ParseTorchTitan(sample.model, *fields);
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == sample.launch);
  const Complaints complaints = TorchTitanComplaints(text, sample.model, sample.gpus);
  RC_LOG() << fmt::format("{}\n{}\n", text, fmt::join(complaints, "; "));
  RC_ASSERT(complaints == Complaints());
  const auto newer = ParseTorchTitan(
      sample.model,
      ReadArguments(ArgumentsOf(EmitTorchTitanArguments(sample.model, sample.launch)), {}));
  RC_ASSERT(newer.ok());
  RC_ASSERT(*newer == sample.launch);
}

RC_GTEST_PROP(EmitProperty, AccelerateReadsBackAndChecksOut, ()) {
  const LaunchSample sample = RandomLaunch(Framework::kAccelerate);
  const std::string text = YamlOf(EmitAccelerate(sample.launch, 1));
  const auto fields = ParseNestedYaml(text);
  RC_ASSERT(fields.ok());
  const auto parsed =
      ParseAccelerate(*fields, ReadArguments(ArgumentsOf(EmitTrainer(sample.launch)), {}),
                      {.sequence = sample.launch.plan.sequence});
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == sample.launch);
  RC_ASSERT(AccelerateComplaints(text, sample.model, sample.gpus) == Complaints());
}

RC_GTEST_PROP(EmitProperty, TorchrunReadsBack, ()) {
  const TorchrunCounts counts{.nodes = *rc::gen::inRange<int64_t>(1, 2000),
                              .processes = *rc::gen::inRange<int64_t>(1, 17)};
  const auto parsed = ParseTorchrun(ReadArguments(ArgumentsOf(EmitTorchrun(counts)), {}));
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == counts);
}

// The choice of switches makes a legal launch of every legal plan.
RC_GTEST_PROP(LaunchTuningProperty, NeverLeavesWhatIsAllowed, ()) {
  LaunchSample sample = RandomLaunch(DrawOf({Framework::kMegatron, Framework::kDeepSpeed,
                                             Framework::kTorchTitan, Framework::kAccelerate}));
  sample.launch.switches = {};
  const GpuSpec* gpu = FindGpu(*rc::gen::elementOf(GpuNames()));
  RC_PRE(sample.launch.plan.precision == Precision::kBf16 || gpu->cuda_major >= 9);
  const ClusterSpec cluster = {.gpu = *gpu, .levels = {{"a", 8, 450, 3}, {"b", 4096, 50, 14}}};
  const bool tight = Coin();
  const TunedLaunch tuned =
      TuneLaunch({.model = sample.model,
                  .plan = sample.launch.plan,
                  .cluster = cluster,
                  .profile = ProfileOf(Runtime::kMegatron),
                  .constants = ShippedConstants(),
                  .memory = {.device = {.high = tight ? gpu->memory_bytes : 0.0}}});
  RC_ASSERT(tuned.launch.plan == sample.launch.plan);
  for (const Violation& each :
       CheckLaunch(sample.model, tuned.launch, tuned.environment, sample.gpus)) {
    RC_LOG() << each.id << ": " << each.message << "\n";
    RC_FAIL("an illegal choice");
  }
}

TEST(EmitMegatron, ExpertTensorDegreeIsAlwaysWritten) {
  const LaunchSample sample = LegalLaunch(Framework::kMegatron);
  const std::vector<std::string> arguments = ArgumentsOf(EmitMegatron(sample.launch));
  EXPECT_THAT(arguments, testing::IsSupersetOf({"--expert-tensor-parallel-size", "1"}));
  // Absent, it is the tensor degree.
  const auto parsed = ParseMegatron(
      ReadArguments(std::vector<std::string>{"--tensor-model-parallel-size=8"}, {}), 8);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->plan.degrees.expert_tensor, 8);
}

TEST(ParseMegatron, ReadsAUsersCommand) {
  const std::vector<std::string> words = {"torchrun",
                                          "pretrain_gpt.py",
                                          "--bf16",
                                          "--num-layers",
                                          "80",
                                          "--num-layers-per-virtual-pipeline-stage",
                                          "5",
                                          "--pipeline-model-parallel-size",
                                          "4",
                                          "--recompute-granularity",
                                          "selective",
                                          "--recompute-modules",
                                          "layernorm",
                                          "mlp",
                                          "--micro-batch-size=2"};
  const auto parsed = ParseMegatron(ReadArguments(words, MegatronSwitches()), 64);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->plan.virtual_stages, 4);
  EXPECT_EQ(parsed->plan.recompute.modules, kRecomputeLayerNorm | kRecomputeMlp);
  EXPECT_EQ(parsed->plan.micro_batch, 2);
  EXPECT_EQ(parsed->plan.degrees.data, 16);
}

TEST(ParseMegatron, NamesOptionAndRemedy) {
  const auto message = [](std::vector<std::string> words) {
    return std::string(
        ParseMegatron(ReadArguments(words, MegatronSwitches()), 64).status().message());
  };
  EXPECT_THAT(message({"--tensor-model-parallel-size", "eight"}),
              HasSubstr("tensor-model-parallel-size"));
  EXPECT_THAT(message({"--recompute-granularity", "selective", "--recompute-modules", "all"}),
              HasSubstr("recompute-modules: \"all\" is not known: use one of core_attn"));
  EXPECT_THAT(message({"--recompute-granularity", "full"}), HasSubstr("use uniform or block"));
  EXPECT_THAT(message({"--use-torch-fsdp2", "--use-distributed-optimizer"}), HasSubstr("keep one"));
}

TEST(ParseDeepSpeed, RefusesBatchesThatDoNotMultiplyOut) {
  const auto fields = ParseNestedJson(
      R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 2,
          "gradient_accumulation_steps": 4})");
  ASSERT_TRUE(fields.ok());
  EXPECT_THAT(std::string(ParseDeepSpeed(*fields, {.gpus = 8}).status().message()),
              HasSubstr("train_batch_size: 100 is not micro-batch x accumulation x data = 2 x 4 x "
                        "8 = 64"));
}

TEST(ParseTorchrun, TakesTheUpperEndOfARange) {
  const auto parsed = ParseTorchrun(
      ReadArguments(std::vector<std::string>{"--nnodes=1:4", "--nproc_per_node", "8"}, {}));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, (TorchrunCounts{4, 8}));
}

}  // namespace
}  // namespace asterism::planner
