#include "controller/endpoint.h"

#include <algorithm>
#include <string>

#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;

json Slice(const LeaderEndpoint& endpoint) {
  const bool ipv6 = endpoint.pod_ip.find(':') != std::string::npos;
  const json labels = {{"kubernetes.io/service-name", kExtenderService},
                       {"endpointslice.kubernetes.io/managed-by", "asterism-controller"}};
  json entry = {{"addresses", json::array({endpoint.pod_ip})}, {"conditions", {{"ready", true}}}};
  if (!endpoint.pod_name.empty()) {
    entry["targetRef"] = {
        {"kind", "Pod"}, {"namespace", endpoint.namespace_name}, {"name", endpoint.pod_name}};
  }
  const auto port = [](const char* name, int number) {
    return json{{"name", name}, {"protocol", "TCP"}, {"port", number}};
  };
  json slice = {
      {"apiVersion", "discovery.k8s.io/v1"},
      {"kind", "EndpointSlice"},
      {"metadata",
       {{"name", kExtenderEndpointSlice},
        {"namespace", endpoint.namespace_name},
        {"labels", labels}}},
      {"addressType", ipv6 ? "IPv6" : "IPv4"},
      {"endpoints", json::array({entry})},
      {"ports", json::array({port("diagnosis", endpoint.diagnosis_port),
                             port("extender", endpoint.port), port("grpc", endpoint.grpc_port)})}};
  if (!endpoint.service_uid.empty()) {
    slice["metadata"]["ownerReferences"] = json::array({{{"apiVersion", "v1"},
                                                         {"kind", "Service"},
                                                         {"name", kExtenderService},
                                                         {"uid", endpoint.service_uid}}});
  }
  return slice;
}

// The server adds fields of its own; what we say must be there. Lists have our entries alone.
bool Covers(const json& wanted, const json& found) {
  if (wanted.is_object()) {
    for (const auto& [key, value] : wanted.items()) {
      const auto member = found.find(key);
      if (member == found.end() || !Covers(value, *member)) {
        return false;
      }
    }
    return found.is_object();
  }
  if (wanted.is_array()) {
    return found.is_array() &&
           std::equal(wanted.begin(), wanted.end(), found.begin(), found.end(), Covers);
  }
  return wanted == found;
}

}  // namespace

std::string EndpointSliceBody(const LeaderEndpoint& endpoint, std::string_view resource_version) {
  json slice = Slice(endpoint);
  if (!resource_version.empty()) {
    slice["metadata"]["resourceVersion"] = resource_version;
  }
  return slice.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool IsPublished(const LeaderEndpoint& endpoint, std::string_view slice_json) {
  const json found = json::parse(slice_json, nullptr, /*allow_exceptions=*/false);
  return Covers(Slice(endpoint), found);
}

}  // namespace asterism::controller
