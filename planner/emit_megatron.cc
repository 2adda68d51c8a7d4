#include "planner/emit_megatron.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "planner/word_table.h"

namespace asterism::planner {
namespace {

struct DegreeOption {
  std::string_view name;
  int64_t Degrees::*degree;
};
constexpr DegreeOption kDegreeOptions[] = {
    {"tensor-model-parallel-size", &Degrees::tensor},
    {"pipeline-model-parallel-size", &Degrees::pipeline},
    {"context-parallel-size", &Degrees::context},
    {"expert-model-parallel-size", &Degrees::expert},
    // Absent, it is the tensor degree and not 1: always written.
    {"expert-tensor-parallel-size", &Degrees::expert_tensor},
};

struct PlanNumber {
  std::string_view name;
  int64_t ParallelPlan::*number;
  int64_t absent;
};
constexpr PlanNumber kPlanNumbers[] = {
    {"micro-batch-size", &ParallelPlan::micro_batch, 0},
    {"global-batch-size", &ParallelPlan::global_batch, 0},
    {"seq-length", &ParallelPlan::sequence, 0},
    {"num-virtual-stages-per-pipeline-rank", &ParallelPlan::virtual_stages, 1},
    {"microbatch-group-size-per-virtual-pipeline-stage", &ParallelPlan::group_size, 0},
    {"decoder-first-pipeline-num-layers", &ParallelPlan::first_layers, 0},
    {"decoder-last-pipeline-num-layers", &ParallelPlan::last_layers, 0},
    {"num-distributed-optimizer-instances", &ParallelPlan::replicas, 1},
};

struct PlanSwitch {
  std::string_view name;
  bool ParallelPlan::*on;
};
constexpr PlanSwitch kPlanSwitches[] = {
    {"sequence-parallel", &ParallelPlan::sequence_parallel},
    {"account-for-embedding-in-pipeline-split", &ParallelPlan::count_embedding},
    {"account-for-loss-in-pipeline-split", &ParallelPlan::count_loss},
};

struct LaunchSwitch {
  std::string_view name;
  bool LaunchSwitches::*on;
};
constexpr LaunchSwitch kLaunchSwitches[] = {
    {"overlap-grad-reduce", &LaunchSwitches::overlap_gradients},
    {"overlap-param-gather", &LaunchSwitches::overlap_parameters},
    {"tp-comm-overlap", &LaunchSwitches::overlap_tensor},
    {"overlap-p2p-communication-warmup-flush", &LaunchSwitches::overlap_pipeline_fill},
    {"no-overlap-p2p-communication", &LaunchSwitches::blocking_pipeline},
    {"overlap-moe-expert-parallel-comm", &LaunchSwitches::overlap_experts},
    {"delay-wgrad-compute", &LaunchSwitches::delay_weight_gradients},
    {"moe-shared-expert-overlap", &LaunchSwitches::overlap_shared_experts},
    {"moe-grouped-gemm", &LaunchSwitches::grouped_gemm},
    {"fp8-param-gather", &LaunchSwitches::fp8_parameters},
    {"grad-reduce-in-bf16", &LaunchSwitches::narrow_gradients},
    {"use-precision-aware-optimizer", &LaunchSwitches::precise_optimizer},
    {"use-tp-pp-dp-mapping", &LaunchSwitches::pipeline_before_data},
    {"use-megatron-fsdp", &LaunchSwitches::megatron_fsdp},
    {"cpu-offloading", &LaunchSwitches::activation_offload},
};

constexpr Worded<uint32_t> kModules[] = {
    {kRecomputeCoreAttention, "core_attn"},
    {kRecomputeLayerNorm, "layernorm"},
    {kRecomputeMlp, "mlp"},
    {kRecomputeMoe, "moe"},
    {kRecomputeMoeActivation, "moe_act"},
    {kRecomputeSharedExperts, "shared_experts"},
    {kRecomputeLatentUp, "mla_up_proj"},
};
constexpr Worded<ContextExchange> kExchanges[] = {
    {ContextExchange::kRing, "p2p"},
    {ContextExchange::kAllGather, "all_gather"},
    {ContextExchange::kAllToAll, "a2a"},
};
constexpr Worded<Fp8Recipe> kRecipes[] = {
    {Fp8Recipe::kDelayed, "delayed"},
    {Fp8Recipe::kTensorwise, "tensorwise"},
    {Fp8Recipe::kBlockwise, "blockwise"},
    {Fp8Recipe::kMxfp8, "mxfp8"},
};
constexpr Worded<CudaGraphs> kGraphs[] = {
    {CudaGraphs::kNone, "none"},
    {CudaGraphs::kLocal, "local"},
    {CudaGraphs::kTransformerEngine, "transformer_engine"},
};
constexpr Worded<ExpertDispatch> kDispatchers[] = {
    {ExpertDispatch::kAllGather, "allgather"},
    {ExpertDispatch::kAllToAll, "alltoall"},
    {ExpertDispatch::kFlex, "flex"},
};
constexpr Worded<CheckpointFormat> kFormats[] = {
    {CheckpointFormat::kTorchDist, "torch_dist"},
    {CheckpointFormat::kFsdpDtensor, "fsdp_dtensor"},
};
constexpr Worded<Sharding> kStrategies[] = {
    {Sharding::kNone, "no_shard"},
    {Sharding::kOptimizer, "optim"},
    {Sharding::kGradients, "optim_grads"},
    {Sharding::kFull, "optim_grads_params"},
};

void EmitSharding(const LaunchPlan& launch, SettingList& list) {
  const Sharding sharding = launch.plan.sharding;
  list.Switch("use-distributed-optimizer", sharding == Sharding::kOptimizer);
  if (launch.switches.megatron_fsdp) {
    list.Text("data-parallel-sharding-strategy", WordOf(kStrategies, sharding));
  } else if (sharding == Sharding::kFull) {
    list.Switch("use-torch-fsdp2", true);
    list.Switch("no-gradient-accumulation-fusion", true);
  }
}

void EmitRecompute(const Recompute& recompute, SettingList& list) {
  switch (recompute.mode) {
    case RecomputeMode::kNone:
    case RecomputeMode::kOperators:
      return;
    case RecomputeMode::kSelective:
      list.Text("recompute-granularity", "selective");
      return;
    case RecomputeMode::kModules: {
      list.Text("recompute-granularity", "selective");
      std::vector<std::string> words;
      for (const Worded<uint32_t>& each : kModules) {
        if ((recompute.modules & each.value) != 0) {
          words.emplace_back(each.word);
        }
      }
      list.Words("recompute-modules", words);
      return;
    }
    case RecomputeMode::kFull:
      list.Text("recompute-granularity", "full");
      list.Text("recompute-method", recompute.layers > 0 ? "block" : "uniform");
      list.Whole("recompute-num-layers", std::max<int64_t>(1, recompute.layers));
      return;
  }
}

absl::Status ParseRecompute(const FieldTable& fields, Recompute& recompute) {
  ASSIGN_OR_RETURN(const std::string granularity, fields.TextOr("recompute-granularity", ""));
  if (granularity.empty()) {
    return absl::OkStatus();
  }
  if (granularity == "full") {
    recompute.mode = RecomputeMode::kFull;
    ASSIGN_OR_RETURN(const std::string method, fields.TextOr("recompute-method", ""));
    if (method == "block") {
      ASSIGN_OR_RETURN(recompute.layers, fields.Whole("recompute-num-layers"));
    } else if (method != "uniform") {
      return absl::InvalidArgumentError(
          "recompute-method: full recompute needs one: use uniform or block");
    }
    return absl::OkStatus();
  }
  if (granularity != "selective") {
    return absl::InvalidArgumentError(
        fmt::format("recompute-granularity: \"{}\" is not known: use full or selective",
                    granularity.substr(0, 64)));
  }
  for (const std::string_view wrong : {"recompute-method", "recompute-num-layers"}) {
    if (fields.Find(wrong) != nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("{}: goes with full recompute only: leave it out", wrong));
    }
  }
  const Field* modules = fields.Find("recompute-modules");
  recompute.mode = modules == nullptr ? RecomputeMode::kSelective : RecomputeMode::kModules;
  if (modules != nullptr) {
    for (const std::string& word : SplitWords(modules->text)) {
      ASSIGN_OR_RETURN(const uint32_t module, FromWord(kModules, "recompute-modules", word));
      recompute.modules |= module;
    }
  }
  return absl::OkStatus();
}

absl::Status ParseSharding(const FieldTable& fields, LaunchPlan& launch) {
  ASSIGN_OR_RETURN(const bool optimizer, fields.BooleanOr("use-distributed-optimizer", false));
  ASSIGN_OR_RETURN(const bool torch_fsdp, fields.BooleanOr("use-torch-fsdp2", false));
  ASSIGN_OR_RETURN(const bool megatron_fsdp, fields.BooleanOr("use-megatron-fsdp", false));
  if (int{optimizer} + int{torch_fsdp} > 1 || int{torch_fsdp} + int{megatron_fsdp} > 1) {
    return absl::InvalidArgumentError(
        "use-torch-fsdp2: excludes the distributed optimizer and Megatron's FSDP: keep one");
  }
  launch.plan.sharding = optimizer    ? Sharding::kOptimizer
                         : torch_fsdp ? Sharding::kFull
                                      : Sharding::kNone;
  if (megatron_fsdp) {
    ASSIGN_OR_RETURN(const std::string strategy,
                     fields.TextOr("data-parallel-sharding-strategy", "no_shard"));
    ASSIGN_OR_RETURN(launch.plan.sharding,
                     FromWord(kStrategies, "data-parallel-sharding-strategy", strategy));
  }
  return absl::OkStatus();
}

// Which of the two ways to say it is given; layers a stage need the model's own argument.
absl::Status ParseVirtualStages(const FieldTable& fields, ParallelPlan& plan) {
  if (fields.Find("num-layers-per-virtual-pipeline-stage") == nullptr) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int64_t each, fields.Whole("num-layers-per-virtual-pipeline-stage"));
  ASSIGN_OR_RETURN(int64_t layers, fields.WholeOr("num-layers", 0));
  layers += int64_t{plan.count_embedding} + int64_t{plan.count_loss};
  const int64_t slots = each * plan.degrees.pipeline;
  if (each < 1 || plan.degrees.pipeline < 1 || slots < 1 || layers < 1 || layers % slots != 0) {
    return absl::InvalidArgumentError(
        fmt::format("num-layers-per-virtual-pipeline-stage: {} x pipeline does not divide {} "
                    "layers: use num-virtual-stages-per-pipeline-rank",
                    each, layers));
  }
  plan.virtual_stages = layers / slots;
  return absl::OkStatus();
}

absl::Status ParsePlanNumbers(const FieldTable& fields, ParallelPlan& plan) {
  for (const DegreeOption& option : kDegreeOptions) {
    ASSIGN_OR_RETURN(plan.degrees.*option.degree, fields.WholeOr(option.name, 1));
  }
  if (fields.Find("expert-tensor-parallel-size") == nullptr) {
    plan.degrees.expert_tensor = plan.degrees.tensor;
  }
  for (const PlanNumber& option : kPlanNumbers) {
    ASSIGN_OR_RETURN(plan.*option.number, fields.WholeOr(option.name, option.absent));
  }
  for (const PlanSwitch& option : kPlanSwitches) {
    ASSIGN_OR_RETURN(plan.*option.on, fields.BooleanOr(option.name, false));
  }
  RETURN_IF_ERROR(ParseVirtualStages(fields, plan));
  if (plan.virtual_stages > 1) {
    plan.schedule = Schedule::kInterleaved;
  }
  ASSIGN_OR_RETURN(const std::string exchange, fields.TextOr("cp-comm-type", "p2p"));
  ASSIGN_OR_RETURN(plan.context_exchange, FromWord(kExchanges, "cp-comm-type", exchange));
  return absl::OkStatus();
}

absl::Status ParseSwitchWords(const FieldTable& fields, LaunchPlan& launch) {
  LaunchSwitches& switches = launch.switches;
  ASSIGN_OR_RETURN(const std::string format, fields.TextOr("fp8-format", ""));
  if (!format.empty()) {
    launch.plan.precision = Precision::kFp8;
    ASSIGN_OR_RETURN(const std::string recipe, fields.TextOr("fp8-recipe", "delayed"));
    ASSIGN_OR_RETURN(switches.fp8, FromWord(kRecipes, "fp8-recipe", recipe));
  }
  ASSIGN_OR_RETURN(const std::string graphs, fields.TextOr("cuda-graph-impl", "none"));
  ASSIGN_OR_RETURN(switches.cuda_graphs, FromWord(kGraphs, "cuda-graph-impl", graphs));
  ASSIGN_OR_RETURN(const std::string dispatcher,
                   fields.TextOr("moe-token-dispatcher-type", "allgather"));
  ASSIGN_OR_RETURN(switches.expert_dispatch,
                   FromWord(kDispatchers, "moe-token-dispatcher-type", dispatcher));
  // "torch" and others of a user's own are as good as none.
  ASSIGN_OR_RETURN(const std::string checkpoint, fields.TextOr("ckpt-format", ""));
  for (const Worded<CheckpointFormat>& each : kFormats) {
    switches.checkpoint = checkpoint == each.word ? each.value : switches.checkpoint;
  }
  ASSIGN_OR_RETURN(const bool offload, fields.BooleanOr("optimizer-cpu-offload", false));
  if (offload) {
    ASSIGN_OR_RETURN(const double share, fields.NumberOr("optimizer-offload-fraction", 1));
    if (share < 0 || share > 1) {
      return absl::InvalidArgumentError(
          fmt::format("optimizer-offload-fraction: {} is out of range: use 0 to 1", share));
    }
    // Written with two digits behind the point.
    switches.optimizer_offload_percent = static_cast<int64_t>(100 * share + 0.5);
  }
  return absl::OkStatus();
}

}  // namespace

SettingList EmitMegatron(const LaunchPlan& launch) {
  const ParallelPlan& plan = launch.plan;
  const LaunchSwitches& switches = launch.switches;
  SettingList list;
  for (const DegreeOption& option : kDegreeOptions) {
    list.Whole(option.name, plan.degrees.*option.degree);
  }
  for (const PlanNumber& option : kPlanNumbers) {
    if (plan.*option.number != option.absent) {
      list.Whole(option.name, plan.*option.number);
    }
  }
  for (const PlanSwitch& option : kPlanSwitches) {
    list.Switch(option.name, plan.*option.on);
  }
  if (plan.degrees.context > 1 || plan.context_exchange != ContextExchange::kRing) {
    list.Text("cp-comm-type", WordOf(kExchanges, plan.context_exchange));
  }
  EmitSharding(launch, list);
  EmitRecompute(plan.recompute, list);
  list.Switch("bf16", true);
  if (plan.precision == Precision::kFp8) {
    list.Text("fp8-format", "hybrid");
    list.Text("fp8-recipe", WordOf(kRecipes, switches.fp8));
  }
  for (const LaunchSwitch& option : kLaunchSwitches) {
    list.Switch(option.name, switches.*option.on);
  }
  if (switches.expert_dispatch != ExpertDispatch::kAllGather) {
    list.Text("moe-token-dispatcher-type", WordOf(kDispatchers, switches.expert_dispatch));
  }
  if (switches.cuda_graphs != CudaGraphs::kNone) {
    list.Text("cuda-graph-impl", WordOf(kGraphs, switches.cuda_graphs));
  }
  if (switches.checkpoint != CheckpointFormat::kDefault) {
    list.Text("ckpt-format", WordOf(kFormats, switches.checkpoint));
  }
  if (switches.optimizer_offload_percent > 0) {
    list.Switch("optimizer-cpu-offload", true);
    list.Add(
        {"optimizer-offload-fraction", SettingKind::kNumber,
         fmt::format("{:.2f}", static_cast<double>(switches.optimizer_offload_percent) / 100)});
  }
  return list;
}

absl::StatusOr<LaunchPlan> ParseMegatron(const FieldTable& fields, int64_t gpus) {
  LaunchPlan launch;
  launch.plan.framework = Framework::kMegatron;
  RETURN_IF_ERROR(ParsePlanNumbers(fields, launch.plan));
  RETURN_IF_ERROR(ParseSharding(fields, launch));
  RETURN_IF_ERROR(ParseRecompute(fields, launch.plan.recompute));
  for (const LaunchSwitch& option : kLaunchSwitches) {
    ASSIGN_OR_RETURN(launch.switches.*option.on, fields.BooleanOr(option.name, false));
  }
  RETURN_IF_ERROR(ParseSwitchWords(fields, launch));
  const Degrees& degrees = launch.plan.degrees;
  const double group = static_cast<double>(degrees.tensor) * static_cast<double>(degrees.pipeline) *
                       static_cast<double>(degrees.context);
  launch.plan.degrees.data = group >= 1 && group <= static_cast<double>(gpus)
                                 ? gpus / (degrees.tensor * degrees.pipeline * degrees.context)
                                 : 1;
  return launch;
}

std::span<const std::string_view> MegatronSwitches() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all = {"bf16",
                                         "use-distributed-optimizer",
                                         "use-torch-fsdp2",
                                         "mock-data",
                                         "optimizer-cpu-offload",
                                         "no-gradient-accumulation-fusion",
                                         "use-mcore-models",
                                         "use-flash-attn",
                                         "untie-embeddings-and-output-weights",
                                         "swiglu",
                                         "disable-bias-linear",
                                         "group-query-attention"};
    for (const PlanSwitch& option : kPlanSwitches) {
      all.push_back(option.name);
    }
    for (const LaunchSwitch& option : kLaunchSwitches) {
      all.push_back(option.name);
    }
    return all;
  }();
  return names;
}

}  // namespace asterism::planner
