// File: kube/request_metrics.h
//
// How many requests the API server got from us, how they ended and how long they took: each try
// counts, watches do not.
//
//   RequestMetrics metrics(clock, registry);
//   HttpApiClient client(executor, rng, http, config, {.metrics = &metrics});
//
// Thread-safety: yes. Cost: two lookups under a lock a request.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/metrics.h"
#include "fmt/format.h"

namespace asterism::kube {

class RequestMetrics {
 public:
  RequestMetrics(const base::Clock& clock, base::MetricRegistry& registry)
      : clock_(clock),
        requests_(registry.AddCounter("asterism_kube_requests_total",
                                      "Requests to the API server; code \"error\": no answer.",
                                      {"verb", "resource", "code"})),
        seconds_(registry.AddHistogram("asterism_kube_request_seconds",
                                       "From sending a request to its answer.", {"verb"})) {}

  base::SteadyTime Now() const { return clock_.SteadyNow(); }

  // `verb` is one of Kubernetes, `resource` a plural, `code` that of HTTP or 0 for no answer.
  void Count(std::string_view verb, std::string_view resource, int code, base::SteadyTime began) {
    const std::string text(verb);
    requests_.With({text, std::string(resource), code == 0 ? "error" : fmt::to_string(code)}).Add();
    seconds_.With({text}).Observe(clock_.SteadyNow() - began);
  }

 private:
  const base::Clock& clock_;
  base::CounterFamily& requests_;
  base::HistogramFamily& seconds_;
};

}  // namespace asterism::kube
