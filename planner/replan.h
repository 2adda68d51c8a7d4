// File: planner/replan.h
//
// When GPUs come or go: on how many GPUs a plan can go on, which plan follows a loss, and from how
// many GPUs on a model fits at all.
//
//   LegalWorldSizes(request, plan)                          // 448, 384, ... of 512 GPUs
//   ASSIGN_OR_RETURN(Replanned next, Replan(request, plan, /*lost=*/8));
//   next.keeps_shards, next.bytes_to_move
//   MinimumGpus(request)                                    // 0: none up to kMinimumGpusMax
//
// Replan keeps tensor, pipeline, context and expert degrees, recompute and stages, and gives up
// data ranks: no rank's shards of weights change. It does so when that is at most kRegretMax slower
// than the best plan of the GPUs that are left; otherwise the best plan, with the bytes of weights
// and optimizer that ranks have to get from others. Spares: request.max_spare_gpus of what is left.
//
// Errors: as SearchPlans; FailedPrecondition where nothing fits any more.
// Thread-safety: pure. Cost: Replan one search among plans that beat the kept one by kRegretMax;
// LegalWorldSizes one memory estimate a data degree; MinimumGpus a search a count of GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/search.h"

namespace asterism::planner {

inline constexpr double kRegretMax = 0.05;
inline constexpr int64_t kMinimumGpusMax = 16'384;

struct Replanned {
  PlanCandidate next;
  bool keeps_shards = false;
  // Of the kept plan against the best; 0 where it is the best, infinite where none can be kept.
  double regret = 0;
  double bytes_to_move = 0;  // over all ranks
};

absl::StatusOr<Replanned> Replan(const SearchRequest& request, const ParallelPlan& plan,
                                 int64_t lost_gpus);

// Smaller counts of GPUs on which the plan fits and is legal with fewer data ranks, largest first,
// at most `most`.
std::vector<int64_t> LegalWorldSizes(const SearchRequest& request, const ParallelPlan& plan,
                                     size_t most);

// In steps of whole domains of the first level, of 8 where they are larger; below that one by one.
// The request's fixed degrees stay. 0: on none up to kMinimumGpusMax.
int64_t MinimumGpus(const SearchRequest& request);

// Bytes that ranks need and do not hold when one plan follows another on the first ranks of it.
double BytesToMove(const SearchRequest& request, const ParallelPlan& from, const ParallelPlan& to);

}  // namespace asterism::planner
