// File: planner/collective.h
//
// How long one exchange between GPUs takes: volume over the rate of the outermost level that the
// group crosses, plus a latency per call.
//
//   const Link link = LinkOf(cluster, {.ranks = 16}, constants);               // 16 GPUs in a row
//   const Link link = LinkOf(cluster, {.ranks = 8, .stride = 8}, constants);   // every eighth
//   link.Seconds(RingReduceBytes(16, bytes))
//
// Ring volumes per GPU: all-reduce 2 (n-1)/n S, all-gather and reduce-scatter (n-1)/n S, S the
// whole tensor (2104.04473 section 3.2). The rate is the level's nominal one times the constants'
// share; the level is found by size, no name or size is a constant.
//
// Thread-safety: pure. Cost: O(levels).
#pragma once

#include <cstdint>

#include "planner/cluster_spec.h"
#include "planner/time_constants.h"

namespace asterism::planner {

struct Link {
  double bytes_per_second = 0;
  double call_seconds = 0;
  double Seconds(double bytes) const { return bytes / bytes_per_second + call_seconds; }
};

struct RankGroup {
  int64_t ranks = 1;
  int64_t stride = 1;  // GPUs from one rank to the next
};

// Beyond the last level: the last level.
Link LinkOf(const ClusterSpec& cluster, const RankGroup& group, const TimeConstants& constants);

double RingReduceBytes(int64_t ranks, double tensor_bytes);
double RingGatherBytes(int64_t ranks, double tensor_bytes);  // also reduce-scatter

}  // namespace asterism::planner
