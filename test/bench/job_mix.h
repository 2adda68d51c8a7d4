// File: test/bench/job_mix.h
//
// Ages a cluster: jobs of a mix of pretraining, fine-tuning and search come and go for some days,
// in the shares, sizes and durations that operators of large clusters have published.
//
//   const MixResult result = ReplayMix(cluster, {.nodes = 1280, .load = 0.8, .days = 3}, decide);
//   // the cluster now holds what a cluster holds on the third day
//
// First come, first served, but who does not fit does not stop those behind. `decide` is called
// instead of Place, so that a benchmark can time it.
//
// Thread-safety: none. Cost: one decision for each job (7 a day and node) and for some of the tries
// of those that wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "placement_bench_cluster.h"

namespace asterism::scheduler {

struct MixOptions {
  size_t nodes = 1280;
  double load = 0.8;  // GPU-seconds asked for, as a share of what there is
  double days = 3;
  uint64_t seed = 1;
};

struct MixResult {
  size_t jobs = 0;
  size_t waiting = 0;  // at the end
  double held_percent = 0;
};

using DecideGang = absl::FunctionRef<void(const PlacementRequest& request, const Ledger& ledger,
                                          PlacementOutcome& outcome)>;

// GPUs of the first jobs to arrive, as many as are asked for.
std::vector<int64_t> MixSizes(const MixOptions& options, size_t count);

MixResult ReplayMix(BenchCluster& cluster, const MixOptions& options, DecideGang decide);

}  // namespace asterism::scheduler
