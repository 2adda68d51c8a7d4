// File: controller/certificate_metrics.h
//
// When certificates end, and what became of the attempts to renew them.
//
//   metrics.Report("server", pem);
//
// Thread-safety: all from any thread. Cost: one parse of the certificate.
#pragma once

#include <string>
#include <string_view>

#include "base/metrics.h"

namespace asterism::controller {

class CertificateMetrics {
 public:
  explicit CertificateMetrics(base::MetricRegistry& registry);

  // `name`: server, authority or scheduler. An unreadable one changes nothing.
  void Report(std::string_view name, const std::string& pem);
  void CountRenewal(std::string_view name) { renewals_.With({std::string(name)}).Add(); }
  void CountFailure() { failures_.Add(); }

 private:
  base::GaugeFamily& ends_;
  base::CounterFamily& renewals_;
  base::Counter& failures_;
};

}  // namespace asterism::controller
