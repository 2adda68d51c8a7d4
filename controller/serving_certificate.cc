#include "controller/serving_certificate.h"

#include <utility>

#include "base/status_macros.h"
#include "server/certificate_files.h"
#include "server/certificate_slot.h"

namespace asterism::controller {

ServingCertificate::ServingCertificate(const Dependencies& dependencies)
    : metrics_(dependencies.registry) {}

absl::StatusOr<std::unique_ptr<ServingCertificate>> ServingCertificate::Make(
    const Dependencies& dependencies, const Configuration& whole,
    const std::string& namespace_name) {
  const TlsConfiguration& configuration = whole.tls;
  std::unique_ptr<ServingCertificate> made(new ServingCertificate(dependencies));
  switch (configuration.mode) {
    case TlsMode::kPlain:
      break;
    case TlsMode::kFiles: {
      const auto on_reload = [&http = dependencies.http_metrics,
                              &metrics = made->metrics_](const server::TlsMaterial* loaded) {
        http.CountReload(loaded != nullptr);
        if (loaded != nullptr) {
          metrics.Report("server", loaded->certificate);
        }
      };
      ASSIGN_OR_RETURN(auto files,
                       server::CertificateFiles::Load({.certificate = configuration.cert_file,
                                                       .key = configuration.key_file,
                                                       .client_ca = configuration.client_ca_file},
                                                      on_reload));
      made->metrics_.Report("server", files->Current()->certificate);
      made->source_ = std::move(files);
      if (!configuration.client_ca_file.empty()) {
        made->extender_clients_ = server::Clients::kVerified;
      }
      break;
    }
    case TlsMode::kOwn:
    case TlsMode::kSecrets: {
      ASSIGN_OR_RETURN(auto slot, server::CertificateSlot::Make(dependencies.clock));
      made->keeper_ = std::make_unique<CertificateKeeper>(
          CertificateKeeper::Dependencies{dependencies.clock, dependencies.executor,
                                          dependencies.client, *slot, made->metrics_,
                                          dependencies.may_write},
          CertificateKeeperOptions{
              .namespace_name = namespace_name,
              .issue = configuration.mode == TlsMode::kOwn,
              .agents_namespace = whole.agents.enabled ? whole.agents.namespace_name : ""});
      made->source_ = std::move(slot);
      made->extender_clients_ = server::Clients::kVerified;
      made->extender_client_name_ = kSchedulerName;
      break;
    }
  }
  return made;
}

void ServingCertificate::Start() {
  if (keeper_ != nullptr) {
    keeper_->Start();
  }
}

std::vector<std::string> ServingCertificate::Missing() const {
  return keeper_ == nullptr ? std::vector<std::string>() : keeper_->Missing();
}

}  // namespace asterism::controller
