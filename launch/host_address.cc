#include "launch/host_address.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "launch/clocks.h"

namespace asterism::launch {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kPauseMax = absl::Seconds(1);
constexpr int kConnectMilliseconds = 3000;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

struct Lookup {
  bool done = false;
  int status = ARES_SUCCESS;
  std::vector<Address> addresses;
};

void OnAnswer(void* argument, int status, int /*timeouts*/, ares_addrinfo* answer) {
  auto& lookup = *static_cast<Lookup*>(argument);
  lookup.done = true;
  lookup.status = status;
  if (answer == nullptr) {
    return;
  }
  for (const ares_addrinfo_node* node = answer->nodes; node != nullptr; node = node->ai_next) {
    if (node->ai_addrlen <= sizeof(sockaddr_storage)) {
      Address& address = lookup.addresses.emplace_back();
      std::memcpy(&address.storage, node->ai_addr, node->ai_addrlen);
      address.size = node->ai_addrlen;
    }
  }
  ares_freeaddrinfo(answer);
}

absl::StatusOr<std::vector<Address>> Resolve(const std::string& host, uint16_t port) {
  ares_channel channel = nullptr;
  if (const int status = ares_init(&channel); status != ARES_SUCCESS) {
    return absl::UnavailableError(std::string("resolver: ") + ares_strerror(status));
  }
  Lookup lookup;
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = ARES_AI_NUMERICSERV;
  ares_getaddrinfo(channel, host.c_str(), std::to_string(port).c_str(), &hints, OnAnswer, &lookup);
  while (!lookup.done) {
    std::array<ares_socket_t, ARES_GETSOCK_MAXNUM> sockets{};
    const int wanted = ares_getsock(channel, sockets.data(), static_cast<int>(sockets.size()));
    std::vector<pollfd> waited;
    for (unsigned i = 0; i < sockets.size(); ++i) {
      const bool readable = ARES_GETSOCK_READABLE(wanted, i) != 0;
      const bool writable = ARES_GETSOCK_WRITABLE(wanted, i) != 0;
      if (readable || writable) {
        waited.push_back(
            {.fd = sockets[i],
             .events = static_cast<short>((readable ? POLLIN : 0) | (writable ? POLLOUT : 0))});
      }
    }
    if (waited.empty()) {
      break;
    }
    timeval limit{.tv_sec = 1, .tv_usec = 0};
    const timeval* next = ares_timeout(channel, &limit, &limit);
    poll(waited.data(), waited.size(),
         static_cast<int>(next->tv_sec * 1000 + next->tv_usec / 1000 + 1));
    bool ready = false;
    for (const pollfd& entry : waited) {
      if (entry.revents != 0) {
        ready = true;
        ares_process_fd(channel, entry.fd, entry.fd);
      }
    }
    if (!ready) {
      ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
  }
  ares_destroy(channel);
  if (lookup.addresses.empty()) {
    return absl::UnavailableError(host + ": " + ares_strerror(lookup.status));
  }
  return std::move(lookup.addresses);
}

absl::StatusOr<int> ConnectOnce(const Address& address) {
  const int connection =
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) {
    return absl::UnavailableError(strerror(errno));
  }
  int error = 0;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      pollfd waited{.fd = connection, .events = POLLOUT};
      socklen_t size = sizeof(error);
      if (poll(&waited, 1, kConnectMilliseconds) != 1) {
        error = ETIMEDOUT;
      } else if (getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
      }
    }
  }
  if (error != 0) {
    close(connection);
    return absl::UnavailableError(strerror(error));
  }
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  return connection;
}

absl::StatusOr<int> TryAll(const std::string& host, uint16_t port) {
  ASSIGN_OR_RETURN(const std::vector<Address> addresses, Resolve(host, port));
  absl::StatusOr<int> last = absl::UnavailableError(host);
  for (const Address& address : addresses) {
    last = ConnectOnce(address);
    if (last.ok()) {
      return last;
    }
  }
  return absl::UnavailableError(host + " port " + std::to_string(port) + ": " +
                                std::string(last.status().message()));
}

// Between two dots.
bool IsLabel(std::string_view label) {
  constexpr size_t kLabelMax = 63;
  return !label.empty() && label.size() <= kLabelMax && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_';
         });
}

bool IsName(std::string_view host) {
  constexpr size_t kNameMax = 253;
  if (host.ends_with('.')) {
    host.remove_suffix(1);
  }
  if (host.size() > kNameMax) {
    return false;
  }
  std::string_view label;
  do {
    label = host.substr(0, host.find('.'));
    if (!IsLabel(label)) {
      return false;
    }
    host.remove_prefix(std::min(label.size() + 1, host.size()));
  } while (!host.empty());
  // What ends in a number is an address or nothing.
  return label.find_first_not_of("0123456789") != std::string_view::npos;
}

}  // namespace

absl::Status CheckHost(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  if (inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
      inet_pton(AF_INET6, host.c_str(), address.data()) == 1 || IsName(host)) {
    return absl::OkStatus();
  }
  const std::string what = "\"" + host + "\" is no host: ";
  if (host.starts_with('[') && host.ends_with(']')) {
    return absl::InvalidArgumentError(what + "write the address without brackets");
  }
  return absl::InvalidArgumentError(
      what + "write a name of the job's host file, or an IP address, without a port");
}

absl::StatusOr<int> ConnectTo(const std::string& host, uint16_t port, absl::Duration limit) {
  RETURN_IF_ERROR(CheckHost(host));
  ares_library_init(ARES_LIB_INIT_ALL);
  const base::SteadyTime end = SteadyNow() + limit;
  absl::Duration pause = kFirstPause;
  absl::StatusOr<int> connection = TryAll(host, port);
  while (!connection.ok() && SteadyNow() + pause < end) {
    absl::SleepFor(pause);
    pause = std::min(pause * 2, kPauseMax);
    connection = TryAll(host, port);
  }
  return connection;
}

}  // namespace asterism::launch
