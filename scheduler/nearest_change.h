// File: scheduler/nearest_change.h
//
// Says what would let a waiting gang start: a relaxed rule, smaller pods, a smaller gang, nodes
// that come back. Internal to placement.
//
//   NearestChange(request, ledger, engine)
//   -> "4 pods of 4 GPUs would start now; a gang of 8 GPUs would start now"
//
// Thread-safety: pure, but for the engine's buffers. Cost: some dozen attempts.
#pragma once

#include <string>

#include "scheduler/placement.h"
#include "scheduler/placement_engine.h"

namespace asterism::scheduler {

// `engine` is prepared with the request and what is free now. Empty when nothing would help.
std::string NearestChange(const PlacementRequest& request, const Ledger& ledger,
                          PlacementEngine& engine);

}  // namespace asterism::scheduler
