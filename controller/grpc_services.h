// File: controller/grpc_services.h
//
// Which services the gRPC port has.
//
//   GrpcServer::Start(ServicesOf(placement, configuration.agents.enabled ? &agents : nullptr), ...)
//
// Thread-safety: pure; the edges outlive the server. Cost: none to speak of.
#pragma once

#include "controller/agent_edge.h"
#include "controller/grpc_server.h"
#include "controller/placement_edge.h"

namespace asterism::controller {

// `agents`: null where there are none.
GrpcServices ServicesOf(PlacementEdge& placement, AgentEdge* agents);

}  // namespace asterism::controller
