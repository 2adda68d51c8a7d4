#include "operator/direct_commit.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"
#include "operator/template_fit.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

bool AnyOf(const json& list, bool (*matches)(const json&)) {
  return list.is_array() && std::any_of(list.begin(), list.end(), matches);
}

bool HasHostPort(const json& container) {
  return AnyOf(Member(container, "ports"), [](const json& port) {
    const json& number = Member(port, "hostPort");
    return number.is_number_integer() && number.get<int64_t>() != 0;
  });
}

bool HasPort(const json& container) {
  const json& ports = Member(container, "ports");
  return ports.is_array() && !ports.empty();
}

// The class table leaves out this label, and names.
bool NamesHost(const json& term) {
  return AnyOf(Member(term, "matchExpressions"),
               [](const json& requirement) {
                 return Member(requirement, "key") == kHostnameLabel;
               }) ||
         !Member(term, "matchFields").empty();
}

// A claim may have no volume yet, and then waits for the scheduler to choose the node.
bool IsClaim(const json& volume) {
  return Member(volume, "persistentVolumeClaim").is_object() ||
         Member(volume, "ephemeral").is_object();
}

}  // namespace

std::string WhyNotDirect(const json& pod_spec) {
  const auto needs = [](std::string_view field) {
    return fmt::format("spec.template.spec.{} needs kube-scheduler", field);
  };
  if (const json& claims = Member(pod_spec, "resourceClaims");
      claims.is_array() && !claims.empty()) {
    return needs("resourceClaims");
  }
  if (AnyOf(Member(pod_spec, "volumes"), IsClaim)) {
    return needs("volumes with a claim");
  }
  if (const json& spread = Member(pod_spec, "topologySpreadConstraints");
      spread.is_array() && !spread.empty()) {
    return needs("topologySpreadConstraints");
  }
  const json& affinity = Member(pod_spec, "affinity");
  for (const std::string_view kind : {"podAffinity", "podAntiAffinity"}) {
    const json& required =
        Member(Member(affinity, kind), "requiredDuringSchedulingIgnoredDuringExecution");
    if (required.is_array() && !required.empty()) {
      return needs(fmt::format("affinity.{}", kind));
    }
  }
  const json& node_terms = Member(
      Member(Member(affinity, "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution"),
      "nodeSelectorTerms");
  if (AnyOf(node_terms, NamesHost) ||
      Member(Member(pod_spec, "nodeSelector"), kHostnameLabel).is_string()) {
    return needs("a selection of nodes by name");
  }
  if (Member(pod_spec, "runtimeClassName").is_string()) {
    return needs("runtimeClassName");
  }
  // Each port of a pod on the host network is a port of the node.
  const bool host_network = Member(pod_spec, "hostNetwork") == true;
  for (const std::string_view list : {"containers", "initContainers"}) {
    if (host_network && AnyOf(Member(pod_spec, list), HasPort)) {
      return needs("containers with a port on the host network");
    }
  }
  if (AnyOf(Member(pod_spec, "containers"), HasHostPort) ||
      AnyOf(Member(pod_spec, "initContainers"), HasHostPort)) {
    return needs("containers with a hostPort");
  }
  return "";
}

}  // namespace asterism::operators
