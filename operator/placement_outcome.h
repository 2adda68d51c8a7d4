// File: operator/placement_outcome.h
//
// What the placement engine answered, in the words of the API: the same in status.placement, in
// status.waiting and in a dry run.
//
//   status.placement.levels = LevelsOf(placed, cluster);
//   status.placement.runs = RunsOf(blocks, ranks, [&](auto node) { return DomainOf(node, cluster);
//   });
//   const NoPlace no_place = NoPlaceOf(outcome);
//
// Thread-safety: pure. Cost: short strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "operator/training_job.h"
#include "scheduler/placement.h"
#include "topology/cluster.h"

namespace asterism::operators {

// Why the engine gave no place; empty reason for a Placed.
struct NoPlace {
  std::string reason;  // one of wait_reason
  std::string message;
  std::string nearest_change;
  std::optional<absl::Time> predicted_start;  // may lie in the past
};
NoPlace NoPlaceOf(const scheduler::PlacementOutcome& outcome);

std::vector<PlacementLevelStatus> LevelsOf(const scheduler::Placed& placed,
                                           const topology::Cluster& cluster);

// The node's domain of the innermost level above the node; empty when the cluster has no such node.
std::string DomainOf(std::string_view node, const topology::Cluster& cluster);

}  // namespace asterism::operators
