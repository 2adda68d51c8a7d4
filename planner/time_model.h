// File: planner/time_model.h
//
// How long a training step takes, by named terms: products, attention, memory traffic, exchanges
// that are waited for, pipeline fill, exchange of gradients, optimizer.
//
//   TimeEstimate time = EstimateTime(model, plan, cluster, ProfileOf(runtime), constants);
//   time.Seconds(), time.stages[0].products
//
// slot_r = a micro-batch forward and backward through a rank's layers, and the head on the last;
//   step = (m - 1) max slot + slots of the fill (over v when interleaved) + transfers between
//          stages + exposed exchange of gradients + optimizer + a constant
// (2104.04473 section 2.2; reference section 4.5). Backward is twice forward; full recompute adds
// a forward with its exchanges, selective the attention. A product runs at
// e x w/(w + w_half) x T/(T + T_half) of the peak, w the hidden width of a tensor rank. A layer
// takes at least what the slowest host of a tensor group needs to launch its kernels. What a
// framework hides of transfers and gradients stands in its profile (planner/runtime_profile.h).
// Seconds are for homogenous, undisturbed GPUs; balanced routing.
//
// Preconditions: CheckModel, CheckDegrees, CheckCluster passed. Thread-safety: pure.
// Cost: O(layers + pipeline), about 1 us.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/cluster_spec.h"
#include "planner/model_spec.h"
#include "planner/parallel_plan.h"
#include "planner/runtime_profile.h"
#include "planner/time_constants.h"

namespace asterism::planner {

// Seconds of one micro-batch, forward and backward with recompute.
struct StageTime {
  double products = 0;
  double attention = 0;
  double elementwise = 0;  // norms, activations, scores, launches
  double tensor_exchange = 0;
  double context_exchange = 0;
  double expert_exchange = 0;
  double head = 0;

  double Slot() const {
    return products + attention + elementwise + tensor_exchange + context_exchange +
           expert_exchange + head;
  }
};

struct TimeEstimate {
  std::vector<StageTime> stages;
  // Seconds of a step.
  double steady = 0;  // all micro-batches through the slowest rank
  double fill = 0;    // the bubble
  double pipeline_exchange = 0;
  double data_exchange = 0;
  double optimizer = 0;
  double other = 0;

  double Seconds() const {
    return steady + fill + pipeline_exchange + data_exchange + optimizer + other;
  }
};

// The share of the exchange of gradients and weights that a step waits for, 0 to 1.
double ExposedGradients(const ParallelPlan& plan, const RuntimeProfile& profile,
                        const TimeConstants& constants);

TimeEstimate EstimateTime(const ModelSpec& model, const ParallelPlan& plan,
                          const ClusterSpec& cluster, const RuntimeProfile& profile,
                          const TimeConstants& constants);

}  // namespace asterism::planner
