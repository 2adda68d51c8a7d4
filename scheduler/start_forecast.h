// File: scheduler/start_forecast.h
//
// When a gang that has to wait may start, as far as the expected ends of the gangs that run tell.
// Internal to placement.
//
//   std::optional<absl::Time> at = PredictStart(request, ledger, engine);
//
// The earliest expected end by which so much has come free that the gang fits, if nobody else comes
// first. It may lie in the past, where somebody has run for longer than was expected: the caller
// knows what time it is. Nothing: not even all of these ends would do.
//
// Thread-safety: pure, but for the engine's buffers. Cost: a logarithm of the gangs with an
// expected end in attempts to place; nothing where there are none.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "scheduler/placement.h"
#include "scheduler/placement_engine.h"

namespace asterism::scheduler {

// The request is valid and does not fit now.
std::optional<absl::Time> PredictStart(const PlacementRequest& request, const Ledger& ledger,
                                       PlacementEngine& engine);

}  // namespace asterism::scheduler
