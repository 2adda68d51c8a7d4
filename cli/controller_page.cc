#include "cli/controller_page.h"

#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "cli/cluster_objects.h"
#include "cli/styled_text.h"
#include "fmt/format.h"
#include "kube/resource_path.h"

namespace asterism::cli {
namespace {

constexpr std::string_view kService = "asterism-extender";
constexpr std::string_view kPort = "diagnosis";
// What the API server's proxy says of a controller with tls.mode: Plain.
constexpr std::string_view kSpeaksPlain = "server gave HTTP response to HTTPS client";

absl::Status Problem(const absl::Status& status, const std::string& text) {
  return absl::Status(status.code(), text);
}

std::string MessageOf(const absl::Status& status) {
  return Escaped(base::ToStd(status.message()));
}

absl::Status DirectProblem(const std::string& server, std::string_view path,
                           const absl::Status& status) {
  const std::string shown = Escaped(server);
  switch (kube::GetErrorDetails(status).http_code) {
    case 0:
      return Problem(status, fmt::format("asterism-controller at {} does not answer: {} (--server "
                                         "wants its port for metrics, http://HOST:PORT)",
                                         shown, MessageOf(status)));
    case 404:
      return Problem(status,
                     fmt::format("{} has no page {}: it is no asterism-controller, an older "
                                 "one, or not its port for metrics (ports.metrics)",
                                 shown, path));
    case 503:
      return Problem(status, fmt::format("asterism-controller at {}: {} (ask the leader; its Lease "
                                         "names it: kubectl get leases -A)",
                                         shown, MessageOf(status)));
    default:
      return Problem(status,
                     fmt::format("asterism-controller at {}: {}", shown, MessageOf(status)));
  }
}

absl::Status ProxyProblem(const ServerSession& api, const std::string& namespace_name,
                          std::string_view path, const absl::Status& status) {
  const std::string place = Escaped(namespace_name);
  const std::string message = MessageOf(status);
  const int code = kube::GetErrorDetails(status).http_code;
  const auto says = [&message](std::string_view words) {
    return message.find(words) != std::string::npos;
  };
  if (code == 403) {
    return Problem(
        status,
        fmt::format("you may not ask the controller through the API server: that needs "
                    "the right to get services/proxy \"https:{}:{}\" in namespace \"{}\" (bind "
                    "a Role with it, see docs/kubectl-asterism.md, or use --server): {}",
                    kService, kPort, place, message));
  }
  if (code == 404 && says("services")) {
    return Problem(status,
                   fmt::format("there is no Service \"{}\" in namespace \"{}\": is Asterism "
                               "installed there? (--controller-namespace names another "
                               "namespace, --server a controller)",
                               kService, place));
  }
  if (code == 404) {
    return Problem(status, fmt::format("the controller in namespace \"{}\" has no page {}: upgrade "
                                       "it to the version of this program",
                                       place, path));
  }
  if (says("no service port")) {
    return Problem(status, fmt::format("the Service \"{}\" in namespace \"{}\" has no port \"{}\": "
                                       "upgrade the installation, or use --server",
                                       kService, place, kPort));
  }
  if (says("no endpoints available")) {
    return Problem(status,
                   fmt::format("no controller leads in namespace \"{}\", or Asterism is not "
                               "installed there: kubectl -n {} get pods,leases shows which "
                               "(--controller-namespace names another namespace, --server asks a "
                               "controller directly)",
                               place, place));
  }
  if (code == 503 || code == 502 || code == 500) {
    return Problem(status, fmt::format("the API server cannot reach the controller in namespace "
                                       "\"{}\": {} (is the way from it to the leader's port "
                                       "ports.metrics open? --server asks directly)",
                                       place, message));
  }
  return ApiProblem(api, status, fmt::format("get services/proxy in namespace \"{}\"", place));
}

}  // namespace

absl::StatusOr<std::string> ReadControllerPage(const ControllerAddress& address, ServerSession* api,
                                               std::string_view path) {
  if (!address.server.empty()) {
    kube::ApiConfig config;
    config.server = address.server;
    config.ca_pem = address.ca_pem;
    config.credentials = kube::FixedCredentials({});
    absl::StatusOr<std::string> body = ServerSession(std::move(config)).Get(std::string(path));
    return body.ok() ? std::move(body) : DirectProblem(address.server, path, body.status());
  }
  CHECK_THAT(api != nullptr, "without a server the page is read through the API server");
  const auto get = [&](std::string_view scheme) {
    return api->Get(fmt::format("/api/v1/namespaces/{}/services/{}{}:{}/proxy{}",
                                kube::UrlEncode(address.namespace_name), scheme, kService, kPort,
                                path));
  };
  absl::StatusOr<std::string> body = get("https:");
  if (!body.ok() && MessageOf(body.status()).find(kSpeaksPlain) != std::string::npos) {
    body = get("");
  }
  return body.ok() ? std::move(body)
                   : ProxyProblem(*api, address.namespace_name, path, body.status());
}

}  // namespace asterism::cli
