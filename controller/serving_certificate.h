// File: controller/serving_certificate.h
//
// The certificate that all ports of asterism-controller show, from where the configuration says
// (tls.mode): Asterism's own Secrets, Secrets that somebody else writes, files, or none at all.
//
//   ASSIGN_OR_RETURN(const auto certificate, ServingCertificate::Make(dependencies, tls, name));
//   options.certificates = certificate->source();   // null: plain
//   executor.Post([&] { certificate->Start(); });
//
// Thread-safety: Start on the executor, the rest from any thread. Cost: see certificate_keeper.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "controller/certificate_keeper.h"
#include "controller/certificate_metrics.h"
#include "controller/configuration.h"
#include "kube/client.h"
#include "server/certificate_source.h"
#include "server/http_server.h"
#include "server/tls_context.h"

namespace asterism::controller {

class ServingCertificate {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& executor;
    kube::Client& client;
    base::MetricRegistry& registry;
    server::HttpServerMetrics& http_metrics;
    std::function<bool()> may_write;
  };

  // An error names the file that cannot be used.
  static absl::StatusOr<std::unique_ptr<ServingCertificate>> Make(
      const Dependencies& dependencies, const Configuration& configuration,
      const std::string& namespace_name);

  // Null: plain.
  server::CertificateSource* source() const { return source_.get(); }
  // Of the extender's port: whoever comes has to show a certificate wherever one can be checked.
  server::Clients extender_clients() const { return extender_clients_; }
  // Which of all that the authority may have signed; empty: any, with files of somebody's own.
  const std::string& extender_client_name() const { return extender_client_name_; }

  void Start();
  // Why callers cannot trust this server yet; empty: they can.
  std::vector<std::string> Missing() const;

 private:
  explicit ServingCertificate(const Dependencies& dependencies);

  CertificateMetrics metrics_;
  server::Clients extender_clients_ = server::Clients::kAnybody;
  std::string extender_client_name_;
  std::unique_ptr<server::CertificateSource> source_;
  std::unique_ptr<CertificateKeeper> keeper_;  // null: not from Secrets
};

}  // namespace asterism::controller
