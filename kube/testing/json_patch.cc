#include "kube/testing/json_patch.h"

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::kube::testing {
namespace {

using nlohmann::json;

void RemoveNoLongerApplied(json& live, const json& previous, const json& next) {
  if (!live.is_object() || !previous.is_object()) {
    return;
  }
  for (const auto& [key, value] : previous.items()) {
    const auto found = live.find(key);
    if (found == live.end()) {
      continue;
    }
    const bool applied = next.is_object() && next.contains(key);
    if (value.is_object() && found->is_object()) {
      RemoveNoLongerApplied(*found, value, applied ? next[key] : json());
      if (!applied && found->empty()) {
        live.erase(key);
      }
    } else if (!applied) {
      live.erase(key);
    }
  }
}

void MergeInto(json& live, const json& next) {
  if (!live.is_object() || !next.is_object()) {
    live = next;
    return;
  }
  for (const auto& [key, value] : next.items()) {
    if (value.is_null()) {
      live.erase(key);
    } else {
      MergeInto(live[key], value);
    }
  }
}

}  // namespace

absl::StatusOr<json> JsonPatched(const json& before, const json& patch) {
  try {
    return before.patch(patch);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format(
        "the server rejected our request due to an error in our request: {}", error.what()));
  }
}

json MergePatched(const json& before, const json& patch) {
  json after = before;
  after.merge_patch(patch);
  return after;
}

json Applied(const json& before, const json& previous, const json& next) {
  json after = before;
  RemoveNoLongerApplied(after, previous, next);
  MergeInto(after, next);
  return after;
}

}  // namespace asterism::kube::testing
