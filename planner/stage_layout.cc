#include "planner/stage_layout.h"

#include <algorithm>

namespace asterism::planner {
namespace {

// Layers of each of the p x v slots.
std::vector<int64_t> LayersOfSlots(const ModelSpec& model, const ParallelPlan& plan) {
  const int64_t slots = plan.degrees.pipeline * plan.virtual_stages;
  std::vector<int64_t> count(static_cast<size_t>(slots), 0);
  const bool uneven = slots > 1 && (plan.first_layers > 0 || plan.last_layers > 0);
  int64_t layers = model.layers;
  size_t begin = 0;
  size_t end = count.size();
  if (uneven && plan.first_layers > 0) {
    count.front() = std::min(layers, plan.first_layers);
    layers -= count.front();
    ++begin;
  }
  if (uneven && plan.last_layers > 0) {
    count.back() = std::min(layers, plan.last_layers);
    layers -= count.back();
    --end;
  }
  const int64_t extra = uneven ? 0 : int64_t{plan.count_embedding} + int64_t{plan.count_loss};
  const auto inner = static_cast<int64_t>(end - begin);
  for (size_t slot = begin; slot < end; ++slot) {
    const auto index = static_cast<int64_t>(slot - begin);
    count[slot] = (layers + extra) / inner + ((layers + extra) % inner > index ? 1 : 0);
  }
  if (extra > 0 && plan.count_embedding) {
    count.front() -= 1;
  }
  if (extra > 0 && plan.count_loss) {
    // The last slot; with more slots than layers, the last one that has any.
    *std::find_if(count.rbegin(), count.rend(), [](int64_t layers_of) { return layers_of > 0; }) -=
        1;
  }
  return count;
}

}  // namespace

std::vector<StageBlocks> LayOutStages(const ModelSpec& model, const ParallelPlan& plan) {
  std::vector<StageBlocks> stages(static_cast<size_t>(plan.degrees.pipeline));
  const std::vector<int64_t> slots = LayersOfSlots(model, plan);
  int64_t layer = 0;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    StageBlocks& stage = stages[slot % stages.size()];
    // Dense layers of a mixture are its first ones.
    const int64_t dense =
        model.experts.count > 0
            ? std::clamp<int64_t>(model.dense_layers - layer, 0, std::max<int64_t>(0, slots[slot]))
            : slots[slot];
    stage.dense_layers += dense;
    stage.expert_layers += slots[slot] - dense;
    layer += slots[slot];
  }
  stages.front().embedding = true;
  StageBlocks& last = stages.back();
  last.head = true;
  last.prediction_depths = model.mtp_depth;
  (model.experts.count > 0 ? last.expert_layers : last.dense_layers) += model.mtp_depth;
  return stages;
}

}  // namespace asterism::planner
