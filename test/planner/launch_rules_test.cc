// Launches that a framework refuses, each with the rule that says why.

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/constraints.h"
#include "test/planner/launch_sample.h"

namespace asterism::planner {
namespace {

using testing::Contains;
using testing::IsEmpty;

constexpr Framework kMegatron = Framework::kMegatron;
constexpr Framework kDeepSpeed = Framework::kDeepSpeed;
constexpr Framework kTorchTitan = Framework::kTorchTitan;
constexpr Framework kAccelerate = Framework::kAccelerate;

struct LaunchChange {
  ParallelPlan& plan;
  LaunchSwitches& switches;
  LaunchSample& sample;
};

struct IllegalLaunch {
  friend void PrintTo(const IllegalLaunch& illegal, std::ostream* out) { *out << illegal.id; }

  const char* id;
  Framework framework;
  void (*change)(LaunchChange);
};

std::vector<std::string_view> IdsOfLaunch(const LaunchSample& sample) {
  std::vector<std::string_view> ids;
  for (const Violation& each :
       CheckLaunch(sample.model, sample.launch, sample.environment, sample.gpus)) {
    ids.push_back(each.id);
    EXPECT_FALSE(each.message.empty());
  }
  return ids;
}

class IllegalLaunches : public testing::TestWithParam<IllegalLaunch> {};

TEST_P(IllegalLaunches, AreRefusedByName) {
  LaunchSample sample = LegalLaunch(GetParam().framework);
  ASSERT_THAT(IdsOfLaunch(sample), IsEmpty());
  GetParam().change({sample.launch.plan, sample.launch.switches, sample});
  ASSERT_TRUE(CheckDegrees(sample.launch.plan).ok());
  EXPECT_THAT(IdsOfLaunch(sample), Contains(GetParam().id));
}

void Interleave(ParallelPlan& plan) {
  plan.schedule = Schedule::kInterleaved;
  plan.virtual_stages = 5;
}

void WithExperts(LaunchSample& sample) {
  sample.model = *FindModelPreset("qwen3-30b-a3b");
  sample.launch.plan.degrees.expert = 4;
  sample.launch.switches.grouped_gemm = true;
  sample.launch.switches.expert_dispatch = ExpertDispatch::kAllToAll;
}

const IllegalLaunch kIllegal[] = {
    {"switch.known", kMegatron, [](LaunchChange c) { c.switches.compile = true; }},
    {"switch.known", kMegatron, [](LaunchChange c) { c.switches.quantized_weights = true; }},
    {"switch.known", kMegatron, [](LaunchChange c) { c.switches.parameter_offload = true; }},
    {"switch.known", kDeepSpeed, [](LaunchChange c) { c.switches.overlap_parameters = true; }},
    {"switch.known", kDeepSpeed,
     [](LaunchChange c) { c.switches.cuda_graphs = CudaGraphs::kLocal; }},
    {"switch.known", kDeepSpeed, [](LaunchChange c) { c.switches.grouped_gemm = true; }},
    {"switch.known", kTorchTitan, [](LaunchChange c) { c.switches.megatron_fsdp = true; }},
    {"switch.known", kTorchTitan,
     [](LaunchChange c) { c.switches.optimizer_offload_percent = 50; }},
    {"switch.known", kAccelerate, [](LaunchChange c) { c.switches.overlap_tensor = true; }},
    {"switch.known", kAccelerate, [](LaunchChange c) { c.switches.pipeline_before_data = true; }},
    {"overlap.tp_needs_sp", kMegatron,
     [](LaunchChange c) {
       c.plan.sequence_parallel = false;
       c.switches.overlap_tensor = true;
     }},
    {"overlap.tp_needs_sp", kTorchTitan,
     [](LaunchChange c) {
       c.plan.sequence_parallel = false;
       c.switches.overlap_tensor = c.switches.compile = true;
     }},
    {"overlap.tp_needs_tp", kDeepSpeed,
     [](LaunchChange c) {
       c.plan.degrees = {.tensor = 1, .pipeline = 4, .data = 16};
       c.switches.overlap_tensor = true;
     }},
    {"overlap.tp_compile", kTorchTitan, [](LaunchChange c) { c.switches.overlap_tensor = true; }},
    {"overlap.param_gather", kMegatron,
     [](LaunchChange c) { c.switches.overlap_gradients = c.switches.overlap_parameters = true; }},
    {"overlap.param_gather", kMegatron,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kOptimizer;
       c.switches.overlap_parameters = true;
     }},
    {"overlap.ep", kMegatron, [](LaunchChange c) { c.switches.overlap_experts = true; }},
    {"overlap.ep", kMegatron,
     [](LaunchChange c) {
       WithExperts(c.sample);
       c.switches.overlap_experts = true;
     }},
    {"overlap.ep", kMegatron,
     [](LaunchChange c) {
       WithExperts(c.sample);
       c.plan.degrees = {.tensor = 1, .data = 64, .expert = 4};
       c.plan.sequence_parallel = false;
       c.plan.recompute.mode = RecomputeMode::kFull;
       c.switches.overlap_experts = true;
     }},
    {"overlap.ep", kMegatron,
     [](LaunchChange c) {
       WithExperts(c.sample);
       Interleave(c.plan);
       c.switches.overlap_experts = c.switches.overlap_shared_experts = true;
     }},
    {"overlap.ep", kMegatron,
     [](LaunchChange c) {
       WithExperts(c.sample);
       Interleave(c.plan);
       c.switches.overlap_experts = true;
       c.switches.expert_dispatch = ExpertDispatch::kAllGather;
     }},
    {"overlap.wgrad", kMegatron, [](LaunchChange c) { c.switches.delay_weight_gradients = true; }},
    {"overlap.pp_blocking", kMegatron,
     [](LaunchChange c) {
       Interleave(c.plan);
       c.plan.degrees = {.tensor = 4, .pipeline = 2, .data = 8};
       c.switches.blocking_pipeline = true;
     }},
    {"overlap.pp_fill", kMegatron, [](LaunchChange c) { c.switches.overlap_pipeline_fill = true; }},
    {"overlap.pp_fill", kMegatron,
     [](LaunchChange c) {
       Interleave(c.plan);
       c.switches.overlap_pipeline_fill = c.switches.blocking_pipeline = true;
     }},
    {"experts.switches", kMegatron, [](LaunchChange c) { c.switches.grouped_gemm = true; }},
    {"experts.switches", kMegatron,
     [](LaunchChange c) { c.switches.expert_dispatch = ExpertDispatch::kFlex; }},
    {"recompute.grouped", kMegatron,
     [](LaunchChange c) {
       WithExperts(c.sample);
       c.switches.grouped_gemm = false;
       c.plan.recompute = {.mode = RecomputeMode::kModules, .modules = kRecomputeMoeActivation};
     }},
    {"recompute.module", kMegatron,
     [](LaunchChange c) { c.plan.recompute = {.mode = RecomputeMode::kModules}; }},
    {"recompute.module", kMegatron,
     [](LaunchChange c) {
       c.plan.recompute = {.mode = RecomputeMode::kSelective, .modules = kRecomputeMlp};
     }},
    {"fsdp.gradients", kMegatron, [](LaunchChange c) { c.plan.sharding = Sharding::kGradients; }},
    {"fsdp.sharding", kMegatron,
     [](LaunchChange c) {
       c.switches.megatron_fsdp = true;
       c.switches.checkpoint = CheckpointFormat::kFsdpDtensor;
     }},
    {"fsdp.torch", kMegatron,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kFull;
       c.switches.checkpoint = CheckpointFormat::kTorchDist;
     }},
    {"fsdp.tied", kMegatron,
     [](LaunchChange c) {
       c.sample.model.tied_embeddings = true;
       c.plan.degrees = {.tensor = 4, .data = 16};
       c.plan.sharding = Sharding::kFull;
     }},
    {"fsdp.checkpoint", kMegatron,
     [](LaunchChange c) { c.switches.checkpoint = CheckpointFormat::kFsdpDtensor; }},
    {"fsdp.checkpoint", kMegatron,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kGradients;
       c.switches.megatron_fsdp = true;
     }},
    {"fsdp.connections", kMegatron,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kGradients;
       c.switches.megatron_fsdp = true;
       c.switches.checkpoint = CheckpointFormat::kFsdpDtensor;
     }},
    {"tp.connections", kMegatron,
     [](LaunchChange c) { c.sample.environment.device_connections = 0; }},
    {"tp.connections", kMegatron,
     [](LaunchChange c) {
       c.plan.degrees = {.pipeline = 4, .context = 2, .data = 8};
       c.plan.sequence_parallel = false;
       c.sample.environment.device_connections = 8;
     }},
    {"offload.cpu", kMegatron, [](LaunchChange c) { c.switches.activation_offload = true; }},
    {"offload.range", kMegatron,
     [](LaunchChange c) { c.switches.optimizer_offload_percent = 101; }},
    {"offload.range", kDeepSpeed,
     [](LaunchChange c) { c.switches.optimizer_offload_percent = -1; }},
    {"offload.optimizer", kMegatron,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kOptimizer;
       c.switches.optimizer_offload_percent = 50;
     }},
    {"offload.optimizer", kMegatron,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kOptimizer;
       c.plan.precision = Precision::kFp8;
       c.switches.fp8 = Fp8Recipe::kTensorwise;
       c.switches.fp8_parameters = c.switches.precise_optimizer = true;
       c.switches.optimizer_offload_percent = 50;
     }},
    {"optimizer.precise", kMegatron, [](LaunchChange c) { c.switches.precise_optimizer = true; }},
    {"fp8.recipe", kMegatron, [](LaunchChange c) { c.plan.precision = Precision::kFp8; }},
    {"fp8.recipe", kTorchTitan, [](LaunchChange c) { c.switches.fp8 = Fp8Recipe::kTensorwise; }},
    {"fp8.recipe", kAccelerate, [](LaunchChange c) { c.plan.precision = Precision::kFp8; }},
    {"fp8.parameters", kMegatron, [](LaunchChange c) { c.switches.fp8_parameters = true; }},
    {"fp8.parameters", kMegatron,
     [](LaunchChange c) {
       c.plan.precision = Precision::kFp8;
       c.switches.fp8 = Fp8Recipe::kDelayed;
       c.switches.fp8_parameters = true;
     }},
    {"fp8.gpu", kMegatron,
     [](LaunchChange c) {
       c.sample.environment.cuda_major = 8;
       c.plan.precision = Precision::kFp8;
       c.switches.fp8 = Fp8Recipe::kDelayed;
     }},
    {"fp8.gpu", kMegatron,
     [](LaunchChange c) {
       c.plan.precision = Precision::kFp8;
       c.switches.fp8 = Fp8Recipe::kMxfp8;
     }},
    {"fp8.torch_recipe", kTorchTitan,
     [](LaunchChange c) {
       c.plan.precision = Precision::kFp8;
       c.switches.fp8 = Fp8Recipe::kDelayed;
     }},
    {"zero.autotp", kDeepSpeed,
     [](LaunchChange c) {
       c.plan.degrees = {.tensor = 4, .data = 16};
       c.plan.sharding = Sharding::kFull;
     }},
    {"fp8.known", kDeepSpeed, [](LaunchChange c) { c.plan.precision = Precision::kFp8; }},
    {"graphs.recompute", kMegatron,
     [](LaunchChange c) {
       c.plan.recompute.mode = RecomputeMode::kFull;
       c.switches.cuda_graphs = CudaGraphs::kTransformerEngine;
     }},
    {"graphs.segments", kMegatron,
     [](LaunchChange c) {
       c.switches.cuda_graphs = CudaGraphs::kLocal;
       c.sample.environment.expandable_segments = true;
     }},
    {"zero.offload", kDeepSpeed,
     [](LaunchChange c) { c.switches.optimizer_offload_percent = 100; }},
    {"zero.offload", kDeepSpeed,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kOptimizer;
       c.switches.parameter_offload = true;
     }},
    {"zero.quantized", kDeepSpeed,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kOptimizer;
       c.switches.quantized_gradients = true;
     }},
    {"fsdp.offload", kTorchTitan,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kNone;
       c.switches.parameter_offload = true;
     }},
    {"schedule.known", kMegatron, [](LaunchChange c) { c.plan.schedule = Schedule::kZeroBubbleV; }},
    {"schedule.known", kMegatron, [](LaunchChange c) { c.plan.virtual_stages = 5; }},
    {"schedule.known", kTorchTitan,
     [](LaunchChange c) { c.plan.schedule = Schedule::kZeroBubble2p; }},
    {"schedule.known", kDeepSpeed,
     [](LaunchChange c) { c.plan.schedule = Schedule::kInterleaved; }},
    {"vpp.known", kDeepSpeed, [](LaunchChange c) { Interleave(c.plan); }},
    {"vpp.group_known", kTorchTitan, [](LaunchChange c) { c.plan.group_size = 4; }},
    {"layers.given", kTorchTitan, [](LaunchChange c) { c.plan.first_layers = 19; }},
    {"layers.counted_ends", kDeepSpeed, [](LaunchChange c) { c.plan.count_loss = true; }},
    {"layers.stage", kTorchTitan,
     [](LaunchChange c) {
       c.plan.schedule = Schedule::kInterleaved;
       c.plan.virtual_stages = 12;
     }},
    {"cp.kind", kDeepSpeed,
     [](LaunchChange c) { c.plan.degrees = {.tensor = 4, .context = 2, .data = 8}; }},
    {"cp.kind", kTorchTitan,
     [](LaunchChange c) { c.plan.context_exchange = ContextExchange::kAllGather; }},
    {"cp.kind", kAccelerate,
     [](LaunchChange c) {
       c.plan.degrees = {.tensor = 4, .context = 2, .data = 8};
       c.plan.context_exchange = ContextExchange::kAllToAll;
     }},
    {"shard.known", kTorchTitan, [](LaunchChange c) { c.plan.sharding = Sharding::kOptimizer; }},
    {"shard.known", kAccelerate, [](LaunchChange c) { c.plan.sharding = Sharding::kOptimizer; }},
    {"shard.replicas_known", kMegatron, [](LaunchChange c) { c.plan.replicas = 2; }},
    {"shard.replicas_known", kDeepSpeed,
     [](LaunchChange c) {
       c.plan.sharding = Sharding::kOptimizer;
       c.plan.replicas = 2;
     }},
    {"shard.replicas", kTorchTitan,
     [](LaunchChange c) {
       c.plan.degrees = {.tensor = 4, .context = 4, .data = 4};
       c.plan.replicas = 8;
     }},
    {"ep.known", kDeepSpeed, [](LaunchChange c) { WithExperts(c.sample); }},
    {"ep.known", kTorchTitan, [](LaunchChange c) { c.plan.degrees.expert_tensor = 2; }},
    {"sp.known", kDeepSpeed, [](LaunchChange c) { c.plan.sequence_parallel = true; }},
    {"recompute.known", kDeepSpeed,
     [](LaunchChange c) { c.plan.recompute.mode = RecomputeMode::kSelective; }},
    {"recompute.known", kTorchTitan,
     [](LaunchChange c) { c.plan.recompute = {.mode = RecomputeMode::kFull, .layers = 3}; }},
    {"recompute.known", kAccelerate,
     [](LaunchChange c) {
       c.plan.degrees = {.data = 64};
       c.plan.sharding = Sharding::kNone;
       c.plan.recompute.mode = RecomputeMode::kFull;
     }},
    {"tp_cp.replicate", kAccelerate, [](LaunchChange c) { c.plan.sharding = Sharding::kNone; }},
};

INSTANTIATE_TEST_SUITE_P(Switches, IllegalLaunches, testing::ValuesIn(kIllegal));

// Of the rows on features and switches; those on plans are in constraints_test.cc.
TEST(LaunchRules, EveryRuleOfAFeatureOrASwitchHasAnIllegalLaunch) {
  std::set<std::string_view> met;
  for (const IllegalLaunch& each : kIllegal) {
    met.insert(each.id);
  }
  for (const Framework framework : {kMegatron, kDeepSpeed, kTorchTitan, kAccelerate}) {
    const std::vector<std::string_view> ids = ConstraintIds(framework);
    const auto first = std::find(ids.begin(), ids.end(), "schedule.known");
    ASSERT_NE(first, ids.end());
    for (auto id = first; id != ids.end(); ++id) {
      EXPECT_TRUE(met.contains(*id)) << *id;
    }
  }
  EXPECT_GE(std::size(kIllegal), 60U);
}

}  // namespace
}  // namespace asterism::planner
