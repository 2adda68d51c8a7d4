#include "kube/testing/fake_objects.h"

#include "nlohmann/json.hpp"

namespace asterism::kube::testing {
namespace {

using nlohmann::json;

void DefaultRequests(json& spec, const char* list) {
  if (!spec.contains(list)) {
    return;
  }
  for (json& container : spec[list]) {
    if (!container.contains("resources") || !container["resources"].contains("limits")) {
      continue;
    }
    json& resources = container["resources"];
    for (const auto& [name, value] : resources["limits"].items()) {
      if (!resources.contains("requests") || !resources["requests"].contains(name)) {
        resources["requests"][name] = value;
      }
    }
  }
}

void SetDefault(json& object, const char* member, json value) {
  if (!object.contains(member)) {
    object[member] = std::move(value);
  }
}

}  // namespace

std::string SecondsTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%SZ", time, absl::UTCTimeZone());
}

bool HasStatusSubresource(const ResourceType& type) {
  return !type.protobuf || type.plural == "pods" || type.plural == "nodes" ||
         type.plural == "namespaces" || type.plural == "services";
}

void KeepMember(const json& from, const char* member, json& to) {
  if (const auto found = from.find(member); found != from.end()) {
    to[member] = *found;
  } else {
    to.erase(member);
  }
}

bool SpecDiffers(const json& before, const json& after) {
  json left = before;
  json right = after;
  for (json* object : {&left, &right}) {
    object->erase("metadata");
    object->erase("status");
  }
  return left != right;
}

void DefaultPodSpec(json& pod) {
  json& spec = pod["spec"];
  if (!spec.is_object()) {
    spec = json::object();
  }
  SetDefault(spec, "schedulerName", "default-scheduler");
  SetDefault(spec, "restartPolicy", "Always");
  SetDefault(spec, "terminationGracePeriodSeconds", 30);
  SetDefault(spec, "priority", 0);
  DefaultRequests(spec, "containers");
  DefaultRequests(spec, "initContainers");
}

int64_t PodGraceSeconds(const json& pod, const DeleteOptions& options) {
  static const json kNone = json::object();
  const json& spec = pod.contains("spec") ? pod["spec"] : kNone;
  const json& status = pod.contains("status") ? pod["status"] : kNone;
  const std::string phase = status.value("phase", "");
  if (spec.value("nodeName", "").empty() || phase == "Succeeded" || phase == "Failed") {
    return 0;
  }
  return options.grace_period_seconds.value_or(
      spec.value("terminationGracePeriodSeconds", int64_t{30}));
}

bool IsReadyToGo(const json& object) {
  const json& metadata = object["metadata"];
  const bool finalizers = metadata.contains("finalizers") && !metadata["finalizers"].empty();
  return metadata.contains("deletionTimestamp") && !finalizers &&
         metadata.value("deletionGracePeriodSeconds", int64_t{0}) == 0;
}

bool IsOwnedBy(const json& object, std::string_view owner_uid) {
  const auto owners = object["metadata"].find("ownerReferences");
  if (owners == object["metadata"].end()) {
    return false;
  }
  for (const json& owner : *owners) {
    if (owner.value("uid", "") == owner_uid) {
      return true;
    }
  }
  return false;
}

}  // namespace asterism::kube::testing
