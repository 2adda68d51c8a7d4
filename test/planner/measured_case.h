// File: test/planner/measured_case.h
//
// What one measured row says, in the planner's terms: model, plan, runtime, and which of the
// three memory figures it measured in bytes. The conventions of each source are here and nowhere
// else.
//
//   absl::StatusOr<MeasuredCase> each = CaseOf(row);     // the error says what the row does not
//   print IsCalibration(row)                                   // constants of the runtime table
//   saw it
//
// Deviations from the columns, each for all rows of its family:
//   bloom      layers that are not printed come from params_b, rounded to a multiple of pp
//   kempner    "GB" is GiB: its metrics/memory.py divides by 2^30; expert width is its
//   configuration's
//              1.3 x 8/3 hidden rounded up to 256; runs 1 and 2 had micro-batch 2 (mfu_bench.sh),
//              not 4
//   simumax    widths of experts and latents, which are no columns, are those of the preset
//   mlperf, skill   "GB" is GiB, as allocators log it
//   where the recompute mode of a run is not printed, none is assumed for its memory figure, and
//   full for whether it fits
//   mlperf     the log is that of rank 0: the first stage
//   kort22     states are without the embedding, as the paper's are
//
// Thread-safety: pure. Cost: microseconds. For tests and benchmarks only.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "planner/cluster_spec.h"
#include "planner/model_spec.h"
#include "planner/parallel_plan.h"
#include "planner/runtime_profile.h"
#include "test/planner/measured_file.h"

namespace asterism::planner {

enum class MemoryFigure { kNone, kAllocated, kReserved, kDevice, kActivations, kStates };

struct MeasuredCase {
  ModelSpec model;
  ParallelPlan plan;
  Runtime runtime = Runtime::kMegatron;
  double gpu_bytes = 0;         // 0: not printed
  ClusterSpec cluster;          // no levels: the GPU is not in the table
  double measured_seconds = 0;  // of a step; from tokens per second where that is printed

  MemoryFigure figure = MemoryFigure::kNone;
  double measured_bytes = 0;
  bool first_stage = false;        // the figure is that of the first pipeline rank
  bool assumed_recompute = false;  // the row does not print it
};

absl::StatusOr<MeasuredCase> CaseOf(const MeasuredRow& row);

// What the runtime's tables predict for the figure that the row measured; 0 for kNone.
double PredictedBytes(const MeasuredCase& measured);
bool PredictedFit(const MeasuredCase& measured);

// Whether the row belongs to a group whose rows chose a constant of runtime_profile.cc.
bool IsCalibration(const MeasuredRow& row);
// The same for time_constants.cc. At most 8 rows a family and GPU.
bool IsTimeCalibration(const MeasuredRow& row);
// The entry of time_constants.cc for a row: its family and GPU.
std::string TimeEntryOf(const MeasuredRow& row);

}  // namespace asterism::planner
