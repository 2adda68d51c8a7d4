#include "test/planner/measured_case.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/constraints.h"
#include "planner/device_memory.h"
#include "planner/layer_activation.h"
#include "planner/memory_model.h"
#include "planner/model_presets.h"

namespace asterism::planner {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kGibibyte = 1073741824.0;

// Families whose models are GPTs: two MLP matrices, biases, learned positions or none.
bool IsGptFamily(std::string_view family) {
  return family == "bloom" || family == "vtrain" || family == "kort22" || family == "ptdp21" ||
         family == "megascale" || family == "mlm" || family == "foundry";
}

bool Contains(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

const ModelSpec* MixtureOf(const MeasuredRow& row) {
  if (row.Whole("experts") == 160) {
    return FindModelPreset("deepseek-v2");
  }
  if (row.Whole("experts") == 256 && row.Whole("hidden") == 7168) {
    return FindModelPreset("deepseek-v3");
  }
  if (row.Whole("experts") == 128 && row.Whole("hidden") == 2048) {
    return FindModelPreset("qwen3-30b-a3b");
  }
  if (row.Whole("experts") == 128 && row.Whole("hidden") == 4096) {
    return FindModelPreset("qwen3-235b-a22b");
  }
  return nullptr;
}

absl::StatusOr<ModelSpec> MixtureModel(const MeasuredRow& row) {
  if (row.Family() == "kempner") {
    ModelSpec model;
    model.experts.count = row.Whole("experts");
    model.experts.top_k = row.Whole("topk");
    const double width = 1.3 * 8.0 / 3.0 * static_cast<double>(row.Whole("hidden"));
    model.experts.width = static_cast<int64_t>(std::ceil(width / 256)) * 256;
    return model;
  }
  const ModelSpec* preset = MixtureOf(row);
  if (preset == nullptr) {
    return absl::NotFoundError("the width of an expert is not printed");
  }
  ModelSpec model = *preset;
  if (row.Noted("1 dense layer")) {
    model.dense_layers = 1;
  }
  model.mtp_depth = 0;
  return model;
}

absl::StatusOr<ModelSpec> ModelOf(const MeasuredRow& row) {
  const std::string family = row.Family();
  ModelSpec model;
  if (row.Whole("experts") > 0) {
    ASSIGN_OR_RETURN(model, MixtureModel(row));
  }
  if (row.Noted("LoRA")) {
    return absl::NotFoundError("LoRA is not modelled");
  }
  model.name = row.Text("model");
  model.layers = row.Whole("layers");
  model.hidden = row.Whole("hidden");
  model.ffn = model.experts.count > 0 && model.ffn == 0 ? 0 : row.Whole("ffn");
  model.vocabulary = row.Whole("vocab");
  if (family == "bloom" && model.layers == 0) {
    const double square = 12.0 * static_cast<double>(model.hidden * model.hidden);
    const double embedding = static_cast<double>(model.vocabulary * model.hidden);
    const double layers = (row.Number("params_b").value_or(0) * 1e9 - embedding) / square;
    const auto stages = static_cast<double>(std::max<int64_t>(1, row.Whole("pp")));
    model.layers = static_cast<int64_t>(std::round(layers / stages) * stages);
  }
  // Squared ReLU: two matrices.
  if (Contains(model.name, "Nemotron4")) {
    model.mlp = MlpKind::kGelu;
  }
  if (IsGptFamily(family)) {
    model.mlp = MlpKind::kGelu;
    model.norm = NormKind::kLayer;
    model.biases = true;
    model.tied_embeddings = true;
  }
  if (model.attention.kind == AttentionKind::kGrouped && row.Whole("heads") > 0) {
    model.attention.heads = row.Whole("heads");
    model.attention.kv_heads = row.Whole("kv_heads");
    if (model.attention.head_size == 0) {
      model.attention.head_size = model.hidden / model.attention.heads;
    }
  }
  if (absl::Status status = CheckModel(model); !status.ok()) {
    return absl::NotFoundError(
        fmt::format("the shape is not printed: {}", std::string(status.message())));
  }
  return model;
}

// Names as the rows write them.
void ReadRecompute(const MeasuredRow& row, MeasuredCase& measured) {
  const std::string& text = row.Text("recompute");
  Recompute& recompute = measured.plan.recompute;
  if (text == "none" || text.empty()) {
    recompute.mode = RecomputeMode::kNone;
    measured.assumed_recompute = text.empty();
  } else if (text == "full") {
    recompute.mode = RecomputeMode::kFull;
  } else if (text == "selective") {
    recompute.mode = RecomputeMode::kSelective;
  } else if (Contains(text, "op-level")) {
    recompute.mode = RecomputeMode::kOperators;
  } else {
    recompute.mode = RecomputeMode::kModules;
    recompute.modules = (Contains(text, "core_attn") ? kRecomputeCoreAttention : 0U) |
                        (Contains(text, "norm") ? kRecomputeLayerNorm : 0U) |
                        (Contains(text, "mlp") ? kRecomputeMlp : 0U) |
                        (Contains(text, "act") ? kRecomputeMoeActivation : 0U);
  }
}

void ReadSharding(const MeasuredRow& row, MeasuredCase& measured) {
  const std::string family = row.Family();
  ParallelPlan& plan = measured.plan;
  if (family == "titan" || family == "kempner" || family == "foundry" || row.Noted("FSDP") ||
      Contains(row.id(), "-z3-")) {
    plan.sharding = Sharding::kFull;
  } else if (row.Noted("ZeRO stage 0") || family == "kort22" || family == "ptdp21" ||
             family == "nanotron") {
    plan.sharding = Sharding::kNone;
  } else {
    plan.sharding = Sharding::kOptimizer;
  }
}

Runtime RuntimeOf(const MeasuredRow& row) {
  const std::string family = row.Family();
  if (family == "bloom" || family == "vtrain" || family == "ptdp21") {
    return Contains(row.Text("precision"), "fp32 grad") ? Runtime::kDeepSpeedBf16
                                                        : Runtime::kDeepSpeedFp16;
  }
  if (family == "titan") {
    return Runtime::kTorchTitan;
  }
  if (family == "foundry") {
    return Runtime::kLlmFoundry;
  }
  if (family == "kempner") {
    return Runtime::kKempnerForge;
  }
  return family == "kort22" || family == "megascale" ? Runtime::kMegatron2022 : Runtime::kMegatron;
}

void ReadBatch(const MeasuredRow& row, ParallelPlan& plan) {
  plan.micro_batch = row.Whole("mbs");
  plan.global_batch = row.Whole("gbs");
  if (row.Run() == "kempner-1" || row.Run() == "kempner-2") {
    plan.micro_batch = 2;
  }
  if (plan.micro_batch == 0 && row.Noted("batch 1,")) {
    plan.micro_batch = 1;
    plan.global_batch = 4 * plan.degrees.data;
  }
  if (plan.global_batch == 0) {
    plan.global_batch = plan.micro_batch * plan.degrees.data;
  }
}

absl::Status ReadPlan(const MeasuredRow& row, MeasuredCase& measured) {
  ParallelPlan& plan = measured.plan;
  const auto degree = [&row](std::string_view column) {
    return std::max<int64_t>(1, row.Whole(column));
  };
  plan.degrees = {.tensor = row.Whole("tp"),
                  .pipeline = row.Whole("pp"),
                  .context = degree("cp"),
                  .data = row.Whole("dp"),
                  .expert = degree("ep")};
  plan.sequence = row.Whole("seq");
  ReadBatch(row, plan);
  if (plan.sequence == 0) {
    plan.sequence = row.Family() == "skill" ? 4096 : 0;
  }
  if (absl::Status status = CheckDegrees(plan); !status.ok()) {
    return absl::NotFoundError(
        fmt::format("the plan is not printed: {}", std::string(status.message())));
  }
  plan.virtual_stages = degree("vpp");
  plan.schedule = plan.virtual_stages > 1 && plan.degrees.pipeline > 1
                      ? Schedule::kInterleaved
                      : Schedule::kOneForwardOneBackward;
  const bool short_ends =
      measured.model.layers % (plan.degrees.pipeline * plan.virtual_stages) != 0;
  plan.count_embedding = plan.count_loss = short_ends && plan.degrees.pipeline > 1;
  const std::string family = row.Family();
  const bool old = family == "bloom" || family == "vtrain" || family == "ptdp21";
  plan.sequence_parallel = plan.degrees.tensor > 1 && !old &&
                           !(family == "kort22" && !row.Noted("sequence parallel") &&
                             row.Text("recompute") != "selective") &&
                           !(family == "kempner" && plan.degrees.pipeline > 1);
  const std::string& precision = row.Text("precision");
  plan.precision =
      Contains(precision, "FP8") || Contains(precision, "fp8") || Contains(precision, "FP4")
          ? Precision::kFp8
          : Precision::kBf16;
  ReadRecompute(row, measured);
  ReadSharding(row, measured);
  return absl::OkStatus();
}

// Gigabytes a second and GPU between nodes, of the machine that the rows were measured on.
double NetworkOf(const MeasuredRow& row) {
  const std::string family = row.Family();
  if (family == "bloom") {
    return 6.25;  // four Omni-Path adapters of 100 Gb/s for eight GPUs (2211.05100 section 3.4.1)
  }
  if (family == "vtrain") {
    return 12.5;  // four HDR adapters of 200 Gb/s for eight GPUs
  }
  const std::string& name = row.Text("gpu");
  return Contains(name, "A100") ? 25 : name == "GB300" || name == "B300" ? 100 : 50;
}

// Eight GPUs a node, but for racks of 72 and for KempnerForge's nodes of four.
ClusterSpec ClusterOf(const MeasuredRow& row) {
  const std::string& name = row.Text("gpu");
  const GpuSpec* gpu = FindGpu(name == "A100" ? "A100-80" : name);
  if (gpu == nullptr) {
    return {};
  }
  const bool rack = name == "GB200" || name == "GB300";
  const int64_t node = rack ? 72 : row.Family() == "kempner" ? 4 : 8;
  ClusterSpec cluster;
  cluster.gpu = *gpu;
  cluster.levels.push_back({"node", node, gpu->nvlink_gigabytes_per_second, 0});
  cluster.levels.push_back({"cluster", kDegreeMax, NetworkOf(row), 0});
  return cluster;
}

void ReadSeconds(const MeasuredRow& row, MeasuredCase& measured) {
  const double value = row.Number("value").value_or(0);
  if (row.Text("measure") == "step_time") {
    measured.measured_seconds = row.Text("unit") == "ms" ? value / 1000 : value;
  }
  if (row.Text("measure") == "tokens_per_s_per_gpu" && value > 0 && row.Whole("gbs") > 0) {
    measured.measured_seconds = static_cast<double>(row.Whole("gbs") * row.Whole("seq")) /
                                (value * static_cast<double>(measured.plan.degrees.Gpus()));
  }
}

void ReadFigure(const MeasuredRow& row, MeasuredCase& measured) {
  const std::string& measure = row.Text("measure");
  const std::string family = row.Family();
  if (measure == "peak_allocated") {
    measured.figure = MemoryFigure::kAllocated;
  } else if (measure == "device_memory_used") {
    measured.figure = MemoryFigure::kDevice;
  } else if (measure == "mem_activations") {
    measured.figure = MemoryFigure::kActivations;
  } else if (measure == "mem_params_optimizer") {
    measured.figure = MemoryFigure::kStates;
  } else if (measure == "peak_memory") {
    measured.figure = family == "titan" ? MemoryFigure::kReserved : MemoryFigure::kAllocated;
  } else {
    return;
  }
  const bool gibibytes =
      row.Text("unit") == "GiB" || family == "kempner" || family == "mlperf" || family == "skill";
  measured.measured_bytes = row.Number("value").value_or(0) * (gibibytes ? kGibibyte : kGigabyte);
}

}  // namespace

absl::StatusOr<MeasuredCase> CaseOf(const MeasuredRow& row) {
  MeasuredCase measured;
  ASSIGN_OR_RETURN(measured.model, ModelOf(row));
  RETURN_IF_ERROR(ReadPlan(row, measured));
  measured.runtime = RuntimeOf(row);
  // As planner/gpu_table.cc: the nominal number is GiB, of which 1 % is gone.
  measured.gpu_bytes = row.Number("gpu_mem_gb").value_or(0) * 0.99 * kGibibyte;
  // A log is that of rank 0.
  measured.first_stage = row.Family() == "mlperf";
  ReadFigure(row, measured);
  measured.cluster = ClusterOf(row);
  ReadSeconds(row, measured);
  return measured;
}

double PredictedBytes(const MeasuredCase& measured) {
  const RuntimeProfile& profile = ProfileOf(measured.runtime);
  const MemoryEstimate memory = EstimateMemory(measured.model, measured.plan, profile);
  const StageMemory& first = memory.stages.front();
  const DeviceMemory device =
      EstimateDevice(measured.first_stage ? first.Allocated() : memory.allocated(), profile);
  switch (measured.figure) {
    case MemoryFigure::kAllocated:
      return device.allocated.value;
    case MemoryFigure::kReserved:
      return device.reserved.value;
    case MemoryFigure::kDevice:
      return device.device.value;
    case MemoryFigure::kActivations:
      return first.activations;
    case MemoryFigure::kStates:
      // The source leaves the embedding out.
      return first.States() *
             (1 - static_cast<double>(EmbeddingParameters(measured.model)) /
                      static_cast<double>(measured.plan.degrees.tensor) / first.parameters);
    case MemoryFigure::kNone:
      break;
  }
  return 0;
}

bool PredictedFit(const MeasuredCase& measured) {
  const RuntimeProfile& profile = ProfileOf(measured.runtime);
  ParallelPlan plan = measured.plan;
  if (measured.assumed_recompute) {
    plan.recompute.mode = RecomputeMode::kFull;
  }
  const MemoryEstimate memory = EstimateMemory(measured.model, plan, profile);
  return Fits(EstimateDevice(memory.allocated(), profile), measured.gpu_bytes);
}

bool IsCalibration(const MeasuredRow& row) {
  const std::string run = row.Run();
  const auto is_one_of = [&run](std::initializer_list<std::string_view> runs) {
    return std::find(runs.begin(), runs.end(), run) != runs.end();
  };
  return is_one_of({"bloom-035", "bloom-036", "bloom-037", "bloom-038", "bloom-039"}) ||
         is_one_of(
             {"titan-8b-8-a", "titan-8b-8-b", "titan-8b-8-c", "titan-70b-2d", "titan-70b-2da"}) ||
         is_one_of({"kempner-4", "kempner-5", "kempner-6", "kempner-7", "kempner-pk-8-4-unpacked",
                    "kempner-pk-8-4-packed", "kempner-pk-64-1-unpacked", "kempner-pk-64-1-packed",
                    "kempner-v-70b-32b"}) ||
         is_one_of({"skill-70b-a", "skill-70b-b", "skill-70b-c", "skill-70b-d", "skill-70b-e",
                    "skill-70b-f", "skill-70b-g"});
}

bool IsTimeCalibration(const MeasuredRow& row) {
  static constexpr std::string_view kRuns[] = {
      // Llama, Nemotron and DeepSeek recipes, each one model, precision, layout and GPU count.
      "dgxc-v25.02.02-Llama-3.1-405B-FP8-H100-192-L42-b252",
      "dgxc-v25.02.02-Llama-3.1-70B-FP8-H100-128-b256",
      "dgxc-v25.02.02-Llama-3.1-8B-BF16-H100-8-b128",
      "dgxc-v25.04.02-Llama-3.1-8B-BF16-H100-8-b128",
      "dgxc-v25.02.02-Llama3-70B-SFT-FP8-H100-32-b32-SFT",
      "dgxc-v25.02.02-Nemotron4-15B-BF16-H100-64-b256",
      "dgxc-v25.04.02-Llama-3.1-405B-BF16-H100-128-L62-b128",
      "dgxc-v25.04.02-Nemotron4-15B-FP8-H100-512-b2048",
      "dgxc-v25.05.05-DeepSeek-V3-BF16-GB200-256-b2048",
      "dgxc-v25.05.05-DeepSeek-V3-BF16-GB200-512-b4096",
      "dgxc-v25.05.05-Llama-3.1-405B-BF16-GB200-256-b128",
      "dgxc-v25.05.05-Llama-3.1-405B-FP8-GB200-128-b64",
      // Whole plans with all of their micro-batch counts.
      "simumax-deepseekv2_tp1_ep8_pp1_dp8_l4_mbc4_cef",
      "simumax-deepseekv2_tp1_ep8_pp1_dp8_l4_mbc8_cef",
      "simumax-deepseekv2_tp1_ep8_pp1_dp8_l4_mbc32_cef",
      "simumax-llama3_70b_l12_tp8_pp1_dp1_mbc4_cef", "simumax-llama3_70b_l12_tp8_pp1_dp1_mbc8_cef",
      "simumax-llama3_70b_l12_tp8_pp1_dp1_mbc32_cef",
      "simumax-llama3_405b_l4_tp1_cp8_pp1_dp1_seq32768_mbc4_cef",
      "simumax-llama3_70b_l12_tp2_cp4_pp1_dp1_seq131072_mbc4_cef",
      "mlperf-v5.0-llama31_405b-NVIDIA-eos-dfw_n256_ngc25.01_nemo",
      "mlperf-v5.0-llama31_405b-NVIDIA-eos-dfw_n304_ngc25.01_nemo",
      "mlperf-v5.1-llama31_405b-University-of-Florida-hpg.dgxb200x8.n56",
      // Both recompute modes of two sizes.
      "kort22-22/t-full", "kort22-22/t-sel", "kort22-530/t-full", "kort22-530/t-sel", "bloom-025",
      "bloom-037", "bloom-040", "bloom-043", "bloom-045", "bloom-088", "bloom-096", "bloom-101",
      // vtrain: a row of each pair of degrees, widths, micro-batches and depths in turn, the first
      // of
      // the file that has them.
      "vtrain-m-002", "vtrain-m-010", "vtrain-m-019", "vtrain-m-024", "vtrain-m-046",
      "vtrain-m-056", "vtrain-m-072", "vtrain-m-079", "vtrain-s-0487", "vtrain-s-0073",
      "vtrain-s-0297", "vtrain-s-0086", "vtrain-s-0083", "vtrain-s-0527", "vtrain-s-0156",
      "vtrain-s-0508"};
  return std::find(std::begin(kRuns), std::end(kRuns), row.Run()) != std::end(kRuns) ||
         std::find(std::begin(kRuns), std::end(kRuns), row.id()) != std::end(kRuns);
}

std::string TimeEntryOf(const MeasuredRow& row) {
  std::string family = row.Family();
  if (family == "vtrain") {
    family = row.id().substr(0, 8);
  }
  return fmt::format("{} {}", family, row.Text("gpu"));
}

}  // namespace asterism::planner
