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

struct IllegalLaunch {
  friend void PrintTo(const IllegalLaunch& illegal, std::ostream* out) { *out << illegal.id; }

  const char* id;
  Framework framework;
  void (*change)(ParallelPlan&, LaunchSwitches&, LaunchSample&);
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
  GetParam().change(sample.launch.plan, sample.launch.switches, sample);
  ASSERT_TRUE(CheckDegrees(sample.launch.plan).ok());
  EXPECT_THAT(IdsOfLaunch(sample), Contains(GetParam().id));
}

#define CHANGE [](ParallelPlan & p, LaunchSwitches & s, LaunchSample & w)
#define UNUSED (void)p, (void)s, (void)w

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

const IllegalLaunch kIllegal[] = {{"switch.known", kMegatron, CHANGE{UNUSED;
s.compile = true;
}  // namespace
}  // namespace asterism::planner
, {"switch.known", kMegatron, CHANGE{UNUSED;
s.quantized_weights = true;
}
}
, {"switch.known", kMegatron, CHANGE{UNUSED;
s.parameter_offload = true;
}
}
, {"switch.known", kDeepSpeed, CHANGE{UNUSED;
s.overlap_parameters = true;
}
}
, {"switch.known", kDeepSpeed, CHANGE{UNUSED;
s.cuda_graphs = CudaGraphs::kLocal;
}
}
, {"switch.known", kDeepSpeed, CHANGE{UNUSED;
s.grouped_gemm = true;
}
}
, {"switch.known", kTorchTitan, CHANGE{UNUSED;
s.megatron_fsdp = true;
}
}
, {"switch.known", kTorchTitan, CHANGE{UNUSED;
s.optimizer_offload_percent = 50;
}
}
, {"switch.known", kAccelerate, CHANGE{UNUSED;
s.overlap_tensor = true;
}
}
, {"switch.known", kAccelerate, CHANGE{UNUSED;
s.pipeline_before_data = true;
}
}
, {"overlap.tp_needs_sp", kMegatron, CHANGE{UNUSED;
p.sequence_parallel = false;
s.overlap_tensor = true;
}
}
, {"overlap.tp_needs_sp", kTorchTitan, CHANGE{UNUSED;
p.sequence_parallel = false;
s.overlap_tensor = s.compile = true;
}
}
, {"overlap.tp_needs_tp", kDeepSpeed, CHANGE{UNUSED;
p.degrees = {.tensor = 1, .pipeline = 4, .data = 16};
s.overlap_tensor = true;
}
}
, {"overlap.tp_compile", kTorchTitan, CHANGE{UNUSED;
s.overlap_tensor = true;
}
}
, {"overlap.param_gather", kMegatron, CHANGE{UNUSED;
s.overlap_gradients = s.overlap_parameters = true;
}
}
, {"overlap.param_gather", kMegatron, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
s.overlap_parameters = true;
}
}
, {"overlap.ep", kMegatron, CHANGE{UNUSED;
s.overlap_experts = true;
}
}
, {"overlap.ep", kMegatron, CHANGE{UNUSED;
WithExperts(w);
s.overlap_experts = true;
}
}
, {"overlap.ep", kMegatron, CHANGE{UNUSED;
WithExperts(w);
p.degrees = {.tensor = 1, .data = 64, .expert = 4};
p.sequence_parallel = false;
p.recompute.mode = RecomputeMode::kFull;
s.overlap_experts = true;
}
}
, {"overlap.ep", kMegatron, CHANGE{UNUSED;
WithExperts(w);
Interleave(p);
s.overlap_experts = s.overlap_shared_experts = true;
}
}
, {"overlap.ep", kMegatron, CHANGE{UNUSED;
WithExperts(w);
Interleave(p);
s.overlap_experts = true;
s.expert_dispatch = ExpertDispatch::kAllGather;
}
}
, {"overlap.wgrad", kMegatron, CHANGE{UNUSED;
s.delay_weight_gradients = true;
}
}
, {"overlap.pp_blocking", kMegatron, CHANGE{UNUSED;
Interleave(p);
p.degrees = {.tensor = 4, .pipeline = 2, .data = 8};
s.blocking_pipeline = true;
}
}
, {"overlap.pp_fill", kMegatron, CHANGE{UNUSED;
s.overlap_pipeline_fill = true;
}
}
, {"overlap.pp_fill", kMegatron, CHANGE{UNUSED;
Interleave(p);
s.overlap_pipeline_fill = s.blocking_pipeline = true;
}
}
, {"experts.switches", kMegatron, CHANGE{UNUSED;
s.grouped_gemm = true;
}
}
, {"experts.switches", kMegatron, CHANGE{UNUSED;
s.expert_dispatch = ExpertDispatch::kFlex;
}
}
, {"recompute.grouped", kMegatron, CHANGE{UNUSED;
WithExperts(w);
s.grouped_gemm = false;
p.recompute = {.mode = RecomputeMode::kModules, .modules = kRecomputeMoeActivation};
}
}
, {"recompute.module", kMegatron, CHANGE{UNUSED;
p.recompute = {.mode = RecomputeMode::kModules};
}
}
, {"recompute.module", kMegatron, CHANGE{UNUSED;
p.recompute = {.mode = RecomputeMode::kSelective, .modules = kRecomputeMlp};
}
}
, {"fsdp.gradients", kMegatron, CHANGE{UNUSED;
p.sharding = Sharding::kGradients;
}
}
, {"fsdp.sharding", kMegatron, CHANGE{UNUSED;
s.megatron_fsdp = true;
s.checkpoint = CheckpointFormat::kFsdpDtensor;
}
}
, {"fsdp.torch", kMegatron, CHANGE{UNUSED;
p.sharding = Sharding::kFull;
s.checkpoint = CheckpointFormat::kTorchDist;
}
}
, {"fsdp.tied", kMegatron, CHANGE{UNUSED;
w.model.tied_embeddings = true;
p.degrees = {.tensor = 4, .data = 16};
p.sharding = Sharding::kFull;
}
}
, {"fsdp.checkpoint", kMegatron, CHANGE{UNUSED;
s.checkpoint = CheckpointFormat::kFsdpDtensor;
}
}
, {"fsdp.checkpoint", kMegatron, CHANGE{UNUSED;
p.sharding = Sharding::kGradients;
s.megatron_fsdp = true;
}
}
, {"fsdp.connections", kMegatron, CHANGE{UNUSED;
p.sharding = Sharding::kGradients;
s.megatron_fsdp = true;
s.checkpoint = CheckpointFormat::kFsdpDtensor;
}
}
, {"tp.connections", kMegatron, CHANGE{UNUSED;
w.environment.device_connections = 0;
}
}
, {"tp.connections", kMegatron, CHANGE{UNUSED;
p.degrees = {.pipeline = 4, .context = 2, .data = 8};
p.sequence_parallel = false;
w.environment.device_connections = 8;
}
}
, {"offload.cpu", kMegatron, CHANGE{UNUSED;
s.activation_offload = true;
}
}
, {"offload.range", kMegatron, CHANGE{UNUSED;
s.optimizer_offload_percent = 101;
}
}
, {"offload.range", kDeepSpeed, CHANGE{UNUSED;
s.optimizer_offload_percent = -1;
}
}
, {"offload.optimizer", kMegatron, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
s.optimizer_offload_percent = 50;
}
}
, {"offload.optimizer", kMegatron, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
p.precision = Precision::kFp8;
s.fp8 = Fp8Recipe::kTensorwise;
s.fp8_parameters = s.precise_optimizer = true;
s.optimizer_offload_percent = 50;
}
}
, {"optimizer.precise", kMegatron, CHANGE{UNUSED;
s.precise_optimizer = true;
}
}
, {"fp8.recipe", kMegatron, CHANGE{UNUSED;
p.precision = Precision::kFp8;
}
}
, {"fp8.recipe", kTorchTitan, CHANGE{UNUSED;
s.fp8 = Fp8Recipe::kTensorwise;
}
}
, {"fp8.recipe", kAccelerate, CHANGE{UNUSED;
p.precision = Precision::kFp8;
}
}
, {"fp8.parameters", kMegatron, CHANGE{UNUSED;
s.fp8_parameters = true;
}
}
, {"fp8.parameters", kMegatron, CHANGE{UNUSED;
p.precision = Precision::kFp8;
s.fp8 = Fp8Recipe::kDelayed;
s.fp8_parameters = true;
}
}
, {"fp8.gpu", kMegatron, CHANGE{UNUSED;
w.environment.cuda_major = 8;
p.precision = Precision::kFp8;
s.fp8 = Fp8Recipe::kDelayed;
}
}
, {"fp8.gpu", kMegatron, CHANGE{UNUSED;
p.precision = Precision::kFp8;
s.fp8 = Fp8Recipe::kMxfp8;
}
}
, {"fp8.torch_recipe", kTorchTitan, CHANGE{UNUSED;
p.precision = Precision::kFp8;
s.fp8 = Fp8Recipe::kDelayed;
}
}
, {"fp8.known", kDeepSpeed, CHANGE{UNUSED;
p.precision = Precision::kFp8;
}
}
, {"graphs.recompute", kMegatron, CHANGE{UNUSED;
p.recompute.mode = RecomputeMode::kFull;
s.cuda_graphs = CudaGraphs::kTransformerEngine;
}
}
, {"graphs.segments", kMegatron, CHANGE{UNUSED;
s.cuda_graphs = CudaGraphs::kLocal;
w.environment.expandable_segments = true;
}
}
, {"zero.offload", kDeepSpeed, CHANGE{UNUSED;
s.optimizer_offload_percent = 100;
}
}
, {"zero.offload", kDeepSpeed, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
s.parameter_offload = true;
}
}
, {"zero.quantized", kDeepSpeed, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
s.quantized_gradients = true;
}
}
, {"fsdp.offload", kTorchTitan, CHANGE{UNUSED;
p.sharding = Sharding::kNone;
s.parameter_offload = true;
}
}
, {"schedule.known", kMegatron, CHANGE{UNUSED;
p.schedule = Schedule::kZeroBubbleV;
}
}
, {"schedule.known", kMegatron, CHANGE{UNUSED;
p.virtual_stages = 5;
}
}
, {"schedule.known", kTorchTitan, CHANGE{UNUSED;
p.schedule = Schedule::kZeroBubble2p;
}
}
, {"schedule.known", kDeepSpeed, CHANGE{UNUSED;
p.schedule = Schedule::kInterleaved;
}
}
, {"vpp.known", kDeepSpeed, CHANGE{UNUSED;
Interleave(p);
}
}
, {"vpp.group_known", kTorchTitan, CHANGE{UNUSED;
p.group_size = 4;
}
}
, {"layers.given", kTorchTitan, CHANGE{UNUSED;
p.first_layers = 19;
}
}
, {"layers.counted_ends", kDeepSpeed, CHANGE{UNUSED;
p.count_loss = true;
}
}
, {"layers.stage", kTorchTitan, CHANGE{UNUSED;
p.schedule = Schedule::kInterleaved;
p.virtual_stages = 12;
}
}
, {"cp.kind", kDeepSpeed, CHANGE{UNUSED;
p.degrees = {.tensor = 4, .context = 2, .data = 8};
}
}
, {"cp.kind", kTorchTitan, CHANGE{UNUSED;
p.context_exchange = ContextExchange::kAllGather;
}
}
, {"cp.kind", kAccelerate, CHANGE{UNUSED;
p.degrees = {.tensor = 4, .context = 2, .data = 8};
p.context_exchange = ContextExchange::kAllToAll;
}
}
, {"shard.known", kTorchTitan, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
}
}
, {"shard.known", kAccelerate, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
}
}
, {"shard.replicas_known", kMegatron, CHANGE{UNUSED;
p.replicas = 2;
}
}
, {"shard.replicas_known", kDeepSpeed, CHANGE{UNUSED;
p.sharding = Sharding::kOptimizer;
p.replicas = 2;
}
}
, {"shard.replicas", kTorchTitan, CHANGE{UNUSED;
p.degrees = {.tensor = 4, .context = 4, .data = 4};
p.replicas = 8;
}
}
, {"ep.known", kDeepSpeed, CHANGE{UNUSED;
WithExperts(w);
}
}
, {"ep.known", kTorchTitan, CHANGE{UNUSED;
p.degrees.expert_tensor = 2;
}
}
, {"sp.known", kDeepSpeed, CHANGE{UNUSED;
p.sequence_parallel = true;
}
}
, {"recompute.known", kDeepSpeed, CHANGE{UNUSED;
p.recompute.mode = RecomputeMode::kSelective;
}
}
, {"recompute.known", kTorchTitan, CHANGE{UNUSED;
p.recompute = {.mode = RecomputeMode::kFull, .layers = 3};
}
}
, {"recompute.known", kAccelerate, CHANGE{UNUSED;
p.degrees = {.data = 64};
p.sharding = Sharding::kNone;
p.recompute.mode = RecomputeMode::kFull;
}
}
, {"tp_cp.replicate", kAccelerate, CHANGE{UNUSED;
p.sharding = Sharding::kNone;
}
}
,
}
;

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
