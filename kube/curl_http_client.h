// File: kube/curl_http_client.h
//
// HttpClient on libcurl: a multi handle with a thread of its own for watches, for the Lease, and
// for each connection of the write lane; HTTP/2 over TLS, certificates from memory. A multi handle
// looks at all of its transfers whenever one of them has something, so with 256 writes in flight
// one handle for all would spend most of its time looking.
//
//   CurlHttpClient http(CurlOptions::From(config));
//
// These lane threads are the one exception to "no thread outside base": curl_multi_poll waits on
// sockets, which an Executor cannot.
//
// A connection whose peer is gone is found by TCP_USER_TIMEOUT (data unacknowledged) and TCP
// keep-alive (idle); watches also have a low-speed limit, beside the watchdog of Watcher.
// curl_easy_upkeep of libcurl 7.88 does nothing for handles of a multi, so there is no HTTP/2 PING.
//
// Thread-safety: yes. Cost: 512 POSTs to a server that answers after 5 ms: some 60 ms over 4
// connections, under 80 us of client CPU each (test/bench/kube_client_bench).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kube/http_client.h"
#include "kube/kubeconfig.h"

namespace asterism::kube {

struct CurlOptions {
  std::string server;  // https://host:port, perhaps with a path
  std::string ca_pem;
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::string user_agent = "asterism";
  int write_connections = 4;  // at least 1
  int watch_connections = 2;
  absl::Duration connect_timeout = absl::Seconds(5);
  // Data unacknowledged for so long: the connection is dead.
  absl::Duration unacknowledged_timeout = absl::Seconds(15);
  // A watch that brings nothing for so long (bookmarks come each minute) is ended.
  absl::Duration silent_watch_timeout = absl::Seconds(180);
  // A connection idle for so long is not used again (the server closes idle ones after 90 s).
  absl::Duration idle_connection_age = absl::Seconds(80);

  static CurlOptions From(const ApiConfig& config);
};

class CurlLane;

class CurlHttpClient final : public HttpClient {
 public:
  explicit CurlHttpClient(CurlOptions options);
  // Ends what runs with kCancelled and joins the threads.
  ~CurlHttpClient() override;

  void Send(HttpRequest request, HttpCallback done) override;
  std::unique_ptr<HttpStream> Open(HttpRequest request,
                                   std::shared_ptr<HttpStreamHandler> handler) override;

 private:
  const std::shared_ptr<CurlLane>& LaneFor(Lane lane);

  // By lane; the write lane has several, which take turns.
  std::array<std::vector<std::shared_ptr<CurlLane>>, 3> lanes_;
  std::atomic<size_t> turn_{0};
};

}  // namespace asterism::kube
