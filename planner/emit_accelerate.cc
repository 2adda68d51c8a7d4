#include "planner/emit_accelerate.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

#include "base/status_macros.h"
#include "planner/word_table.h"

namespace asterism::planner {
namespace {

constexpr Worded<ContextExchange> kRotateMethods[] = {
    {ContextExchange::kRing, "alltoall"},
    {ContextExchange::kAllGather, "allgather"},
};

std::string ParallelismField(std::string_view name) {
  return fmt::format("parallelism_config.parallelism_config_{}", name);
}

absl::Status ParseFsdpConfig(const FieldTable& file, LaunchPlan& launch) {
  ParallelPlan& plan = launch.plan;
  ASSIGN_OR_RETURN(const std::string kind, file.TextOr("distributed_type", "MULTI_GPU"));
  if (kind != "FSDP") {
    if (kind != "MULTI_GPU" && kind != "NO") {
      return absl::InvalidArgumentError(
          fmt::format("distributed_type: \"{}\" is not planned here: use FSDP or MULTI_GPU",
                      kind.substr(0, 64)));
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool reshard,
                   file.BooleanOr("fsdp_config.fsdp_reshard_after_forward", true));
  plan.sharding = reshard ? Sharding::kFull : Sharding::kGradients;
  ASSIGN_OR_RETURN(const bool recompute,
                   file.BooleanOr("fsdp_config.fsdp_activation_checkpointing", false));
  plan.recompute.mode = recompute ? RecomputeMode::kFull : RecomputeMode::kNone;
  ASSIGN_OR_RETURN(launch.switches.parameter_offload,
                   file.BooleanOr("fsdp_config.fsdp_offload_params", false));
  return absl::OkStatus();
}

absl::Status ParseParallelismConfig(const FieldTable& file, ParallelPlan& plan) {
  ASSIGN_OR_RETURN(const int64_t replicate, file.WholeOr(ParallelismField("dp_replicate_size"), 1));
  ASSIGN_OR_RETURN(const int64_t shard, file.WholeOr(ParallelismField("dp_shard_size"), 1));
  ASSIGN_OR_RETURN(plan.degrees.tensor, file.WholeOr(ParallelismField("tp_size"), 1));
  ASSIGN_OR_RETURN(plan.degrees.context, file.WholeOr(ParallelismField("cp_size"), 1));
  constexpr int64_t kMost = int64_t{1} << 20;
  for (const int64_t each : {replicate, shard, plan.degrees.tensor, plan.degrees.context}) {
    if (each < 1 || each > kMost) {
      return absl::InvalidArgumentError(fmt::format(
          "parallelism_config: {} is out of range: use whole numbers from 1 to {}", each, kMost));
    }
  }
  plan.degrees.data = replicate * shard;
  plan.replicas = plan.sharding == Sharding::kNone ? 1 : replicate;
  if (plan.degrees.context > 1) {
    ASSIGN_OR_RETURN(const std::string strategy,
                     file.TextOr(ParallelismField("cp_comm_strategy"), "allgather"));
    ASSIGN_OR_RETURN(plan.context_exchange, FromWord(kRotateMethods, "cp_comm_strategy", strategy));
  }
  return absl::OkStatus();
}

absl::Status ParseTrainer(const FieldTable& arguments, ParallelPlan& plan) {
  ASSIGN_OR_RETURN(plan.micro_batch, arguments.WholeOr("per_device_train_batch_size", 8));
  ASSIGN_OR_RETURN(const int64_t steps, arguments.WholeOr("gradient_accumulation_steps", 1));
  constexpr int64_t kMost = int64_t{1} << 20;
  if (plan.micro_batch < 1 || plan.micro_batch > kMost || steps < 1 || steps > kMost) {
    return absl::InvalidArgumentError(
        fmt::format("per_device_train_batch_size, gradient_accumulation_steps: {} and {} are out "
                    "of range: use 1 to {}",
                    plan.micro_batch, steps, kMost));
  }
  plan.global_batch = plan.micro_batch * steps * plan.degrees.data;
  return absl::OkStatus();
}

}  // namespace

SettingList EmitAccelerate(const LaunchPlan& launch, int64_t nodes) {
  const ParallelPlan& plan = launch.plan;
  const Degrees& d = plan.degrees;
  const bool sharded = plan.sharding != Sharding::kNone;
  SettingList list;
  list.Text("compute_environment", "LOCAL_MACHINE");
  list.Text("distributed_type", sharded ? "FSDP" : "MULTI_GPU");
  list.Text("mixed_precision", plan.precision == Precision::kFp8 ? "fp8" : "bf16");
  list.Whole("num_machines", nodes);
  list.Whole("num_processes", d.Gpus());
  if (plan.precision == Precision::kFp8) {
    list.Text("fp8_config.backend", "AO");
    list.Boolean("fp8_config.enable_fsdp_float8_all_gather", launch.switches.fp8_parameters);
  }
  if (sharded) {
    list.Whole("fsdp_config.fsdp_version", 2);
    list.Boolean("fsdp_config.fsdp_reshard_after_forward", plan.sharding == Sharding::kFull);
    list.Text("fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    list.Text("fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT");
    list.Boolean("fsdp_config.fsdp_activation_checkpointing",
                 plan.recompute.mode == RecomputeMode::kFull);
    list.Boolean("fsdp_config.fsdp_offload_params", launch.switches.parameter_offload);
    list.Boolean("fsdp_config.fsdp_cpu_ram_efficient_loading", true);
  }
  list.Whole(ParallelismField("dp_replicate_size"), sharded ? plan.replicas : d.data);
  list.Whole(ParallelismField("dp_shard_size"), sharded ? d.data / plan.replicas : 1);
  list.Whole(ParallelismField("tp_size"), d.tensor);
  list.Whole(ParallelismField("cp_size"), d.context);
  if (d.context > 1) {
    list.Text(ParallelismField("cp_comm_strategy"), WordOf(kRotateMethods, plan.context_exchange));
  }
  if (launch.switches.compile) {
    list.Text("dynamo_config.dynamo_backend", "INDUCTOR");
  }
  return list;
}

SettingList EmitAccelerateVariables(const LaunchPlan& launch) {
  constexpr std::string_view kSharding = "fsdp_config.";
  constexpr std::string_view kDegrees = "parallelism_config.";
  SettingList list;
  list.Text("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
  const SettingList file = EmitAccelerate(launch, 1);
  for (const Setting& setting : file.settings()) {
    const std::string_view name = setting.name;
    if (name == "mixed_precision") {
      list.Text("ACCELERATE_MIXED_PRECISION", setting.value);
    } else if (name == "distributed_type" && setting.value == "FSDP") {
      list.Text("ACCELERATE_USE_FSDP", "true");
    } else if (name == "dynamo_config.dynamo_backend") {
      list.Text("ACCELERATE_DYNAMO_BACKEND", setting.value);
    } else if (name.starts_with(kSharding) || name.starts_with(kDegrees)) {
      std::string variable(name.substr(name.find('.') + 1));
      std::transform(variable.begin(), variable.end(), variable.begin(),
                     [](unsigned char letter) { return std::toupper(letter); });
      list.Text(variable, setting.value);
    }
  }
  return list;
}

SettingList EmitTrainer(const LaunchPlan& launch) {
  SettingList list;
  list.Whole("per_device_train_batch_size", launch.plan.micro_batch);
  list.Whole("gradient_accumulation_steps", launch.plan.MicroBatches());
  return list;
}

absl::StatusOr<LaunchPlan> ParseAccelerate(const FieldTable& file, const FieldTable& arguments,
                                           const LaunchJob& job) {
  LaunchPlan launch;
  ParallelPlan& plan = launch.plan;
  plan.framework = Framework::kAccelerate;
  plan.sequence = job.sequence;
  RETURN_IF_ERROR(ParseFsdpConfig(file, launch));
  RETURN_IF_ERROR(ParseParallelismConfig(file, plan));
  RETURN_IF_ERROR(ParseTrainer(arguments, plan));
  ASSIGN_OR_RETURN(const std::string mixed, file.TextOr("mixed_precision", "bf16"));
  if (mixed == "fp8") {
    plan.precision = Precision::kFp8;
    launch.switches.fp8 = Fp8Recipe::kTensorwise;
    ASSIGN_OR_RETURN(launch.switches.fp8_parameters,
                     file.BooleanOr("fp8_config.enable_fsdp_float8_all_gather", false));
  }
  ASSIGN_OR_RETURN(const std::string backend, file.TextOr("dynamo_config.dynamo_backend", "NO"));
  launch.switches.compile = backend != "NO" && backend != "no";
  return launch;
}

SettingList EmitTorchrun(const TorchrunCounts& counts) {
  SettingList list;
  list.Whole("nnodes", counts.nodes);
  list.Whole("nproc-per-node", counts.processes);
  return list;
}

absl::StatusOr<TorchrunCounts> ParseTorchrun(const FieldTable& fields) {
  TorchrunCounts counts;
  if (const Field* nodes = fields.Find("nnodes"); nodes != nullptr) {
    std::string_view text = nodes->text;
    text.remove_prefix(text.find(':') == std::string_view::npos ? 0 : text.find(':') + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), counts.nodes);
    if (error != std::errc() || end != text.data() + text.size()) {
      return absl::InvalidArgumentError(fmt::format(
          "nnodes: \"{}\" is no count of nodes: write 4 or 2:4", nodes->text.substr(0, 64)));
    }
  }
  // Both spellings are the same to torchrun.
  const bool dashes = fields.Find("nproc-per-node") != nullptr;
  ASSIGN_OR_RETURN(counts.processes,
                   fields.WholeOr(dashes ? "nproc-per-node" : "nproc_per_node", 1));
  return counts;
}

}  // namespace asterism::planner
