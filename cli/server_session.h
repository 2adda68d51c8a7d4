// File: cli/server_session.h
//
// Asks one HTTP server and waits for the answer: the API server with the user's own rights, or
// asterism-controller itself.
//
//   ServerSession session(clock, config);
//   absl::StatusOr<std::string> body = session.Get("/apis/asterism.dev/v1alpha1/queues");
//
// A person waits: an answer that does not come is an error after 10 s, a connection after 5 s, and
// what may be tried again is tried once.
//
// Thread-safety: none. Cost: four threads while it lives, one connection.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/executor.h"
#include "kube/curl_http_client.h"
#include "kube/http_api_client.h"
#include "kube/kubeconfig.h"

namespace asterism::cli {

class ServerSession {
 public:
  explicit ServerSession(kube::ApiConfig config);
  ~ServerSession();
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  // The body of a 2xx answer; errors as in kube/client.h.
  absl::StatusOr<std::string> Get(std::string path);

  const std::string& server() const { return config_.server; }
  // Of the context.
  const std::string& namespace_name() const { return config_.namespace_name; }

 private:
  const kube::ApiConfig config_;
  kube::CurlHttpClient http_;
  base::ThreadExecutor executor_;
  std::unique_ptr<kube::HttpApiClient> client_;
};

}  // namespace asterism::cli
