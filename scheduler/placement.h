// File: scheduler/placement.h
//
// Decides where a gang goes: one pure call, all or none, nodes and rank order together.
//
//   PlacementOutcome outcome = Place(request, ledger);
//   if (auto* placed = std::get_if<Placed>(&outcome)) ...
//
// Best fit over the levels: the tightest domain that holds the whole gang; among equals the one
// with the least room left; inside it as few child domains as possible, recursively, so that
// consecutive ranks are near and a ring over the ranks crosses each level as rarely as it can.
//
// Thread-safety: pure. Cost: O(nodes x levels). Same input, same answer; ties fall to the lower id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/bitmap.h"
#include "scheduler/ledger.h"
#include "scheduler/resources.h"

namespace asterism::scheduler {

// Consecutive blocks of `block_pods` pods each stay inside one domain of `level`.
struct LevelRule {
  size_t level = 0;
  int64_t block_pods = 1;
  bool required = true;  // false: preferred, given up when there is no room
  // Of a preferred one: what a GPU would send out of the domains of `level` in a step if the rule
  // is given up. The rule that saves most is kept first; of equals the innermost.
  int64_t bytes_per_step = 0;

  bool operator==(const LevelRule&) const = default;
};

// At most so many pods of the gang in one domain of `level`: what one failure may take. Ranks that
// hold the same bytes and are `pods_max` or more apart then are in different domains.
struct ApartRule {
  size_t level = 0;
  int64_t pods_max = 1;

  bool operator==(const ApartRule&) const = default;
};

enum class PlacementPolicy { kAuto, kPack, kSpread };

struct PlacementRequest {
  std::string gang_uid;  // what this gang holds already counts as free
  int64_t pods = 1;
  ResourceVector request;  // of one pod, its pod slot (kPodsSlot) included
  size_t gpu_slot = 0;
  std::vector<std::string> products;  // empty: any; the gang gets exactly one product
  std::vector<LevelRule> rules;
  std::vector<ApartRule> apart;  // always required
  // Further pods of this kind that hold their GPUs and wait for a role, on nodes without a pod of
  // the gang. Those that the gang holds already count as free.
  int64_t spares = 0;
  bool spares_required = true;  // false: as many of them as there is room for
  // Nodes of spares that stay where they are, at most `spares` of them; a node may repeat.
  std::vector<std::string> spares_kept;
  PlacementPolicy policy = PlacementPolicy::kAuto;
  base::Bitmap node_classes;          // allowed classes; empty (size 0): all
  std::vector<std::string> excluded;  // node names that failed this gang before
  // Blocks that must stay where they are (same index as pods, empty string: free to choose).
  std::vector<std::string> kept;

  bool operator==(const PlacementRequest&) const = default;
};

// How a placement uses one level.
struct LevelUse {
  size_t level = 0;
  int64_t domains = 0;            // spread
  int64_t ring_cuts = 0;          // ring edges i -> i+1 (mod n) that cross this level
  int64_t ring_cuts_minimum = 0;  // 0 when domains is 1, else domains
};

struct Placed {
  std::vector<NodeId> nodes;  // by pod, in rank order
  // Those that stay, in their order; then those that would stand in for most pods first.
  std::vector<NodeId> spares;
  std::string product;
  std::vector<LevelUse> levels;
};

enum class WaitReason { kNoCapacity, kFragmented, kLevelUnavailable, kProductUnavailable };

// Fits the cluster, but not now.
struct NotNow {
  WaitReason reason = WaitReason::kNoCapacity;
  std::string message;         // "needs 4 free nodes in one supernode, the best has 3"
  std::string nearest_change;  // "a gang of 24 GPUs would start now"; may be empty
  // When so many gangs are expected to have ended that it fits; see start_forecast.h.
  std::optional<absl::Time> predicted_start;
};

// Does not fit even when the cluster is empty: the first binding constraint.
struct Never {
  std::string message;
};

using PlacementOutcome = std::variant<Placed, NotNow, Never>;

PlacementOutcome Place(const PlacementRequest& request, const Ledger& ledger);
// The same, into an outcome whose buffers are used again: where it holds a Placed of before, and
// the thread has placed a gang of that kind before, placing allocates nothing.
void Place(const PlacementRequest& request, const Ledger& ledger, PlacementOutcome& outcome);

// Counts domains and ring cuts of a given order of nodes at each level; independent of Place.
std::vector<LevelUse> MeasureLevels(const topology::Cluster& cluster,
                                    const std::vector<NodeId>& nodes);

}  // namespace asterism::scheduler
