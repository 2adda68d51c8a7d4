// File: controller/endpoint.h
//
// The EndpointSlice through which kube-scheduler finds the leader: the chart's Service
// asterism-extender has no selector, the leader writes who answers.
//
//   client.Patch(kEndpointSlices, {ns, kExtenderEndpointSlice}, EndpointSliceBody(ns, ip, 8443),
//   ...);
//
// Thread-safety: pure. Cost: a short string.
#pragma once

#include <string>
#include <string_view>

namespace asterism::controller {

inline constexpr std::string_view kExtenderService = "asterism-extender";
inline constexpr std::string_view kExtenderEndpointSlice = "asterism-extender-leader";

// Body of a server-side apply. `pod_ip` is IPv4 or IPv6.
std::string EndpointSliceBody(std::string_view namespace_name, std::string_view pod_ip, int port);

}  // namespace asterism::controller
