// File: controller/endpoint.h
//
// The EndpointSlice through which kube-scheduler, gRPC clients and people find the leader: the
// chart's Service asterism-extender has no selector, the leader writes who answers.
//
//   const LeaderEndpoint endpoint{.namespace_name = ns, .pod_ip = ip, .port = 8443,
//                                 .diagnosis_port = 8080};
//   if (!IsPublished(endpoint, reply.body)) {
//     client.Patch(kEndpointSlices, {ns, kExtenderEndpointSlice}, EndpointSliceBody(endpoint, ""),
//     ...);
//   }
//
// Thread-safety: pure. Cost: a short string.
#pragma once

#include <string>
#include <string_view>

namespace asterism::controller {

inline constexpr std::string_view kExtenderService = "asterism-extender";
inline constexpr std::string_view kExtenderEndpointSlice = "asterism-extender-leader";

struct LeaderEndpoint {
  std::string namespace_name;
  std::string pod_ip;  // IPv4 or IPv6
  std::string
      pod_name;  // the API server's proxy reaches addresses of named pods only; may be empty
  int port = 0;  // of the extender
  int diagnosis_port = 0;   // of /metrics, /ledgerz and the pages
  int grpc_port = 0;        // of asterism.v1.Placement
  std::string service_uid;  // the Service that owns the slice, so that it goes with it; empty: none
};

// Body of a server-side apply. With a `resource_version` it is refused when the slice has changed
// since it was read.
std::string EndpointSliceBody(const LeaderEndpoint& endpoint, std::string_view resource_version);

// True when the slice, as JSON of the API server, says `endpoint` and nobody else.
bool IsPublished(const LeaderEndpoint& endpoint, std::string_view slice_json);

}  // namespace asterism::controller
