// File: server/health.h
//
// The probes of the kubelet: /healthz (restart me when this fails) and /readyz (send me traffic
// when this is good). A check returns what is missing in plain words; nothing missing is 200 "ok",
// anything else is 503 with one line for each.
//
//   AddHealthRoutes(routes, {.live = [] { return std::vector<std::string>(); },
//                            .ready = [&] { return controller.Missing(); }});
//   $ curl localhost:8080/readyz
//   not ready: pods: first list not complete
//
// Thread-safety: the checks are called on any I/O thread. Cost: that of the checks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/http_routes.h"

namespace asterism::server {

using HealthCheck = std::function<std::vector<std::string>()>;

struct HealthChecks {
  HealthCheck live;   // empty: alive as long as the server answers
  HealthCheck ready;  // empty: ready
};

void AddHealthRoutes(HttpRoutes& routes, HealthChecks checks);

}  // namespace asterism::server
