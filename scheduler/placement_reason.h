// File: scheduler/placement_reason.h
//
// Says why a gang cannot be placed, in the words of people: GPUs, nodes and domains. Internal to
// placement.
//
//   return ExplainFailure(request, ledger, engine);
//   -> NotNow "needs 2 nodes with 8 free GPUs, largest free node has 4 of 8"
//   -> Never  "needs 5 nodes in one supernode, the largest has 4"
//
// One reason, the first that binds: product, one pod on one node, total, rules from the innermost
// level outwards. Whether it is Never is decided on the empty cluster, nodes that are cordoned or
// not Ready included, since they may come back.
//
// Thread-safety: pure, but for the engine's buffers. Cost: some dozen attempts, under 20 ms at
// 12,800 nodes.
#pragma once

#include "scheduler/placement.h"
#include "scheduler/placement_engine.h"

namespace asterism::scheduler {

// The request is valid and was tried on `engine` without success.
PlacementOutcome ExplainFailure(const PlacementRequest& request, const Ledger& ledger,
                                PlacementEngine& engine);
// The gang has places, but only so many of its spares.
PlacementOutcome ExplainSpares(const PlacementRequest& request, const Ledger& ledger,
                               PlacementEngine& engine, int64_t spares);

}  // namespace asterism::scheduler
