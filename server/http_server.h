// File: server/http_server.h
//
// An HTTP/1.1 server, plain or TLS, for the callers that a control plane has: kube-scheduler
// (extender), the API server (webhooks), the kubelet (probes), Prometheus and browsers.
//
//   HttpServerMetrics metrics(registry);           // once a program
//   ASSIGN_OR_RETURN(auto server, HttpServer::Start(clock, std::move(routes), metrics,
//                                                   {.address = "0.0.0.0", .port = 8443}));
//   LogInfo("listening", {{"port", server->port()}});
//
// Answers carry Content-Length and leave in one write; connections are kept alive. Bodies need a
// Content-Length (411 otherwise). What the server itself refuses is plain text that says why: 400,
// 404, 405, 408, 411, 413, 431, 500 (the handler threw), 503 (bodies in flight over their bound).
// Everything that a client can make grow is bounded by the options.
//
// Thread-safety: handlers run on the I/O threads; Stop and the destructor belong to one owner and
// are not called from a handler. Cost: about 10 us of CPU a request beside the handler's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "server/certificate_source.h"
#include "server/http_routes.h"
#include "server/tls_context.h"

namespace asterism::server {

// Shared by all servers of a program; outlives them.
class HttpServerMetrics {
 public:
  explicit HttpServerMetrics(base::MetricRegistry& registry);

  void CountAnswer(int code);
  void ChangeConnections(int delta);
  void CountRefused() { refused_.Add(); }
  void CountFailedHandshake() { handshakes_failed_.Add(); }
  void CountReload(bool good) { (good ? reloads_good_ : reloads_failed_).Add(); }

 private:
  static constexpr std::array kCodes = {200, 400, 404, 405, 408, 411, 413, 431, 500, 503};

  std::array<base::Counter*, kCodes.size() + 1> answers_;  // the last one is "other"
  base::Gauge& connections_;
  std::atomic<int64_t> connection_count_{0};
  base::Counter& refused_;
  base::Counter& handshakes_failed_;
  base::Counter& reloads_good_;
  base::Counter& reloads_failed_;
};

struct HttpServerOptions {
  std::string address = "0.0.0.0";            // an IP address; "::" takes IPv4 too
  uint16_t port = 0;                          // 0: any free one, see port()
  int threads = 1;                            // 1 to 8
  CertificateSource* certificates = nullptr;  // outlives the server; null: plain HTTP
  Clients clients = Clients::kAnybody;        // whom TLS serves
  std::string client_name;                    // see MakeTlsContext
  uint64_t body_bytes_max = uint64_t{8} << 20;
  // Bodies of all requests being read or answered; further requests get 503.
  uint64_t bodies_in_flight_bytes_max = uint64_t{128} << 20;
  uint32_t header_bytes_max = 16 << 10;
  int connections_max = 1024;  // further ones are closed at once
  // 0: one peer may have all. Else the last quarter is for peers that have none: see peer_room.h.
  int connections_per_peer_max = 0;
  // A caller whom nobody knows yet holds a connection no longer than this.
  absl::Duration handshake_timeout = absl::Seconds(3);
  // From the first byte of a request (or from accept) to its last header.
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Seconds(10);
  absl::Duration write_timeout = absl::Seconds(10);
  absl::Duration idle_timeout = absl::Seconds(120);  // longer than the 90 s of Go's clients
  // Deadlines are looked at this often, so they are late by up to this much.
  absl::Duration sweep_interval = absl::Milliseconds(250);
  absl::Duration stop_grace = absl::Seconds(2);
};

class HttpServer {
 public:
  // Listens when it returns. Errors name the address and what to do: a port that is taken, a
  // certificate that cannot be read, an option out of range.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const base::Clock& clock,
                                                           HttpRoutes routes,
                                                           HttpServerMetrics& metrics,
                                                           HttpServerOptions options);
  ~HttpServer();  // Stop

  uint16_t port() const;
  int connection_count() const;

  // Takes no new connection, lets requests that have begun finish within stop_grace, closes the
  // rest, ends the threads. Again is harmless.
  void Stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace asterism::server
