// File: planner/traffic.h
//
// What a plan sends: for each kind of group the bytes of a step, the size of one message, how
// often, and over which level of the cluster. It is what placement is told, as plain numbers.
//
//   for (const GroupTraffic& each : EstimateTraffic(model, plan, cluster, map)) ...
//
// Volumes per GPU and step in one direction: tensor 4 all-reduces a layer and micro-batch, or the
// same bytes as gathers and scatters, half as much again where the forward is recomputed; context
// keys and values around the ring, three times (forward and backward); pipeline the activation and
// its gradient a boundary; shard gradients and weights once a step, under full sharding three times
// a micro-batch; expert tokens there and back, forward and backward (reference section 4.3).
// `exposed` is the share that the time model waits for. Of the GPU that sends most.
//
// Preconditions: as EstimateTime. Thread-safety: pure. Cost: O(layers + ranks of a group).
#pragma once

#include <string>
#include <vector>

#include "planner/cluster_spec.h"
#include "planner/model_spec.h"
#include "planner/parallel_plan.h"
#include "planner/rank_map.h"
#include "planner/runtime_profile.h"
#include "planner/time_constants.h"

namespace asterism::planner {

struct GroupTraffic {
  GroupKind kind = GroupKind::kTensor;
  int64_t ranks = 1;   // of a group
  int64_t groups = 1;  // of this kind
  int64_t stride = 1;
  size_t level = 0;           // of ClusterSpec::levels that a group of consecutive GPUs crosses
  double bytes_per_step = 0;  // a GPU
  double bytes_a_message = 0;
  double messages = 0;  // a step
  double exposed = 0;   // 0 to 1
};

// Groups of one rank are left out, and the data groups, which are parts of the shard groups.
std::vector<GroupTraffic> EstimateTraffic(const ModelSpec& model, const ParallelPlan& plan,
                                          const ClusterSpec& cluster, const RuntimeProfile& profile,
                                          const TimeConstants& constants, const RankMap& map);

}  // namespace asterism::planner
