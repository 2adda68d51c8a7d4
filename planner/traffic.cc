#include "planner/traffic.h"

#include <algorithm>

#include "planner/collective.h"
#include "planner/layer_activation.h"
#include "planner/stage_layout.h"
#include "planner/time_model.h"

namespace asterism::planner {
namespace {

class TrafficCounter {
 public:
  TrafficCounter(const ModelSpec& model, const ParallelPlan& plan, const RuntimeProfile& profile,
                 const TimeConstants& constants)
      : model_(model),
        plan_(plan),
        profile_(profile),
        constants_(constants),
        micro_batches_(static_cast<double>(plan.MicroBatches())),
        row_bytes_(2 * TensorTokens(plan) * static_cast<double>(plan.degrees.tensor) *
                   static_cast<double>(model.hidden)) {
    for (const StageBlocks& stage : LayOutStages(model, plan)) {
      layers_ = std::max(layers_, static_cast<double>(stage.layers()));
      expert_layers_ = std::max(expert_layers_, static_cast<double>(stage.expert_layers));
    }
    again_ = plan.recompute.mode == RecomputeMode::kFull ? 1 : 0;
  }

  void Count(GroupTraffic& traffic) const {
    switch (traffic.kind) {
      case GroupKind::kTensor:
        return CountTensor(traffic);
      case GroupKind::kContext:
        return CountContext(traffic);
      case GroupKind::kPipeline:
        return CountPipeline(traffic);
      case GroupKind::kShard:
        return CountStates(traffic, DenseBytes());
      case GroupKind::kExpertData:
        return CountStates(traffic, ExpertBytes());
      case GroupKind::kExpert:
        return CountExpert(traffic);
      case GroupKind::kExpertTensor:
        return CountExpertTensor(traffic);
      case GroupKind::kData:  // a part of the shard group, which has its bytes
        return;
    }
  }

 private:
  static void Set(GroupTraffic& traffic, double message, double messages, double exposed) {
    traffic.bytes_a_message = message;
    traffic.messages = messages;
    traffic.bytes_per_step = message * messages;
    traffic.exposed = std::clamp(exposed, 0.0, 1.0);
  }

  void CountTensor(GroupTraffic& traffic) const {
    Set(traffic, RingReduceBytes(traffic.ranks, row_bytes_),
        micro_batches_ * layers_ * 2 * (2 + again_), constants_.exposed_exchange);
  }

  void CountContext(GroupTraffic& traffic) const {
    const Attention& attention = model_.attention;
    const double width =
        static_cast<double>(attention.kind == AttentionKind::kLatent
                                ? attention.heads * (attention.nope_size + attention.rope_size)
                                : attention.kv_heads * attention.head_size);
    const double block = 4 * TensorTokens(plan_) * width;  // keys and values, 2 bytes each
    Set(traffic, block,
        micro_batches_ * layers_ * (3 + again_) * static_cast<double>(traffic.ranks - 1), 0);
  }

  void CountPipeline(GroupTraffic& traffic) const {
    Set(traffic, 2 * TensorTokens(plan_) * static_cast<double>(model_.hidden),
        2 * micro_batches_ * static_cast<double>(plan_.virtual_stages),
        profile_.waits_for_transfers ? 1 : constants_.exposed_pipeline);
  }

  void CountExpert(GroupTraffic& traffic) const {
    const double routed = 2 * TensorTokens(plan_) * static_cast<double>(model_.hidden) *
                          static_cast<double>(model_.experts.top_k);
    Set(traffic, RingGatherBytes(traffic.ranks, routed),
        micro_batches_ * expert_layers_ * 2 * (2 + again_), constants_.exposed_exchange);
  }

  // The routed tokens of all tensor ranks of an expert are gathered and its output is scattered.
  void CountExpertTensor(GroupTraffic& traffic) const {
    const double routed = 2 * TensorTokens(plan_) * static_cast<double>(model_.hidden) *
                          static_cast<double>(model_.experts.top_k * traffic.ranks);
    Set(traffic, RingGatherBytes(traffic.ranks, routed),
        micro_batches_ * expert_layers_ * 2 * (2 + again_), constants_.exposed_exchange);
  }

  // Of parameters, 1 byte each.
  double DenseBytes() const {
    const BlockParameters layer =
        expert_layers_ > 0 ? ExpertLayerParameters(model_) : DenseLayerParameters(model_);
    return layers_ * static_cast<double>(layer.tensor) / static_cast<double>(plan_.degrees.tensor);
  }
  double ExpertBytes() const {
    return expert_layers_ == 0
               ? 0
               : expert_layers_ * static_cast<double>(ExpertLayerParameters(model_).expert) /
                     static_cast<double>(plan_.degrees.expert * plan_.degrees.expert_tensor);
  }

  void CountStates(GroupTraffic& traffic, double parameters) const {
    const bool full = plan_.sharding == Sharding::kFull;
    const double gradient = profile_.states.gradient_bytes > 0 ? profile_.states.gradient_bytes : 2;
    const double back = plan_.sharding == Sharding::kNone ? gradient : 2;
    const double bytes = RingGatherBytes(traffic.ranks, parameters * (full ? 6 : gradient + back));
    Set(traffic, bytes / layers_, layers_ * (full ? micro_batches_ : 1),
        ExposedGradients(plan_, profile_, constants_));
  }

  const ModelSpec& model_;
  const ParallelPlan& plan_;
  const RuntimeProfile& profile_;
  const TimeConstants& constants_;
  double micro_batches_;
  double row_bytes_;
  double layers_ = 1;
  double expert_layers_ = 0;
  double again_ = 0;
};

}  // namespace

std::vector<GroupTraffic> EstimateTraffic(const ModelSpec& model, const ParallelPlan& plan,
                                          const ClusterSpec& cluster, const RuntimeProfile& profile,
                                          const TimeConstants& constants, const RankMap& map) {
  const TrafficCounter counter(model, plan, profile, constants);
  std::vector<GroupTraffic> all;
  for (const GroupKind kind : kGroupKinds) {
    GroupTraffic traffic{.kind = kind, .ranks = map.SizeOf(kind)};
    if (traffic.ranks <= 1 || kind == GroupKind::kData ||
        (kind == GroupKind::kExpertData && model.experts.count == 0)) {
      continue;
    }
    traffic.groups = map.GroupsOf(kind);
    traffic.stride = map.StrideOf(kind);
    // The pipeline talks to its neighbour only.
    const int64_t reach = kind == GroupKind::kPipeline ? 2 : traffic.ranks;
    traffic.level =
        std::min(cluster.LevelOf((reach - 1) * traffic.stride + 1), cluster.levels.size() - 1);
    counter.Count(traffic);
    all.push_back(traffic);
  }
  return all;
}

}  // namespace asterism::planner
