// File: operator/model_config_map.h
//
// The config.json that spec.model.huggingFaceConfigMap names: which object and key, and its text.
//
//   if (const auto map = ModelConfigMapOf(wish)) {
//     ReadModelConfig(client, job.meta.namespace_name, *map,
//                     [](absl::StatusOr<std::string> config_json) { ... });
//   }
//
// Errors name the field and what the API server said. Thread-safety: as the client's. Cost: one
// request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "kube/client.h"
#include "operator/job_plan.h"

namespace asterism::operators {

struct ModelConfigMap {
  std::string name;
  std::string key;
};

// Nothing: no plan is wanted, or its model comes from elsewhere.
std::optional<ModelConfigMap> ModelConfigMapOf(const PlanWish& wish);

void ReadModelConfig(kube::Client& client, std::string namespace_name, const ModelConfigMap& map,
                     absl::AnyInvocable<void(absl::StatusOr<std::string>)> done);

}  // namespace asterism::operators
