#include "planner/time_model.h"

#include <algorithm>
#include <cmath>

#include "planner/collective.h"
#include "planner/flops.h"
#include "planner/layer_activation.h"
#include "planner/stage_layout.h"

namespace asterism::planner {
namespace {

// Everything that one plan's arithmetic needs, so that functions stay small.
struct TimeSetting {
  const ModelSpec& model;
  const ParallelPlan& plan;
  const ClusterSpec& cluster;
  const RuntimeProfile& profile;
  const TimeConstants& constants;
  double tokens = 0;  // of a micro-batch on a tensor group
  double tensor = 1;
  double hidden = 0;
};

// Flops a second of a matrix product on this rank.
double ProductRate(const TimeSetting& s) {
  const double width = s.hidden / s.tensor;
  const bool aligned = s.model.hidden % (64 * s.plan.degrees.tensor) == 0;
  const double shape = width / (width + s.constants.half_width) * s.tokens /
                       (s.tokens + s.constants.half_tokens) *
                       (aligned ? 1 : s.constants.unaligned_efficiency);
  const bool fp8 = s.plan.precision == Precision::kFp8 && s.cluster.gpu.fp8_flops_per_second > 0;
  return shape * (fp8 ? s.cluster.gpu.fp8_flops_per_second * s.constants.product_efficiency *
                            s.constants.fp8_share
                      : s.cluster.gpu.bf16_flops_per_second * s.constants.product_efficiency);
}

double MemoryRate(const TimeSetting& s) {
  return s.cluster.gpu.memory_gigabytes_per_second * 1e9;
}

// Bytes that norms, residuals, activations and unfused scores of a layer move in one direction.
double ElementwiseBytes(const TimeSetting& s, LayerKind kind) {
  const double u = TensorTokens(s.plan);
  const Experts& experts = s.model.experts;
  const double width =
      kind == LayerKind::kDense
          ? static_cast<double>(s.model.ffn)
          : static_cast<double>(experts.top_k * experts.width + experts.shared_width);
  const double matrices = s.model.mlp == MlpKind::kSwiGlu ? 3 : 2;
  double bytes =
      24 * ResidualTokens(s.plan) * s.hidden + u * (12 * s.hidden + 4 * matrices * width);
  if (kind == LayerKind::kExpert) {
    bytes += 8 * u * s.hidden * static_cast<double>(experts.top_k);  // permuted and back
  }
  if (!s.profile.flash_attention) {
    bytes += 12 * u * static_cast<double>(s.model.attention.heads * s.plan.sequence);
  }
  return bytes * s.constants.elementwise;
}

// Forward of one layer.
StageTime ForwardOfLayer(const TimeSetting& s, LayerKind kind) {
  const Degrees& d = s.plan.degrees;
  const Masking masking = s.profile.flash_attention ? Masking::kCausal : Masking::kFull;
  const LayerFlops flops =
      FlopsOfLayer(s.model, kind, s.tokens, static_cast<double>(s.plan.sequence), masking);
  const double rate = ProductRate(s);
  StageTime time;
  time.products = (flops.projections + flops.mlp + flops.router) / s.tensor / rate +
                  flops.routed / s.tensor / (rate * s.constants.grouped_efficiency);
  // A fused kernel works on blocks of the sequence that a rank has.
  const double keys = static_cast<double>(s.plan.sequence) / static_cast<double>(d.context);
  // Plain products run at what a fused kernel reaches at about 4,096 positions.
  constexpr double kPlainProducts = 0.7;
  const double blocks =
      s.profile.flash_attention ? keys / (keys + s.constants.half_keys) : kPlainProducts;
  time.attention =
      flops.core / s.tensor /
      (s.cluster.gpu.bf16_flops_per_second * s.constants.attention_efficiency * blocks);
  time.elementwise = ElementwiseBytes(s, kind) / MemoryRate(s);
  const double row_bytes = 2 * s.tokens * s.hidden;
  if (d.tensor > 1) {
    // Two all-reduces, or as many bytes as gathers and reduce-scatters.
    const Link link = LinkOf(s.cluster, {.ranks = d.tensor}, s.constants);
    time.tensor_exchange = s.constants.exposed_exchange * 2 *
                           (link.Seconds(RingReduceBytes(d.tensor, row_bytes)) + link.call_seconds);
  }
  if (d.context > 1) {
    const Link link = LinkOf(s.cluster, {.ranks = d.context, .stride = d.tensor}, s.constants);
    const double width = static_cast<double>(s.model.attention.kv_heads *
                                             std::max<int64_t>(1, s.model.attention.head_size));
    const double bytes = static_cast<double>(d.context - 1) * 4 * s.tokens * width / s.tensor;
    time.context_exchange = std::max(0.0, bytes / link.bytes_per_second - time.attention);
  }
  if (kind == LayerKind::kExpert && d.expert > 1) {
    const Link link =
        LinkOf(s.cluster, {.ranks = d.expert, .stride = d.expert_tensor}, s.constants);
    const double routed =
        2 * TensorTokens(s.plan) * s.hidden * static_cast<double>(s.model.experts.top_k);
    time.expert_exchange =
        s.constants.exposed_exchange * 2 * link.Seconds(RingGatherBytes(d.expert, routed));
  }
  // A GPU that is faster than the host launches its kernels waits for it.
  const double launches = s.constants.launch_us * 1e-6;
  const double host = launches * (1 + s.constants.host_spread * std::log2(s.tensor));
  time.elementwise += s.constants.kernel_share * launches;
  time.elementwise += std::max(0.0, host - time.Slot());
  return time;
}

// Forward and backward, with what recompute repeats.
void AddLayers(const TimeSetting& s, const StageTime& forward, int64_t count, StageTime& stage) {
  if (count == 0) {
    return;
  }
  const Recompute& recompute = s.plan.recompute;
  const double layers = static_cast<double>(count);
  double again = 0;
  if (recompute.mode == RecomputeMode::kFull) {
    again =
        recompute.layers == 0 ? 1 : std::min(1.0, static_cast<double>(recompute.layers) / layers);
  }
  const double attention_again = recompute.mode == RecomputeMode::kSelective ||
                                         (recompute.modules & kRecomputeCoreAttention) != 0
                                     ? 1
                                     : again;
  stage.products += layers * (3 + again) * forward.products;
  stage.attention += layers * (3 + attention_again) * forward.attention;
  stage.elementwise += layers * (3 + again) * forward.elementwise;
  stage.tensor_exchange += layers * (2 + again) * forward.tensor_exchange;
  stage.context_exchange += layers * (3 + again) * forward.context_exchange;
  stage.expert_exchange += layers * (2 + again) * forward.expert_exchange;
}

// What half_tokens stands for is too few tiles of the output to fill the GPU. Those of the head are
// as many more as its output is wider.
double HeadSeconds(const TimeSetting& s) {
  const auto vocabulary = static_cast<double>(s.model.vocabulary);
  const double logits = TensorTokens(s.plan) * vocabulary;
  const double half_tokens = s.constants.half_tokens * std::min(1.0, s.hidden / vocabulary);
  const double rate = s.cluster.gpu.bf16_flops_per_second * s.constants.product_efficiency *
                      s.tokens / (s.tokens + half_tokens);
  return 3 * HeadFlops(s.model, s.tokens) / s.tensor / rate +
         s.profile.loss_traffic_bytes * logits / MemoryRate(s);
}

double DenseParametersOfStage(const TimeSetting& s, const StageBlocks& blocks) {
  double count = static_cast<double>(blocks.dense_layers) *
                 static_cast<double>(DenseLayerParameters(s.model).tensor);
  if (blocks.expert_layers > 0) {
    count += static_cast<double>(blocks.expert_layers) *
             static_cast<double>(ExpertLayerParameters(s.model).tensor);
  }
  if (blocks.embedding || blocks.head) {
    count += static_cast<double>(s.model.vocabulary) * s.hidden;
  }
  return count / s.tensor;
}

double ExpertParametersOfStage(const TimeSetting& s, const StageBlocks& blocks) {
  const Degrees& d = s.plan.degrees;
  return blocks.expert_layers == 0
             ? 0
             : static_cast<double>(blocks.expert_layers) *
                   static_cast<double>(ExpertLayerParameters(s.model).expert) /
                   static_cast<double>(d.expert * d.expert_tensor);
}

void AddDataTerms(const TimeSetting& s, const std::vector<StageBlocks>& stages,
                  TimeEstimate& time) {
  const Degrees& d = s.plan.degrees;
  double dense = 0;
  double expert = 0;
  for (const StageBlocks& blocks : stages) {
    dense = std::max(dense, DenseParametersOfStage(s, blocks));
    expert = std::max(expert, ExpertParametersOfStage(s, blocks));
  }
  const int64_t ranks = d.DenseReplicas();
  const int64_t expert_ranks = std::max<int64_t>(1, d.ExpertReplicas());
  const bool sharded = s.plan.sharding != Sharding::kNone;
  time.optimizer = s.constants.optimizer_bytes_per_parameter *
                   (dense / static_cast<double>(sharded ? ranks : 1) +
                    expert / static_cast<double>(sharded ? expert_ranks : 1)) /
                   MemoryRate(s);
  if (ranks == 1 && expert_ranks == 1) {
    return;
  }
  const Link link = LinkOf(s.cluster, {.ranks = ranks, .stride = d.tensor}, s.constants);
  const double gradient = s.profile.states.gradient_bytes > 0 ? s.profile.states.gradient_bytes : 2;
  // Gradients once and weights once a step, or whole gradients twice; FSDP gathers twice and
  // reduces in every micro-batch.
  const double bytes = s.plan.sharding == Sharding::kFull
                           ? 6 * static_cast<double>(s.plan.MicroBatches())
                           : gradient + (sharded ? 2 : gradient);
  time.data_exchange =
      ExposedGradients(s.plan, s.profile, s.constants) *
      (RingGatherBytes(ranks, bytes * dense) + RingGatherBytes(expert_ranks, bytes * expert)) /
      link.bytes_per_second;
}

}  // namespace

double ExposedGradients(const ParallelPlan& plan, const RuntimeProfile& profile,
                        const TimeConstants& constants) {
  return plan.degrees.pipeline == 1 || profile.pipeline_overlaps_gradients ? constants.exposed_data
                                                                           : 1.0;
}

TimeEstimate EstimateTime(const ModelSpec& model, const ParallelPlan& plan,
                          const ClusterSpec& cluster, const RuntimeProfile& profile,
                          const TimeConstants& constants) {
  TimeSetting s{model, plan, cluster, profile, constants};
  s.tensor = static_cast<double>(plan.degrees.tensor);
  s.tokens = TensorTokens(plan) * s.tensor;
  s.hidden = static_cast<double>(model.hidden);
  const std::vector<StageBlocks> stages = LayOutStages(model, plan);
  TimeEstimate time;
  // The same in every stage.
  const StageTime dense = ForwardOfLayer(s, LayerKind::kDense);
  const StageTime expert =
      model.experts.count > 0 ? ForwardOfLayer(s, LayerKind::kExpert) : StageTime{};
  double slowest = 0;
  double sum = 0;
  time.stages.reserve(stages.size());
  for (const StageBlocks& blocks : stages) {
    StageTime stage;
    AddLayers(s, dense, blocks.dense_layers, stage);
    AddLayers(s, expert, blocks.expert_layers, stage);
    stage.head = blocks.head ? HeadSeconds(s) : 0;
    slowest = std::max(slowest, stage.Slot());
    sum += stage.Slot();
    time.stages.push_back(stage);
  }
  const auto micro_batches = static_cast<double>(plan.MicroBatches());
  const auto chunks = static_cast<double>(plan.virtual_stages);
  time.steady = micro_batches * slowest;
  time.fill = (sum - slowest) / chunks;
  if (plan.degrees.pipeline > 1) {
    const Link link = LinkOf(
        cluster, {.ranks = 2, .stride = plan.degrees.Gpus() / plan.degrees.pipeline}, constants);
    // Each tensor rank sends its part, which the receivers gather (2104.04473 section 4.1).
    const double transfer =
        link.Seconds(2 * TensorTokens(plan) * s.hidden) - constants.call_us * 1e-6;
    const double exposed = profile.waits_for_transfers ? 2 : constants.exposed_pipeline;
    time.pipeline_exchange =
        2 * transfer *
        (static_cast<double>(plan.degrees.pipeline - 1) + micro_batches * chunks * exposed);
  }
  AddDataTerms(s, stages, time);
  time.other = constants.step_seconds;
  return time;
}

}  // namespace asterism::planner
