#include "controller/certificate_metrics.h"

#include "absl/status/statusor.h"
#include "server/certificate.h"

namespace asterism::controller {

CertificateMetrics::CertificateMetrics(base::MetricRegistry& registry)
    : ends_(registry.AddGauge("asterism_certificate_expiry_timestamp_seconds",
                              "When a certificate ends (Unix time).", {"certificate"})),
      renewals_(registry.AddCounter("asterism_certificate_renewals_total",
                                    "Certificates that this process has made.", {"certificate"})),
      failures_(registry
                    .AddCounter("asterism_certificate_failures_total",
                                "Looks at the certificates that ended with an error.")
                    .With({})) {}

void CertificateMetrics::Report(std::string_view name, const std::string& pem) {
  const absl::StatusOr<server::CertificateFacts> facts = server::ReadCertificate(pem);
  if (facts.ok()) {
    ends_.With({std::string(name)})
        .Set(static_cast<double>(absl::ToUnixSeconds(facts->validity.not_after)));
  }
}

}  // namespace asterism::controller
