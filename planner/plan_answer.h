// File: planner/plan_answer.h
//
// All that is to be said about a request for a plan, in one value: what the command line prints,
// the service answers and the operator writes into a status.
//
//   ASSIGN_OR_RETURN(const PlanAnswer answer, AnswerPlan(request));
//   if (answer.outcome.best.empty()) ...      // answer.minimum_gpus says from how many on it fits
//   answer.best().plan, answer.device.device.high, answer.bound_by
//
// DescribePlan says the same of a plan that somebody else chose; it may not fit.
//
// Errors: as SearchPlans. Thread-safety: pure. Cost: a search, and about a millisecond.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/device_memory.h"
#include "planner/explain.h"
#include "planner/launch_tuning.h"
#include "planner/memory_model.h"
#include "planner/search.h"
#include "planner/traffic.h"

namespace asterism::planner {

inline constexpr size_t kNeighboursShown = 5;
inline constexpr size_t kWorldSizesShown = 32;
// Half of the 90 % interval of a step: with constants of the same kind of GPU, and without.
inline constexpr double kTimeErrorCalibrated = 0.15;
inline constexpr double kTimeErrorOther = 0.35;

struct PlanAnswer {
  SearchOutcome outcome;
  // Of the best plan; empty where there is none.
  MemoryEstimate memory;
  DeviceMemory device;
  Span seconds;
  std::vector<std::pair<std::string_view, double>> time_terms;
  TunedLaunch tuned;
  std::vector<RejectedNeighbour> neighbours;
  std::string bound_by;
  std::vector<GroupTraffic> groups;
  // Ranks that hold the same optimizer state, and the same weights: 1 is no redundancy.
  int64_t state_copies = 1;
  int64_t weight_copies = 1;
  std::vector<int64_t> legal_world_sizes;
  // Where nothing fits; 0: on no count that was looked at.
  int64_t minimum_gpus = 0;
  // Where nothing fits or a degree is in the way: what is wrong, with the way out.
  std::string impossible;

  const PlanCandidate& best() const { return outcome.best.front(); }
};

absl::StatusOr<PlanAnswer> AnswerPlan(const SearchRequest& request);

// `plan` has passed CheckDegrees. outcome.best has it, without a certificate.
PlanAnswer DescribePlan(const SearchRequest& request, const ParallelPlan& plan);

// The runtime of the tables that stands for a framework of today.
Runtime RuntimeOf(Framework framework);

}  // namespace asterism::planner
