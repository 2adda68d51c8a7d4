#include "server/http_server.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "server/http_session.h"
#include "server/peer_room.h"

namespace asterism::server {
namespace {

namespace asio = boost::asio;
using internal::Acceptor;
using internal::Awaitable;
using internal::ErrorCode;
using internal::IoThread;
using internal::IoTimer;
using internal::kAwait;
using internal::Shared;
using internal::Socket;
using internal::StreamSession;
using internal::TlsStream;

absl::Status CheckHttpOptions(const HttpServerOptions& options) {
  if (options.threads < 1 || options.threads > 8) {
    return absl::InvalidArgumentError(
        fmt::format("threads: {} is out of range: use 1 to 8", options.threads));
  }
  if (options.header_bytes_max < 1024 || options.connections_max < 1 ||
      options.connections_per_peer_max < 0) {
    return absl::InvalidArgumentError(
        "header_bytes_max must be at least 1024, connections_max at least 1, and "
        "connections_per_peer_max not negative");
  }
  for (const absl::Duration limit :
       {options.handshake_timeout, options.header_timeout, options.body_timeout,
        options.write_timeout, options.idle_timeout, options.sweep_interval, options.stop_grace}) {
    if (limit <= absl::ZeroDuration() || limit > absl::Hours(24)) {
      return absl::InvalidArgumentError(
          "time-outs, sweep_interval and stop_grace must be above zero and at most 24 hours");
    }
  }
  return absl::OkStatus();
}

absl::Status ListenError(const HttpServerOptions& options, const ErrorCode& error) {
  const char* remedy = "check address and port";
  if (error == asio::error::address_in_use) {
    remedy = "another process has the port: stop it or set another port";
  } else if (error == asio::error::access_denied) {
    remedy = "ports below 1024 need CAP_NET_BIND_SERVICE: set a higher port";
  } else if (error == boost::system::errc::address_not_available) {
    remedy = "this machine does not have that address: use 0.0.0.0 or one of its own";
  }
  return absl::UnavailableError(fmt::format("cannot listen on {} port {}: {}: {}", options.address,
                                            options.port, error.message(), remedy));
}

}  // namespace

HttpServerMetrics::HttpServerMetrics(base::MetricRegistry& registry)
    : answers_{},
      connections_(
          registry.AddGauge("asterism_http_connections", "Open HTTP connections.").With({})),
      refused_(registry
                   .AddCounter("asterism_http_connections_refused_total",
                               "Connections closed because the server had its maximum.")
                   .With({})),
      handshakes_failed_(registry
                             .AddCounter("asterism_http_handshake_failures_total",
                                         "TLS handshakes that failed: a caller without a good "
                                         "certificate, or one who does not trust ours.")
                             .With({})),
      reloads_good_(registry
                        .AddCounter("asterism_http_certificate_reloads_total",
                                    "Reads of changed certificate files that succeeded.")
                        .With({})),
      reloads_failed_(registry
                          .AddCounter("asterism_http_certificate_reload_failures_total",
                                      "Reads of changed certificate files that failed; the "
                                      "former certificate stays in use.")
                          .With({})) {
  base::CounterFamily& answers =
      registry.AddCounter("asterism_http_answers_total", "HTTP answers by code.", {"code"});
  for (size_t i = 0; i < kCodes.size(); ++i) {
    answers_[i] = &answers.With({std::to_string(kCodes[i])});
  }
  answers_.back() = &answers.With({"other"});
}

void HttpServerMetrics::CountAnswer(int code) {
  const auto found = std::find(kCodes.begin(), kCodes.end(), code);
  answers_[static_cast<size_t>(found - kCodes.begin())]->Add();
}

void HttpServerMetrics::ChangeConnections(int delta) {
  connections_.Set(static_cast<double>(connection_count_.fetch_add(delta) + delta));
}

struct HttpServer::Impl {
  Impl(const base::Clock& clock, HttpRoutes routes, HttpServerMetrics& metrics,
       HttpServerOptions options)
      : shared{clock, std::move(routes), metrics, std::move(options)} {
    for (int i = 0; i < shared.options.threads; ++i) {
      threads.push_back(std::make_unique<IoThread>(shared, fmt::format("http-io-{}", i)));
    }
    acceptor.emplace(threads[0]->context());
    accept_timer.emplace(threads[0]->context());
  }

  absl::Status Listen() {
    const HttpServerOptions& options = shared.options;
    ErrorCode error;
    const asio::ip::address address = asio::ip::make_address(options.address, error);
    if (error) {
      return absl::InvalidArgumentError("address: \"" + options.address +
                                        "\" is not an IP address: use for example 0.0.0.0 or ::");
    }
    const asio::ip::tcp::endpoint endpoint(address, options.port);
    acceptor->open(endpoint.protocol(), error);
    if (!error && address.is_v6()) {
      acceptor->set_option(asio::ip::v6_only(false), error);
    }
    if (!error) {
      acceptor->set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error) {
      acceptor->bind(endpoint, error);
    }
    if (!error) {
      acceptor->listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
      return ListenError(options, error);
    }
    port = acceptor->local_endpoint().port();
    return absl::OkStatus();
  }

  Awaitable<void> Accept() {
    for (size_t next = 0; !shared.stopping; next = (next + 1) % threads.size()) {
      IoThread& thread = *threads[next];
      ErrorCode error;
      Socket socket =
          co_await acceptor->async_accept(thread.context(), asio::redirect_error(kAwait, error));
      if (shared.stopping || error == asio::error::operation_aborted) {
        break;
      }
      if (error) {
        // Out of file descriptors, most likely: waiting keeps the connections in the kernel's
        // queue.
        base::LogWarning("http_accept_failed", {{"error", error.message()}});
        accept_timer->expires_after(std::chrono::milliseconds(100));
        co_await accept_timer->async_wait(asio::redirect_error(kAwait, error));
        continue;
      }
      Begin(thread, std::move(socket));
    }
  }

  void Begin(IoThread& thread, Socket socket) {
    ErrorCode ignored;
    const auto address = socket.remote_endpoint(ignored);
    const Peer peer = PeerOf(*address.data());
    if (!shared.room.Enter(peer)) {
      shared.metrics.CountRefused();
      return;  // closes the socket
    }
    shared.connections.fetch_add(1);
    shared.metrics.ChangeConnections(1);
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    if (shared.options.certificates == nullptr) {
      Spawn(thread, std::move(socket), peer);
      return;
    }
    if (const absl::Status status = RenewTlsContext(); !status.ok()) {
      base::LogWarning("certificate_not_used", {{"error", base::ToStd(status.message())},
                                                {"effect", "the former stays in use"}});
    }
    SSL_CTX_up_ref(tls_context.get());
    asio::ssl::context context(tls_context.get());  // takes over that reference
    Spawn(thread, TlsStream(std::move(socket), context), peer);
  }

  // A certificate that cannot serve these clients leaves the former in use.
  absl::Status RenewTlsContext() {
    std::shared_ptr<const TlsMaterial> material = shared.options.certificates->Current();
    if (material == tls_material) {
      return absl::OkStatus();
    }
    tls_material = std::move(material);
    ASSIGN_OR_RETURN(tls_context, MakeTlsContext(*tls_material, shared.options.clients,
                                                 shared.options.client_name));
    return absl::OkStatus();
  }

  template <typename Stream>
  void Spawn(IoThread& thread, Stream stream, Peer peer) {
    auto session = std::make_shared<StreamSession<Stream>>(shared, thread, std::move(stream), peer);
    asio::co_spawn(
        thread.context(), [session] { return session->Run(); }, asio::detached);
  }

  void Stop() {
    if (shared.stopping.exchange(true)) {
      return;
    }
    asio::post(threads[0]->context(), [this] {
      ErrorCode ignored;
      acceptor->close(ignored);
      accept_timer->cancel();
      // Only now: what this thread accepted before is already on its way to its own thread.
      for (const auto& thread : threads) {
        thread->BeginStop();
      }
    });
    for (const auto& thread : threads) {
      thread->Join();
    }
  }

  Shared shared;
  // Of the accepting thread.
  std::shared_ptr<const TlsMaterial> tls_material;
  std::shared_ptr<SSL_CTX> tls_context;
  uint16_t port = 0;
  std::vector<std::unique_ptr<IoThread>> threads;
  std::optional<Acceptor> acceptor;
  std::optional<IoTimer> accept_timer;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  Stop();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const base::Clock& clock,
                                                              HttpRoutes routes,
                                                              HttpServerMetrics& metrics,
                                                              HttpServerOptions options) {
  RETURN_IF_ERROR(CheckHttpOptions(options));
  auto impl = std::make_unique<Impl>(clock, std::move(routes), metrics, std::move(options));
  if (impl->shared.options.certificates != nullptr) {
    RETURN_IF_ERROR(impl->RenewTlsContext());
  }
  RETURN_IF_ERROR(impl->Listen());
  for (const auto& thread : impl->threads) {
    thread->Start();
  }
  asio::co_spawn(impl->threads[0]->context(), impl->Accept(), asio::detached);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const {
  return impl_->port;
}

int HttpServer::connection_count() const {
  return impl_->shared.connections;
}

void HttpServer::Stop() {
  impl_->Stop();
}

}  // namespace asterism::server
