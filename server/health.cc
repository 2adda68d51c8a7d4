#include "server/health.h"

#include <string_view>
#include <utility>

namespace asterism::server {
namespace {

HttpHandler AnswerHealth(std::string_view what, HealthCheck check) {
  return [what, check = std::move(check)](const HttpRequest&, HttpResponse& response) {
    response.content_type = "text/plain; charset=utf-8";
    const std::vector<std::string> missing = check ? check() : std::vector<std::string>();
    if (missing.empty()) {
      response.body = "ok\n";
      return;
    }
    response.code = 503;
    for (const std::string& line : missing) {
      response.body += "not ";
      response.body += what;
      response.body += ": ";
      response.body += line;
      response.body += '\n';
    }
  };
}

}  // namespace

void AddHealthRoutes(HttpRoutes& routes, HealthChecks checks) {
  routes.Add("GET", "/healthz", AnswerHealth("healthy", std::move(checks.live)));
  routes.Add("GET", "/readyz", AnswerHealth("ready", std::move(checks.ready)));
}

}  // namespace asterism::server
