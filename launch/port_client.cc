#include "launch/port_client.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "absl/time/time.h"

namespace asterism::launch {
namespace {

constexpr absl::Duration kReconnectPeriod = absl::Seconds(1);

}  // namespace

void PortClient::Set(const v1::WorkerState& state) {
  newest_ = state.SerializeAsString();
  unsent_ = true;
  if (socket_ < 0) {
    Connect();
  }
  Send();
}

void PortClient::Tick(base::SteadyTime now) {
  if (path_.empty()) {
    return;
  }
  Listen();
  if (socket_ < 0 && (!next_connect_ || now >= *next_connect_)) {
    next_connect_ = now + kReconnectPeriod;
    Connect();
  }
  Send();
}

void PortClient::Connect() {
  sockaddr_un address{};
  if (path_.empty() || path_.size() >= sizeof(address.sun_path)) {
    return;
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  const int attempt = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (attempt < 0) {
    return;
  }
  // A Unix socket connects at once or not at all: a full queue is EAGAIN.
  if (connect(attempt, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(attempt);
    return;
  }
  socket_ = attempt;
  unsent_ = !newest_.empty();
}

void PortClient::Send() {
  if (socket_ < 0 || !unsent_) {
    return;
  }
  const ssize_t sent = send(socket_, newest_.data(), newest_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) {
    unsent_ = false;
  } else if (errno != EAGAIN && errno != EINTR) {
    Close();
  }
}

// The agent's words are not needed here, but its end is.
void PortClient::Listen() {
  std::array<char, 4096> packet{};
  while (socket_ >= 0) {
    const ssize_t got = recv(socket_, packet.data(), packet.size(), MSG_DONTWAIT);
    if (got > 0) {
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      Close();
    }
    return;
  }
}

void PortClient::Close() {
  if (socket_ >= 0) {
    close(socket_);
  }
  socket_ = -1;
}

}  // namespace asterism::launch
