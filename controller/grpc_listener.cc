#include "controller/grpc_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/open_files.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

constexpr size_t kConnectionsMin = 16;
constexpr absl::Duration kSweepPeriod = absl::Milliseconds(100);
constexpr absl::Duration kIdleSweepPeriod = absl::Seconds(10);
constexpr absl::Duration kTellPeriod = absl::Seconds(10);
constexpr int kRetryMilliseconds = 100;

std::string AddressText(std::string_view address, uint16_t port) {
  const bool ipv6 = address.find(':') != std::string_view::npos;
  return ipv6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

// 0 is no cookie, and never the one of a socket.
uint64_t CookieOf(int socket) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

GrpcListener::GrpcListener(GrpcListenerOptions options) : options_(std::move(options)) {
  if (options_.connections_max == 0) {
    options_.connections_max = base::OpenFileLimit() / 2;
  }
  options_.connections_max = std::max(options_.connections_max, kConnectionsMin);
  options_.connections_per_address_max =
      std::min(options_.connections_per_address_max, options_.connections_max / 8);
}

GrpcListener::~GrpcListener() {
  Stop();
}

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Listen(GrpcListenerOptions options) {
  std::unique_ptr<GrpcListener> listener(new GrpcListener(std::move(options)));
  RETURN_IF_ERROR(listener->Bind());
  return listener;
}

absl::Status GrpcListener::CannotListen(const std::string& why) const {
  return absl::FailedPreconditionError(
      fmt::format("ports.grpc: cannot listen on {}: {}: end what uses the port, or choose another",
                  AddressText(options_.address, options_.port), why));
}

absl::Status GrpcListener::Bind() {
  sockaddr_storage storage{};
  socklen_t size = 0;
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, options_.address.c_str(), &ipv4->sin_addr) == 1) {
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(options_.port);
    size = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, options_.address.c_str(), &ipv6->sin6_addr) == 1) {
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(options_.port);
    size = sizeof(sockaddr_in6);
  } else {
    return absl::InvalidArgumentError(
        fmt::format("--bind-address: \"{}\" is not an IP address: use 0.0.0.0, or :: for IPv6 too",
                    options_.address));
  }
  listening_ = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int on = 1;
  const int off = 0;
  // What a closed connection leaves behind does not count.
  setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (storage.ss_family == AF_INET6) {
    setsockopt(listening_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (listening_ < 0 || wake_ < 0 ||
      bind(listening_, reinterpret_cast<const sockaddr*>(&storage), size) != 0 ||
      listen(listening_, SOMAXCONN) != 0 ||
      getsockname(listening_, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return CannotListen(errno == EADDRINUSE ? "the port is taken" : "the system refuses it");
  }
  options_.port = ntohs(storage.ss_family == AF_INET6 ? ipv6->sin6_port : ipv4->sin_port);
  return absl::OkStatus();
}

void GrpcListener::Start(Take take) {
  take_ = std::move(take);
  thread_.Post([this] { Run(); });
}

void GrpcListener::Stop() {
  if (wake_ >= 0) {
    const uint64_t one = 1;
    static_cast<void>(write(wake_, &one, sizeof(one)) == sizeof(one));
  }
  thread_.Stop();
  for (int* descriptor : {&listening_, &wake_}) {
    if (*descriptor >= 0) {
      close(std::exchange(*descriptor, -1));
    }
  }
}

void GrpcListener::Run() {
  swept_ = clock_.SteadyNow();
  for (;;) {
    pollfd events[] = {{listening_, POLLIN, 0}, {wake_, POLLIN, 0}};
    poll(events, 2, static_cast<int>(absl::ToInt64Milliseconds(kIdleSweepPeriod)));
    if (events[1].revents != 0) {
      return;
    }
    while (AcceptOne()) {
    }
    if (clock_.SteadyNow() - swept_ >= kIdleSweepPeriod) {
      Sweep();
    }
  }
}

bool GrpcListener::AcceptOne() {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  const int socket = accept4(listening_, reinterpret_cast<sockaddr*>(&storage), &size,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket >= 0) {
    Judge(socket, server::PeerOf(reinterpret_cast<const sockaddr&>(storage)));
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return false;
  }
  // Out of files or memory: somebody else took them, and they come back. The port stays ours.
  if (errno != ECONNABORTED && errno != EINTR) {
    if (MayTell()) {
      base::LogWarning("grpc_accept_failed", {{"error", std::string(strerrordesc_np(errno))}});
    }
    pollfd stopping = {wake_, POLLIN, 0};
    poll(&stopping, 1, kRetryMilliseconds);
  }
  return false;
}

void GrpcListener::Judge(int socket, Peer peer) {
  if (!HasRoom(peer)) {
    close(socket);
    return;
  }
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  peers_[peer].push_back({socket, CookieOf(socket)});
  ++connections_;
  take_(socket);
}

bool GrpcListener::HasRoom(Peer peer) {
  if (const auto known = peers_.find(peer); known != peers_.end()) {
    const size_t before = known->second.size();
    DropClosed(known->second);
    connections_ -= before - known->second.size();
    if (known->second.empty()) {
      peers_.erase(known);
    }
  }
  const auto mine = peers_.find(peer);
  const size_t of_peer = mine == peers_.end() ? 0 : mine->second.size();
  const server::PeerLimits limits = {.all_max = options_.connections_max,
                                     .each_max = options_.connections_per_address_max};
  const size_t limit = limits.AllMaxFor(of_peer);
  if (connections_ >= limit && clock_.SteadyNow() - swept_ >= kSweepPeriod) {
    Sweep();
  }
  if (limits.Allow(connections_, of_peer)) {
    return true;
  }
  if (MayTell()) {
    base::LogWarning("grpc_connection_refused", {{"connections", uint64_t{connections_}},
                                                 {"of_the_peer", uint64_t{of_peer}},
                                                 {"limit", uint64_t{limit}}});
  }
  return false;
}

// Who fills the port must not fill the log, too.
bool GrpcListener::MayTell() {
  const base::SteadyTime now = clock_.SteadyNow();
  if (told_ && now - *told_ < kTellPeriod) {
    return false;
  }
  told_ = now;
  return true;
}

void GrpcListener::Sweep() {
  swept_ = clock_.SteadyNow();
  connections_ = 0;
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    DropClosed(peer->second);
    connections_ += peer->second.size();
    peer = peer->second.empty() ? peers_.erase(peer) : std::next(peer);
  }
}

void GrpcListener::DropClosed(std::vector<Connection>& connections) {
  std::erase_if(connections, [](const Connection& connection) {
    return CookieOf(connection.socket) != connection.cookie;
  });
}

}  // namespace asterism::controller
