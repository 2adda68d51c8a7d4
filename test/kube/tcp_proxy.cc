#include "test/kube/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/check.h"

namespace asterism::kube {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

TcpProxy::TcpProxy(int target_port) : target_port_(target_port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  CHECK_THAT(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                 listen(listener_, 64) == 0 &&
                 getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0,
             "the proxy cannot listen");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stop_ = true;
  thread_.join();
  close(listener_);
}

void TcpProxy::Cut() {
  cut_ = true;
  while (cut_) {
    std::this_thread::yield();
  }
}

void TcpProxy::Accept() {
  Pair pair;
  pair.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  pair.server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(target_port_);
  if (connect(pair.server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(pair.client);
    close(pair.server);
    return;
  }
  pairs_.push_back(pair);
}

bool TcpProxy::Forward(int from, int to) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(from, buffer.data(), buffer.size());
  if (count <= 0) {
    return false;
  }
  for (ssize_t sent = 0; sent < count && !swallow_;) {
    const ssize_t part =
        send(to, buffer.data() + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
    if (part <= 0) {
      return false;
    }
    sent += part;
  }
  return true;
}

void TcpProxy::Run() {
  const auto end = [](const Pair& pair) {
    close(pair.client);
    close(pair.server);
  };
  while (!stop_) {
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      polled.push_back({pair.client, POLLIN, 0});
      polled.push_back({pair.server, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), 10);
    std::vector<Pair> alive;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const Pair& pair = pairs_[i];
      const bool good = !cut_ &&
                        (polled[2 * i + 1].revents == 0 || Forward(pair.client, pair.server)) &&
                        (polled[2 * i + 2].revents == 0 || Forward(pair.server, pair.client));
      if (good) {
        alive.push_back(pair);
      } else {
        end(pair);
      }
    }
    pairs_ = std::move(alive);
    cut_ = false;
    if (polled[0].revents != 0) {
      Accept();
    }
  }
  for (const Pair& pair : pairs_) {
    end(pair);
  }
}

}  // namespace asterism::kube
