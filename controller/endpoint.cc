#include "controller/endpoint.h"

#include "nlohmann/json.hpp"

namespace asterism::controller {

std::string EndpointSliceBody(std::string_view namespace_name, std::string_view pod_ip, int port) {
  const bool ipv6 = pod_ip.find(':') != std::string_view::npos;
  using nlohmann::json;
  const json labels = {{"kubernetes.io/service-name", kExtenderService},
                       {"endpointslice.kubernetes.io/managed-by", "asterism-controller"}};
  const json endpoint = {{"addresses", json::array({pod_ip})}, {"conditions", {{"ready", true}}}};
  const json port_entry = {{"name", "extender"}, {"protocol", "TCP"}, {"port", port}};
  const json body = {
      {"apiVersion", "discovery.k8s.io/v1"},
      {"kind", "EndpointSlice"},
      {"metadata",
       {{"name", kExtenderEndpointSlice}, {"namespace", namespace_name}, {"labels", labels}}},
      {"addressType", ipv6 ? "IPv6" : "IPv4"},
      {"endpoints", json::array({endpoint})},
      {"ports", json::array({port_entry})}};
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace asterism::controller
