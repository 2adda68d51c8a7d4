#include "cli/server_session.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "base/rng.h"

namespace asterism::cli {
namespace {

kube::CurlOptions CurlOptionsOf(const kube::ApiConfig& config) {
  kube::CurlOptions options = kube::CurlOptions::From(config);
  options.user_agent = "kubectl-asterism";
  return options;
}

}  // namespace

ServerSession::ServerSession(kube::ApiConfig config)
    : config_(std::move(config)), http_(CurlOptionsOf(config_)), executor_("session") {
  const kube::HttpApiClientOptions options{.tries_max = 2, .read_tries_max = 2};
  client_ = std::make_unique<kube::HttpApiClient>(executor_, base::Rng(base::Rng::SystemSeed()),
                                                  http_, config_, options);
}

ServerSession::~ServerSession() {
  executor_.Stop();
}

absl::StatusOr<std::string> ServerSession::Get(std::string path) {
  absl::Notification answered;
  absl::StatusOr<kube::Reply> result = absl::UnknownError("no answer");
  client_->GetPath(std::move(path), [&](absl::StatusOr<kube::Reply> reply) {
    result = std::move(reply);
    answered.Notify();
  });
  answered.WaitForNotification();
  if (!result.ok()) {
    return result.status();
  }
  return std::move(result->body);
}

}  // namespace asterism::cli
