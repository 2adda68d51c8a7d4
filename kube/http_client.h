// File: kube/http_client.h
//
// HTTP requests to one API server, in three lanes that do not hold each other up (watches, writes
// and reads, leases). No knowledge of Kubernetes beyond that; HttpApiClient adds it.
//
//   http.Send({.method = "GET", .target = "/api/v1/nodes", .lane = Lane::kWrite, ...},
//             [](HttpResult result) { ... });
//
// Thread-safety: calls from any thread. Callbacks come on a thread of the lane: they must be short
// and must not block. Each Send ends in exactly one callback, also when the client is destroyed.
// Cost: see CurlHttpClient.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kube/client.h"
#include "kube/credentials.h"

namespace asterism::kube {

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // path and query, encoded
  std::string accept;
  std::string content_type;  // of `body`; empty: no body
  std::string body;
  std::shared_ptr<const Credentials> credentials;  // null: none
  absl::Duration timeout = absl::Seconds(10);      // infinite: no limit
  Lane lane = Lane::kWrite;
};

struct HttpResult {
  // OK when an answer came, whatever its code. Else kUnavailable, kDeadlineExceeded or kCancelled.
  absl::Status error;
  // Without an answer: the request may have reached the server.
  bool maybe_sent = true;

  int code = 0;
  std::string content_type;  // without parameters
  std::optional<absl::Duration> retry_after;
  std::string body;
};

// Receives an answer piece by piece.
class HttpStreamHandler {
 public:
  virtual ~HttpStreamHandler() = default;
  // Bytes of an answer with a 2xx code, as they come. `content_type` is without parameters.
  virtual void OnBytes(std::string_view content_type, std::string_view bytes) = 0;
  // Once, at the end. Of an answer with another code, `body` has the first 64 KiB.
  virtual void OnEnd(HttpResult result) = 0;
};

// Destroying it ends the stream; a callback that runs at that moment finishes, later ones do not
// come, OnEnd neither.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
};

using HttpCallback = absl::AnyInvocable<void(HttpResult)>;

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual void Send(HttpRequest request, HttpCallback done) = 0;
  virtual std::unique_ptr<HttpStream> Open(HttpRequest request,
                                           std::shared_ptr<HttpStreamHandler> handler) = 0;
};

}  // namespace asterism::kube
