#include "operator/model_config_map.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::operators {
namespace {

constexpr kube::ResourceType kConfigMapsAsJson{"",          "v1", "configmaps",
                                               "ConfigMap", true, /*protobuf=*/false};
constexpr size_t kShownNameMax = 253;

// As of the name of an object: it becomes a part of a path.
bool IsObjectName(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return name.size() <= kShownNameMax && !name.empty() && plain(name.front()) &&
         plain(name.back()) && std::all_of(name.begin(), name.end(), [&](char c) {
           return plain(c) || c == '-' || c == '.';
         });
}

absl::Status Unreadable(const ModelConfigMap& map, absl::StatusCode code, std::string_view why) {
  return {code, fmt::format("spec.model.huggingFaceConfigMap: \"{}\" cannot be read: {}",
                            map.name.substr(0, kShownNameMax), why)};
}

absl::StatusOr<std::string> KeyOfConfigMap(std::string_view body, std::string_view key) {
  absl::StatusOr<nlohmann::json> map = ParseObjectText(body, "ConfigMap");
  if (!map.ok()) {
    return map.status();
  }
  const nlohmann::json& text = Member(Member(*map, "data"), key);
  if (!text.is_string()) {
    return absl::NotFoundError(fmt::format("it has no key \"{}\" with a text", key));
  }
  return text.get<std::string>();
}

}  // namespace

std::optional<ModelConfigMap> ModelConfigMapOf(const PlanWish& wish) {
  if (!wish.wanted() || !wish.error.empty() || !wish.spec.model.has_value() ||
      wish.spec.model->config_map.empty()) {
    return std::nullopt;
  }
  return ModelConfigMap{wish.spec.model->config_map, wish.spec.model->config_map_key};
}

void ReadModelConfig(kube::Client& client, std::string namespace_name, const ModelConfigMap& map,
                     absl::AnyInvocable<void(absl::StatusOr<std::string>)> done) {
  if (!IsObjectName(map.name)) {
    done(Unreadable(map, absl::StatusCode::kInvalidArgument,
                    "no object has such a name: use lower-case letters, digits, - and ."));
    return;
  }
  client.Get(kConfigMapsAsJson, {std::move(namespace_name), map.name}, kube::Lane::kWrite,
             [map, done = std::move(done)](absl::StatusOr<kube::Reply> reply) mutable {
               absl::StatusOr<std::string> text = reply.ok()
                                                      ? KeyOfConfigMap(reply->body, map.key)
                                                      : absl::StatusOr<std::string>(reply.status());
               if (!text.ok()) {
                 text = Unreadable(map, text.status().code(), base::ToStd(text.status().message()));
               }
               done(std::move(text));
             });
}

}  // namespace asterism::operators
