#include "operator/direct_commit.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/template_fit.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

const json& Part(const json& object, const char* key) {
  static const json& nothing = *new json();
  if (!object.is_object()) {
    return nothing;
  }
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

bool AnyOf(const json& list, bool (*matches)(const json&)) {
  return list.is_array() && std::any_of(list.begin(), list.end(), matches);
}

bool HasHostPort(const json& container) {
  return AnyOf(Part(container, "ports"), [](const json& port) {
    const json& number = Part(port, "hostPort");
    return number.is_number_integer() && number.get<int64_t>() != 0;
  });
}

// The class table leaves out this label, and names.
bool NamesHost(const json& term) {
  return AnyOf(
             Part(term, "matchExpressions"),
             [](const json& requirement) { return Part(requirement, "key") == kHostnameLabel; }) ||
         !Part(term, "matchFields").empty();
}

// A claim may have no volume yet, and then waits for the scheduler to choose the node.
bool IsClaim(const json& volume) {
  return Part(volume, "persistentVolumeClaim").is_object() || Part(volume, "ephemeral").is_object();
}

}  // namespace

std::string WhyNotDirect(const json& pod_spec) {
  const auto needs = [](std::string_view field) {
    return fmt::format("spec.template.spec.{} needs kube-scheduler", field);
  };
  if (const json& claims = Part(pod_spec, "resourceClaims"); claims.is_array() && !claims.empty()) {
    return needs("resourceClaims");
  }
  if (AnyOf(Part(pod_spec, "volumes"), IsClaim)) {
    return needs("volumes with a claim");
  }
  if (const json& spread = Part(pod_spec, "topologySpreadConstraints");
      spread.is_array() && !spread.empty()) {
    return needs("topologySpreadConstraints");
  }
  const json& affinity = Part(pod_spec, "affinity");
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    const json& required =
        Part(Part(affinity, kind), "requiredDuringSchedulingIgnoredDuringExecution");
    if (required.is_array() && !required.empty()) {
      return needs(fmt::format("affinity.{}", kind));
    }
  }
  const json& node_terms =
      Part(Part(Part(affinity, "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution"),
           "nodeSelectorTerms");
  if (AnyOf(node_terms, NamesHost) ||
      Part(Part(pod_spec, "nodeSelector"), "kubernetes.io/hostname").is_string()) {
    return needs("a selection of nodes by name");
  }
  if (AnyOf(Part(pod_spec, "containers"), HasHostPort) ||
      AnyOf(Part(pod_spec, "initContainers"), HasHostPort)) {
    return needs("containers with a hostPort");
  }
  return "";
}

}  // namespace asterism::operators
