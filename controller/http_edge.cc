#include "controller/http_edge.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/open_files.h"
#include "base/status_macros.h"
#include "controller/cluster_metrics.h"
#include "controller/kept_page.h"
#include "controller/ledger_page.h"
#include "controller/topology_page.h"
#include "controller/topology_state.h"
#include "fmt/format.h"
#include "server/health.h"
#include "server/http_routes.h"

namespace asterism::controller {
namespace {

using server::HttpRequest;
using server::HttpResponse;

// kube-scheduler, or the API server as the way of all users of kubectl-asterism.
constexpr int kConnectionsOfAPeerMin = 16;
constexpr std::string_view kPlainText = "text/plain; charset=utf-8";

void NotLeading(HttpResponse& response) {
  response.code = 503;
  response.content_type = kPlainText;
  response.body = "this process does not lead, or its ledger is not rebuilt yet\n";
}

server::HttpRoutes ExtenderRoutes(ControlPlane& plane) {
  server::HttpRoutes routes;
  using Verb = int (scheduler::Extender::*)(std::string_view, std::string&);
  static constexpr std::pair<std::string_view, Verb> kVerbs[] = {
      {"/extender/filter", &scheduler::Extender::Filter},
      {"/extender/prioritize", &scheduler::Extender::Prioritize},
      {"/extender/preempt", &scheduler::Extender::Preempt}};
  for (const auto& [path, verb] : kVerbs) {
    routes.Add("POST", path,
               [&plane, verb = verb](const HttpRequest& request, HttpResponse& response) {
                 response.code = (plane.extender().*verb)(request.body, response.body);
               });
  }
  routes.Add("GET", "/ledgerz", [&plane](const HttpRequest&, HttpResponse& response) {
    const auto view = plane.view();
    if (view == nullptr) {
      NotLeading(response);
      return;
    }
    response.body = LedgerPage(*view, plane.device_holders(), plane.leading());
  });
  return routes;
}

server::HttpRoutes DiagnosisRoutes(ControlPlane& plane, base::MetricRegistry& registry,
                                   server::HealthChecks checks, std::string configuration_yaml) {
  server::HttpRoutes routes;
  server::AddHealthRoutes(routes, std::move(checks));
  routes.Add("GET", "/leaderz", [&plane](const HttpRequest&, HttpResponse& response) {
    if (!plane.leading()) {
      NotLeading(response);
      return;
    }
    response.content_type = kPlainText;
    response.body = "leading\n";
  });
  const auto topology = std::make_shared<KeptPage>();
  routes.Add("GET", "/topologyz", [&plane, topology](const HttpRequest&, HttpResponse& response) {
    const auto view = plane.view();
    if (view == nullptr) {
      NotLeading(response);
      return;
    }
    const auto state = plane.topology_state();
    const bool leading = plane.leading();
    response.body = topology->Get({view, state}, leading, [&] {
      return TopologyPage(*view, {.gpu_resources = plane.gpu_resources(),
                                  .leading = leading,
                                  .topology = state->snapshot.get()});
    });
  });
  const auto doctor = std::make_shared<KeptPage>();
  routes.Add("GET", "/doctorz", [&plane, doctor](const HttpRequest&, HttpResponse& response) {
    const auto state = plane.topology_state();
    const bool leading = plane.leading();
    response.body =
        doctor->Get({state, nullptr}, leading, [&] { return DoctorPage(*state, leading); });
  });
  routes.Add("GET", "/versionz", [&plane](const HttpRequest&, HttpResponse& response) {
    response.body =
        fmt::format(R"({{"version":"{}","leading":{}}})", ASTERISM_VERSION, plane.leading());
  });
  const auto cluster = std::make_shared<ClusterMetrics>(registry);
  routes.Add("GET", "/metrics", [&, cluster](const HttpRequest&, HttpResponse& response) {
    if (const auto view = plane.view(); view != nullptr) {
      cluster->Update(*view, plane.gpu_resources(), plane.leading());
    }
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = registry.Expose();
  });
  routes.Add("GET", "/configz",
             [yaml = std::move(configuration_yaml)](const HttpRequest&, HttpResponse& response) {
               response.content_type = "application/yaml";
               response.body = yaml;
             });
  return routes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEdge>> HttpEdge::Start(const Dependencies& dependencies,
                                                          const Configuration& configuration,
                                                          const std::string& address) {
  const auto missing = [&plane = dependencies.plane, &certificate = dependencies.certificate] {
    std::vector<std::string> all = plane.Missing();
    for (std::string& each : certificate.Missing()) {
      all.push_back(std::move(each));
    }
    return all;
  };
  // Two servers, beside the gRPC service and what the controller itself needs.
  const int connections_max = std::min(server::HttpServerOptions().connections_max,
                                       static_cast<int>(base::OpenFileLimit() / 8));
  const int of_a_peer = std::max(connections_max / 8, kConnectionsOfAPeerMin);
  std::unique_ptr<HttpEdge> edge(new HttpEdge());
  ASSIGN_OR_RETURN(edge->extender_,
                   server::HttpServer::Start(
                       dependencies.clock, ExtenderRoutes(dependencies.plane), dependencies.metrics,
                       {.address = address,
                        .port = static_cast<uint16_t>(configuration.ports.https),
                        .threads = 2,
                        .certificates = dependencies.certificate.source(),
                        .clients = dependencies.certificate.extender_clients(),
                        .client_name = dependencies.certificate.extender_client_name(),
                        .connections_max = connections_max,
                        .connections_per_peer_max = of_a_peer}));
  ASSIGN_OR_RETURN(
      edge->diagnosis_,
      server::HttpServer::Start(dependencies.clock,
                                DiagnosisRoutes(dependencies.plane, dependencies.registry,
                                                {.live = dependencies.live, .ready = missing},
                                                ConfigurationToYaml(configuration)),
                                dependencies.metrics,
                                {.address = address,
                                 .port = static_cast<uint16_t>(configuration.ports.metrics),
                                 .certificates = dependencies.certificate.source(),
                                 .connections_max = connections_max,
                                 .connections_per_peer_max = of_a_peer}));
  return edge;
}

void HttpEdge::Stop() {
  extender_->Stop();
  diagnosis_->Stop();
}

}  // namespace asterism::controller
