// File: planner/explain.h
//
// Why a plan is as it is: its neighbours that were refused, and what keeps it from being faster.
//
//   for (const RejectedNeighbour& each : RejectedNeighbours(request, plan, 5)) ...
//   BoundBy(request, plan, neighbours)      // "memory.fits: without recompute 1.9 s, but ..."
//
// A neighbour differs in one step of one axis: a factor of 2 or 3 moved from one degree to another,
// the expert degree or the micro-batch doubled or halved, one more or less of the virtual stages'
// divisors, another recompute or sharding. A neighbour that is legal and fits is no part of the
// answer: the search knows it and found it slower.
//
// Preconditions: a checked request and a plan of it. Thread-safety: pure.
// Cost: about 60 evaluations of the memory and time model.
#pragma once

#include <string>
#include <vector>

#include "planner/search.h"

namespace asterism::planner {

struct RejectedNeighbour {
  std::string change;  // "tensor 8 -> 4, data 8 -> 16"
  double seconds = 0;  // it would take
  std::string id;      // of the constraint
  std::string reason;
};

// The fastest first, at most `most`.
std::vector<RejectedNeighbour> RejectedNeighbours(const SearchRequest& request,
                                                  const ParallelPlan& plan, size_t most);

// The constraint of the fastest neighbour, when that would be faster than the plan; else the
// largest term of its time.
std::string BoundBy(const SearchRequest& request, const ParallelPlan& plan,
                    const std::vector<RejectedNeighbour>& neighbours);

// Named seconds of a step, of the slowest rank; together they are the step.
std::vector<std::pair<std::string_view, double>> TermsOfStep(const SearchRequest& request,
                                                             const ParallelPlan& plan);

}  // namespace asterism::planner
