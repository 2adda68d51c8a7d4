// File: planner/stage_layout.h
//
// Which layers a pipeline rank holds, over all of its virtual stages.
//
//   for (const StageBlocks& stage : LayOutStages(model, plan)) ...   // one a pipeline rank
//
// Layers go round: chunk c of rank r is slot c x p + r of the p x v equal slots. With
// count_embedding the embedding takes the place of the first layer, with count_loss the head that
// of the last (Megatron's --account-for-embedding/loss-in-pipeline-split). Layers that do not
// divide are laid out one more to each of the first slots; whether a framework allows that is
// planner/constraints.h.
//
// Preconditions: degrees and virtual_stages at least 1.
// Thread-safety: pure. Cost: O(layers).
#pragma once

#include <cstdint>
#include <vector>

#include "planner/model_spec.h"
#include "planner/parallel_plan.h"

namespace asterism::planner {

struct StageBlocks {
  int64_t dense_layers = 0;
  int64_t expert_layers = 0;
  bool embedding = false;
  bool head = false;              // with the final norm
  int64_t prediction_depths = 0;  // of multi-token prediction; each also has a layer, counted above
  int64_t layers() const { return dense_layers + expert_layers; }
};

std::vector<StageBlocks> LayOutStages(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace asterism::planner
