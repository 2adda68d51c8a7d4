// File: controller/http_edge.h
//
// What asterism-controller answers over HTTP: the extender on one port, metrics, probes and pages
// for diagnosis on the other. What names jobs stands on the extender's port, which only callers
// with a certificate reach.
//
//   AddExtenderRoutes(extender_routes, plane);
//   AddDiagnosisRoutes(metrics_routes, plane, registry, {live, ready}, [&] { return yaml; });
//
// Paths: POST /extender/{filter,prioritize,preempt} and GET /ledgerz; GET /metrics /healthz /readyz
// /leaderz /topologyz /versionz /configz. A standby answers the extender with 503: only the
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
                        base::MetricRegistry& registry, server::HealthChecks checks,
                        std::function<std::string()> configuration_yaml);

}  // namespace asterism::controller
