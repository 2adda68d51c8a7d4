// File: controller/http_edge.h
//
// What asterism-controller answers over HTTP: the extender on one port, metrics, probes and pages
// for diagnosis on the other.
//
//   AddExtenderRoutes(extender_routes, plane);
//   AddDiagnosisRoutes(metrics_routes, plane, registry, live, [&] { return yaml; });
//
// Paths: POST /extender/{filter,prioritize,preempt}; GET /metrics /healthz /readyz /leaderz
// /ledgerz /topologyz /versionz /configz. A standby answers the extender with 503: only the
// leader's ledger counts.
//
// Thread-safety: handlers run on the server's threads. Cost: that of the pages.
#pragma once

#include <functional>
#include <string>

#include "base/metrics.h"
#include "controller/control_plane.h"
#include "server/health.h"
#include "server/http_routes.h"

namespace asterism::controller {

void AddExtenderRoutes(server::HttpRoutes& routes, ControlPlane& plane);

void AddDiagnosisRoutes(server::HttpRoutes& routes, ControlPlane& plane,
                        base::MetricRegistry& registry, server::HealthCheck live,
                        std::function<std::string()> configuration_yaml);

}  // namespace asterism::controller
