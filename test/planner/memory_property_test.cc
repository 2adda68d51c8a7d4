// What must hold of the memory model for any model and plan.

#include "gtest/gtest.h"
#include "planner/constraints.h"
#include "planner/memory_model.h"
#include "planner/model_presets.h"
#include "planner/schedule.h"
#include "planner/stage_layout.h"
#include "rapidcheck/gtest.h"

namespace asterism::planner {
namespace {

template <typename Value>
Value AnyOf(std::initializer_list<Value> values) {
  return *rc::gen::elementOf(std::vector<Value>(values));
}

Runtime AnyRuntime() {
  return AnyOf({Runtime::kMegatron, Runtime::kMegatron2022, Runtime::kDeepSpeedFp16,
                Runtime::kTorchTitan, Runtime::kKempnerForge});
}

ModelSpec AnyModel() {
  ModelSpec model = *FindModelPreset(*rc::gen::elementOf(ModelPresetNames()));
  model.layers = *rc::gen::inRange<int64_t>(4, 130);
  model.mtp_depth = AnyOf<int64_t>({0, 0, 1});
  return model;
}

ParallelPlan AnyPlan(const ModelSpec& model) {
  ParallelPlan plan;
  plan.degrees.tensor = AnyOf<int64_t>({1, 2, 4, 8});
  plan.degrees.pipeline = AnyOf<int64_t>({1, 2, 4});
  plan.degrees.context = AnyOf<int64_t>({1, 2});
  plan.degrees.data = AnyOf<int64_t>({8, 16, 64});
  plan.degrees.expert = model.experts.count > 0 ? AnyOf<int64_t>({1, 2, 8}) : 1;
  plan.sequence_parallel = plan.degrees.tensor > 1 && AnyOf({false, true});
  plan.schedule = AnyOf({Schedule::kGPipe, Schedule::kOneForwardOneBackward,
                         Schedule::kZeroBubbleH1, Schedule::kZeroBubble2p, Schedule::kZeroBubbleV});
  plan.sharding =
      AnyOf({Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull});
  plan.sequence = AnyOf<int64_t>({2048, 8192});
  plan.micro_batch = AnyOf<int64_t>({1, 2, 4});
  plan.global_batch = plan.micro_batch * plan.degrees.data * AnyOf<int64_t>({1, 4, 32});
  return plan;
}

double Allocated(const ModelSpec& model, const ParallelPlan& plan, Runtime runtime) {
  return EstimateMemory(model, plan, ProfileOf(runtime)).allocated();
}

RC_GTEST_PROP(MemoryProperty, StagesHoldEveryParameterOnce, ()) {
  const ModelSpec model = AnyModel();
  ParallelPlan plan = AnyPlan(model);
  plan.degrees.tensor = 1;
  plan.degrees.expert = 1;
  double held = 0;
  for (const StageMemory& stage :
       EstimateMemory(model, plan, ProfileOf(Runtime::kMegatron)).stages) {
    held += stage.parameters;
  }
  const bool second_copy = model.tied_embeddings && plan.degrees.pipeline > 1;
  const int64_t copy = second_copy ? model.vocabulary * model.hidden : 0;
  RC_ASSERT(held == static_cast<double>(CountParameters(model).total + copy));
}

RC_GTEST_PROP(MemoryProperty, LayersAreAllLaidOut, ()) {
  const ModelSpec model = AnyModel();
  ParallelPlan plan = AnyPlan(model);
  plan.virtual_stages = AnyOf<int64_t>({1, 2, 3});
  plan.count_embedding = AnyOf({false, true});
  plan.count_loss = AnyOf({false, true});
  int64_t layers = 0;
  for (const StageBlocks& stage : LayOutStages(model, plan)) {
    layers += stage.layers();
  }
  RC_ASSERT(layers == model.layers + model.mtp_depth);
}

RC_GTEST_PROP(MemoryProperty, PeakIsTheLargestStageAndTheSumOfItsTerms, ()) {
  const ModelSpec model = AnyModel();
  const MemoryEstimate memory = EstimateMemory(model, AnyPlan(model), ProfileOf(AnyRuntime()));
  for (const StageMemory& stage : memory.stages) {
    RC_ASSERT(stage.Allocated() <= memory.allocated());
    double sum = 0;
    for (const auto& [name, bytes] : stage.Terms()) {
      RC_ASSERT(bytes >= 0);
      sum += bytes;
    }
    const double other = std::min(stage.loss_moment, stage.backward_moment);
    RC_ASSERT(std::abs(sum - other - stage.Allocated()) <= 1e-9 * sum);
  }
}

RC_GTEST_PROP(MemoryProperty, DoublingDataHalvesWhatIsCutOverIt, ()) {
  ModelSpec model = AnyModel();
  ParallelPlan plan = AnyPlan(model);
  plan.sharding = Sharding::kOptimizer;
  ParallelPlan twice = plan;
  twice.degrees.data *= 2;
  twice.global_batch *= 2;
  const auto one = EstimateMemory(model, plan, ProfileOf(Runtime::kMegatron));
  const auto two = EstimateMemory(model, twice, ProfileOf(Runtime::kMegatron));
  for (size_t stage = 0; stage < one.stages.size(); ++stage) {
    const double half = one.stages[stage].optimizer / 2;
    RC_ASSERT(std::abs(two.stages[stage].optimizer - half) <= 1e-9 * half);
    RC_ASSERT(two.stages[stage].weights == one.stages[stage].weights);
    RC_ASSERT(two.stages[stage].activations == one.stages[stage].activations);
  }
}

RC_GTEST_PROP(MemoryProperty, MoreRecomputeNeverNeedsMore, ()) {
  const ModelSpec model = AnyModel();
  ParallelPlan plan = AnyPlan(model);
  // KempnerForge's full recompute keeps more of a MoE layer than its input, as measured.
  const Runtime runtime =
      AnyOf({Runtime::kMegatron, Runtime::kDeepSpeedFp16, Runtime::kTorchTitan});
  const double none = Allocated(model, plan, runtime);
  plan.recompute.mode = RecomputeMode::kSelective;
  RC_ASSERT(Allocated(model, plan, runtime) <= none * (1 + 1e-12));
  plan.recompute.mode = RecomputeMode::kModules;
  plan.recompute.modules = *rc::gen::inRange<uint32_t>(0, 128);
  RC_ASSERT(Allocated(model, plan, runtime) <= none * (1 + 1e-12));
  plan.recompute = {.mode = RecomputeMode::kFull};
  const double full = Allocated(model, plan, runtime);
  RC_ASSERT(full <= none * (1 + 1e-12));
  plan.recompute.layers = *rc::gen::inRange<int64_t>(1, 8);
  const double some = Allocated(model, plan, runtime);
  RC_ASSERT(some >= full * (1 - 1e-12));
}

RC_GTEST_PROP(MemoryProperty, MoreShardingNeverNeedsMore, ()) {
  const ModelSpec model = AnyModel();
  ParallelPlan plan = AnyPlan(model);
  const Runtime runtime = AnyRuntime();
  double before = 0;
  for (const Sharding sharding :
       {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    plan.sharding = sharding;
    const double allocated = Allocated(model, plan, runtime);
    RC_ASSERT(allocated >= before * (1 - 1e-12));
    before = allocated;
  }
}

RC_GTEST_PROP(MemoryProperty, LongerSequencesAndLargerMicroBatchesNeedMore, ()) {
  const ModelSpec model = AnyModel();
  const ParallelPlan plan = AnyPlan(model);
  const Runtime runtime = AnyRuntime();
  ParallelPlan longer = plan;
  longer.sequence *= 2;
  RC_ASSERT(Allocated(model, longer, runtime) > Allocated(model, plan, runtime));
  ParallelPlan larger = plan;
  larger.micro_batch *= 2;
  larger.global_batch *= 2;
  RC_ASSERT(Allocated(model, larger, runtime) > Allocated(model, plan, runtime));
}

RC_GTEST_PROP(MemoryProperty, InFlightIsBoundedByTheMicroBatches, ()) {
  const ModelSpec model = AnyModel();
  ParallelPlan plan = AnyPlan(model);
  plan.virtual_stages = AnyOf<int64_t>({1, 2, 4});
  if (plan.virtual_stages > 1) {
    plan.schedule = Schedule::kInterleaved;
  }
  for (int64_t stage = 0; stage < plan.degrees.pipeline; ++stage) {
    const double in_flight = InFlight(plan, stage);
    RC_ASSERT(in_flight > 0);
    RC_ASSERT(in_flight <= static_cast<double>(plan.MicroBatches()));
  }
}

RC_GTEST_PROP(ConstraintProperty, CheckingAnyPlanAnswers, ()) {
  const ModelSpec model = AnyModel();
  ParallelPlan plan = AnyPlan(model);
  plan.framework = AnyOf({Framework::kMegatron, Framework::kDeepSpeed, Framework::kTorchTitan,
                          Framework::kAccelerate});
  plan.replicas = *rc::gen::inRange<int64_t>(1, 20);
  plan.degrees.expert_tensor = *rc::gen::inRange<int64_t>(1, 5);
  plan.group_size = *rc::gen::inRange<int64_t>(0, 70);
  RC_PRE(CheckDegrees(plan).ok());
  for (const Violation& violation : CheckPlan(model, plan, *rc::gen::inRange<int64_t>(1, 2000))) {
    RC_ASSERT(!violation.id.empty());
    RC_ASSERT(!violation.message.empty());
  }
}

}  // namespace
}  // namespace asterism::planner
