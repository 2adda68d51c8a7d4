// File: planner/schedule.h
//
// What a pipeline schedule costs in memory: how many micro-batches' activations and how many copies
// of the weights a pipeline rank holds at once.
//
//   InFlight(plan, 0)      // of the first rank, in micro-batches through all of its layers
//
// Sources: GPipe 1811.06965, 1F1B and interleaving 2104.04473 (section 2.2; the chunk count is
// that of Megatron-LM's warm-up: 2 (p - r - 1) + (v - 1) G, and one running), zero bubble
// 2401.10241 (H1: about 1F1B, 2p: twice), ZB-V 2405.15362 (every rank as much as the first of
// 1F1B), DualPipeV (p + 1 and two copies of the weights, its README).
//
// Thread-safety: pure. Cost: none.
#pragma once

#include <cstdint>

#include "planner/parallel_plan.h"

namespace asterism::planner {

// A fraction with virtual stages, where chunks are parts of a rank's layers. At least 1 / v.
double InFlight(const ParallelPlan& plan, int64_t stage);
int64_t WeightCopies(Schedule schedule);

}  // namespace asterism::planner
