// File: controller/http_edge.h
//
// What asterism-controller answers over HTTP: the extender on one port, metrics, probes and pages
// for diagnosis on the other. The whole ledger stands on the extender's port, which only callers
// with a certificate reach.
//
//   ASSIGN_OR_RETURN(const auto edge, HttpEdge::Start(dependencies, configuration, "0.0.0.0"));
//   LogInfo("started", {{"extender_port", edge->extender_port()}});
//
// Paths: POST /extender/{filter,prioritize,preempt} and GET /ledgerz; GET /metrics /healthz /readyz
// /leaderz /topologyz /doctorz /versionz /configz. A standby answers the extender with 503: only
// the leader's ledger counts. The port for metrics asks nobody who it is, so one peer has an eighth
// of its connections at most (16 at least), and pages as large as the cluster are made once for
// each picture: probes are answered whoever else calls.
//
// Thread-safety: handlers run on the servers' threads; Stop belongs to the owner. Cost: that of the
// pages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "controller/configuration.h"
#include "controller/control_plane.h"
#include "controller/serving_certificate.h"
#include "server/health.h"
#include "server/http_server.h"

namespace asterism::controller {

class HttpEdge {
 public:
  // All of them outlive it.
  struct Dependencies {
    const base::Clock& clock;
    base::MetricRegistry& registry;
    server::HttpServerMetrics& metrics;
    ControlPlane& plane;
    const ServingCertificate& certificate;
    server::HealthCheck live;
  };

  // Listens when it returns. An error names the port and what to do.
  static absl::StatusOr<std::unique_ptr<HttpEdge>> Start(const Dependencies& dependencies,
                                                         const Configuration& configuration,
                                                         const std::string& address);

  uint16_t extender_port() const { return extender_->port(); }
  uint16_t metrics_port() const { return diagnosis_->port(); }
  void Stop();

 private:
  HttpEdge() = default;

  std::unique_ptr<server::HttpServer> extender_;
  std::unique_ptr<server::HttpServer> diagnosis_;
};

}  // namespace asterism::controller
