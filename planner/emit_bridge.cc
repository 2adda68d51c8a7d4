#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "planner/emit_megatron.h"
#include "planner/word_table.h"

namespace asterism::planner {
namespace {

struct BridgeName {
  std::string_view option;  // of Megatron-LM
  std::string_view field;   // of Bridge
};

// Where Bridge says the same in the same words.
constexpr BridgeName kBridgeNames[] = {
    {"tensor-model-parallel-size", "model.tensor_model_parallel_size"},
    {"pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
    {"context-parallel-size", "model.context_parallel_size"},
    {"expert-model-parallel-size", "model.expert_model_parallel_size"},
    {"expert-tensor-parallel-size", "model.expert_tensor_parallel_size"},
    {"sequence-parallel", "model.sequence_parallel"},
    {"seq-length", "model.seq_length"},
    {"num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size"},
    {"microbatch-group-size-per-virtual-pipeline-stage",
     "model.microbatch_group_size_per_vp_stage"},
    {"decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage"},
    {"decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage"},
    {"account-for-embedding-in-pipeline-split", "model.account_for_embedding_in_pipeline_split"},
    {"account-for-loss-in-pipeline-split", "model.account_for_loss_in_pipeline_split"},
    {"cp-comm-type", "model.cp_comm_type"},
    {"recompute-granularity", "model.recompute_granularity"},
    {"recompute-method", "model.recompute_method"},
    {"recompute-num-layers", "model.recompute_num_layers"},
    {"recompute-modules", "model.recompute_modules"},
    {"cpu-offloading", "model.cpu_offloading"},
    {"moe-grouped-gemm", "model.moe_grouped_gemm"},
    {"moe-token-dispatcher-type", "model.moe_token_dispatcher_type"},
    {"moe-shared-expert-overlap", "model.moe_shared_expert_overlap"},
    {"cuda-graph-impl", "model.cuda_graph_impl"},
    {"no-gradient-accumulation-fusion", "model.gradient_accumulation_fusion"},
    {"micro-batch-size", "train.micro_batch_size"},
    {"global-batch-size", "train.global_batch_size"},
    {"use-distributed-optimizer", "ddp.use_distributed_optimizer"},
    {"overlap-grad-reduce", "ddp.overlap_grad_reduce"},
    {"overlap-param-gather", "ddp.overlap_param_gather"},
    {"num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances"},
    {"data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy"},
    {"use-megatron-fsdp", "ddp.use_megatron_fsdp"},
    {"fp8-param-gather", "ddp.fp8_param_gather"},
    {"grad-reduce-in-bf16", "ddp.grad_reduce_in_fp32"},
    {"use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer"},
    {"optimizer-cpu-offload", "optimizer.optimizer_cpu_offload"},
    {"optimizer-offload-fraction", "optimizer.optimizer_offload_fraction"},
    {"tp-comm-overlap", "comm_overlap.tp_comm_overlap"},
    {"no-overlap-p2p-communication", "comm_overlap.overlap_p2p_comm"},
    {"overlap-p2p-communication-warmup-flush", "comm_overlap.overlap_p2p_comm_warmup_flush"},
    {"overlap-moe-expert-parallel-comm", "comm_overlap.overlap_moe_expert_parallel_comm"},
    {"delay-wgrad-compute", "comm_overlap.delay_wgrad_compute"},
    {"use-torch-fsdp2", "dist.use_torch_fsdp2"},
    {"use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping"},
    {"ckpt-format", "checkpoint.ckpt_format"},
};

// The field is true where the option is absent.
bool IsNegated(std::string_view option) {
  return option == "no-overlap-p2p-communication" || option == "no-gradient-accumulation-fusion" ||
         option == "grad-reduce-in-bf16";
}

constexpr Worded<Fp8Recipe> kMixedPrecisions[] = {
    {Fp8Recipe::kNone, "bf16_mixed"},
    {Fp8Recipe::kDelayed, "bf16_with_fp8_delayed_scaling_mixed"},
    {Fp8Recipe::kTensorwise, "bf16_with_fp8_current_scaling_mixed"},
    {Fp8Recipe::kBlockwise, "bf16_with_fp8_subchannel_scaling_mixed"},
    {Fp8Recipe::kMxfp8, "bf16_with_mxfp8_mixed"},
};

const BridgeName* FindBridgeName(std::string_view option) {
  const auto* const found =
      std::find_if(std::begin(kBridgeNames), std::end(kBridgeNames),
                   [option](const auto& each) { return each.option == option; });
  return found == std::end(kBridgeNames) ? nullptr : found;
}

}  // namespace

SettingList EmitBridge(const LaunchPlan& launch) {
  SettingList list;
  list.Text("mixed_precision", WordOf(kMixedPrecisions, launch.switches.fp8));
  const SettingList arguments = EmitMegatron(launch);
  for (const Setting& setting : arguments.settings()) {
    const BridgeName* name = FindBridgeName(setting.name);
    if (name == nullptr) {
      continue;  // bf16, fp8-format and fp8-recipe: mixed_precision
    }
    if (setting.kind == SettingKind::kSwitch) {
      list.Boolean(name->field, !IsNegated(setting.name));
    } else {
      list.Add({std::string(name->field), setting.kind, setting.value});
    }
  }
  return list;
}

absl::StatusOr<LaunchPlan> ParseBridge(const FieldTable& fields, int64_t gpus) {
  std::vector<Field> options;
  for (const BridgeName& name : kBridgeNames) {
    const Field* field = fields.Find(name.field);
    if (field == nullptr) {
      continue;
    }
    Field option = *field;
    option.key = name.option;
    if (IsNegated(name.option)) {
      ASSIGN_OR_RETURN(const bool on, fields.BooleanOr(name.field, true));
      option.text = on ? "false" : "true";
    }
    options.push_back(std::move(option));
  }
  ASSIGN_OR_RETURN(const std::string mixed, fields.TextOr("mixed_precision", "bf16_mixed"));
  ASSIGN_OR_RETURN(const Fp8Recipe recipe, FromWord(kMixedPrecisions, "mixed_precision", mixed));
  ASSIGN_OR_RETURN(LaunchPlan launch, ParseMegatron(FieldTable(std::move(options)), gpus));
  launch.switches.fp8 = recipe;
  launch.plan.precision = recipe == Fp8Recipe::kNone ? Precision::kBf16 : Precision::kFp8;
  return launch;
}

}  // namespace asterism::planner
