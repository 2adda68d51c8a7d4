// File: kube/testing/json_patch.h
//
// The three ways to patch an object, over JSON.
//
//   ASSIGN_OR_RETURN(json after, JsonPatched(before, patch));       // RFC 6902
//   json after = MergePatched(before, patch);                       // RFC 7386
//   json after = Applied(before, applied_last_time, applied_now);   // server-side apply
//
// Apply is simplified: objects are merged, lists and scalars replaced, and what the same manager
// applied before and no longer applies is removed. Conflicts of managers do not occur (force).
//
// Thread-safety: pure functions. Cost: a copy of the object.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::kube::testing {

absl::StatusOr<nlohmann::json> JsonPatched(const nlohmann::json& before,
                                           const nlohmann::json& patch);
nlohmann::json MergePatched(const nlohmann::json& before, const nlohmann::json& patch);
nlohmann::json Applied(const nlohmann::json& before, const nlohmann::json& previous,
                       const nlohmann::json& next);

}  // namespace asterism::kube::testing
