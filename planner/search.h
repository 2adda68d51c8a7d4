// File: planner/search.h
//
// The fastest plans of a model on a number of GPUs, with a proof: exact branch and bound over
// degrees, micro-batch, virtual stages, recompute and sharding.
//
//   SearchRequest request{.model = model, .cluster = cluster, .gpus = 512, .global_batch = 1024,
//                         .sequence = 8192};
//   ASSIGN_OR_RETURN(const SearchOutcome outcome, SearchPlans(request));
//   outcome.best[0].plan, outcome.certificate.proven
//
// Space: every GPU count from gpus - max_spare_gpus to gpus that gpu_step divides; tensor,
// pipeline, context and expert degrees that divide it, within `fixed` and `most`; micro-batches
// that divide the batch of a data-parallel rank, up to most.micro_batch; virtual stages up to
// most.virtual_stages; no, selective and full recompute; the shardings that the framework has. Of
// these, plans that the constraint table allows and whose memory fits (planner/device_memory.h).
// Bound: a subtree is one set of degrees. Its time is at least the work of all ranks spread evenly,
// at the efficiency of unlimited micro-batches, without latencies, recompute or transfers between
// stages, with the bubble of as many virtual stages as there may be, plus its exchange of
// gradients and optimizer. It is left out when its least
// memory (micro-batch 1, one stage a rank, full recompute) does not fit, or when its bound is above
// the k-th best plan. Subtrees are opened in the order of their bounds.
//
// Determinism: ties by memory, then pipeline stages, then the degrees; same request, same answer.
// Errors: a model, cluster or request that makes no sense (field and way out). No plan fits: `best`
// is empty, and least_device_bytes says how much memory the smallest plan needs.
// Thread-safety: pure. Cost: about 5 us a plan that is evaluated, at most max_evaluations of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/cluster_spec.h"
#include "planner/model_spec.h"
#include "planner/parallel_plan.h"
#include "planner/runtime_profile.h"
#include "planner/time_constants.h"

namespace asterism::planner {

// 0: free.
struct FixedDegrees {
  int64_t tensor = 0;
  int64_t pipeline = 0;
  int64_t context = 0;
  int64_t data = 0;
  int64_t expert = 0;
  int64_t micro_batch = 0;
};

// Upper ends of the axes.
struct AxisLimits {
  int64_t tensor = 64;
  int64_t pipeline = 128;
  int64_t context = 64;
  int64_t expert = 64;
  int64_t micro_batch = 16;
  int64_t virtual_stages = 8;
};

struct SearchRequest {
  ModelSpec model;
  ClusterSpec cluster;
  int64_t gpus = 0;
  int64_t max_spare_gpus = 0;
  int64_t gpu_step = 1;      // counts of GPUs are multiples of it: those of a pod
  int64_t global_batch = 0;  // sequences, kept
  int64_t sequence = 0;
  Framework framework = Framework::kMegatron;
  Runtime runtime = Runtime::kMegatron;
  Precision precision = Precision::kBf16;
  TimeConstants constants;
  std::string tables_version;  // which tables `constants` come from; nothing depends on it
  FixedDegrees fixed;
  AxisLimits most;
  size_t top_k = 5;
  uint64_t max_evaluations = 1'000'000;
  // Plans that take longer are of no use; 0: all are. The certificate then speaks of the others.
  double slower_than_seconds = 0;
};

struct PlanCandidate {
  ParallelPlan plan;
  int64_t gpus = 0;
  double seconds = 0;
  double device_bytes = 0;  // upper end of the interval
};

struct SearchCertificate {
  uint64_t space = 0;      // plans that divide, before the constraint table
  uint64_t evaluated = 0;  // of these looked at
  uint64_t pruned = 0;     // left out with their subtree
  double best_seconds = 0;
  double min_pruned_bound = 0;  // infinite when every subtree was opened or cannot fit
  bool proven = false;          // nothing that was left out is faster than the best
};

struct SearchOutcome {
  std::vector<PlanCandidate> best;  // the fastest first, at most top_k
  SearchCertificate certificate;
  double least_device_bytes = 0;  // of the smallest legal plan; 0 when none is legal
};

absl::StatusOr<SearchOutcome> SearchPlans(const SearchRequest& request);

// A second look at an answer, by other means than the search: the best is legal, fits, takes the
// time it says, and the certificate's numbers agree with each other.
absl::Status CheckOutcome(const SearchRequest& request, const SearchOutcome& outcome);

}  // namespace asterism::planner
