#include "agent/pod_port.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

constexpr size_t kMessageMax = size_t{4} << 10;
constexpr size_t kControlGroupsMax = size_t{64} << 10;
constexpr size_t kConnectionsMax = 1024;
constexpr int kConnectionsOfPodMax = 4;
constexpr int kMessagesAPeriod = 20;
constexpr int kAcceptedAPeriod = 200;
constexpr absl::Duration kPeriod = absl::Seconds(1);

absl::StatusOr<std::string> ReadControlGroups(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return absl::NotFoundError(fmt::format("{}: {}", path, strerror(errno)));
  }
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while (text.size() < kControlGroupsMax && (got = read(file, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(file);
  return text;
}

// The process that connected may be gone and its number given to another one meanwhile: what was
// read about the number counts only while that process runs. Linux 6.5 tells which it was; before,
// the number is all there is, and a process that took it over in this moment would be mistaken.
bool StillRuns(int socket, pid_t pid) {
  constexpr int kSoPeerPidfd = 77;
  int process = -1;
  socklen_t size = sizeof(process);
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &process, &size) != 0) {
    process = errno == ENOPROTOOPT ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1;
  }
  if (process < 0) {
    return false;
  }
  pollfd ended{.fd = process, .events = POLLIN};
  const bool runs = poll(&ended, 1, 0) == 0;
  close(process);
  return runs;
}

}  // namespace

absl::StatusOr<PodIdentity> PodOfPeer(int socket, const std::string& proc) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) {
    return absl::PermissionDeniedError(
        "the caller is no process of this node that the agent can see: the agent needs hostPID");
  }
  ASSIGN_OR_RETURN(const std::string text,
                   ReadControlGroups(fmt::format("{}/{}/cgroup", proc, peer.pid)));
  std::optional<PodIdentity> pod = PodOfControlGroups(text);
  if (!pod) {
    return absl::PermissionDeniedError(fmt::format("process {} belongs to no pod", peer.pid));
  }
  if (!StillRuns(socket, peer.pid)) {
    return absl::CancelledError("the caller has gone");
  }
  return *std::move(pod);
}

absl::StatusOr<std::unique_ptr<PodPort>> PodPort::Open(PodPortOptions options,
                                                       const base::Clock& clock,
                                                       base::Executor& executor,
                                                       OnReport on_report) {
  std::unique_ptr<PodPort> port(
      new PodPort(std::move(options), clock, executor, std::move(on_report)));
  RETURN_IF_ERROR(port->Listen());
  port->thread_ = std::thread([self = port.get()] { self->Run(); });
  return port;
}

PodPort::PodPort(PodPortOptions options, const base::Clock& clock, base::Executor& executor,
                 OnReport on_report)
    : options_(std::move(options)),
      clock_(clock),
      executor_(executor),
      on_report_(std::move(on_report)) {}

PodPort::~PodPort() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof(one));
    thread_.join();
  }
  for (const auto& [socket, connection] : connections_) {
    close(socket);
  }
  for (const int descriptor : {listener_, stop_}) {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
}

absl::Status PodPort::Listen() {
  const std::string path = options_.folder + "/" + kPortSocketName;
  sockaddr_un address{.sun_family = AF_UNIX};
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(fmt::format(
        "--port-folder: {} is longer than the {} bytes of a socket's address: choose a shorter one",
        path, sizeof(address.sun_path) - 1));
  }
  path.copy(address.sun_path, path.size());
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  // What a killed agent left behind.
  unlink(path.c_str());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  stop_ = eventfd(0, EFD_CLOEXEC);
  const bool listening =
      listener_ >= 0 && stop_ >= 0 &&
      bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      // Any user of a pod may connect; who it is comes from the kernel.
      chmod(path.c_str(), 0666) == 0 && listen(listener_, 256) == 0;
  return listening ? absl::OkStatus()
                   : absl::FailedPreconditionError(
                         fmt::format("--port-folder: {}: {}", path, strerror(errno)));
}

void PodPort::Run() {
  base::SteadyTime period_end = clock_.SteadyNow() + kPeriod;
  std::vector<pollfd> waited;
  while (true) {
    const bool room = connections_.size() < kConnectionsMax && !exhausted_;
    waited = {{.fd = stop_, .events = POLLIN}, {.fd = room ? listener_ : -1, .events = POLLIN}};
    bool throttled = exhausted_;
    for (const auto& [socket, connection] : connections_) {
      const bool heard = budgets_.at(connection.pod.uid).messages < kMessagesAPeriod;
      throttled |= !heard;
      waited.push_back({.fd = socket, .events = static_cast<short>(heard ? POLLIN : 0)});
    }
    const absl::Duration left = std::max(period_end - clock_.SteadyNow(), absl::Milliseconds(1));
    poll(waited.data(), waited.size(),
         throttled ? static_cast<int>(absl::ToInt64Milliseconds(left)) + 1 : -1);
    if (waited[0].revents != 0) {
      return;
    }
    if (clock_.SteadyNow() >= period_end) {
      period_end = clock_.SteadyNow() + kPeriod;
      exhausted_ = false;
      accepted_ = 0;
      for (auto& [uid, budget] : budgets_) {
        budget.messages = 0;
      }
    }
    for (size_t i = 2; i < waited.size(); ++i) {
      if (waited[i].revents != 0) {
        Read(waited[i].fd, connections_.at(waited[i].fd));
      }
    }
    if (waited[1].revents != 0) {
      Accept();
    }
  }
}

void PodPort::Accept() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    exhausted_ = errno == EMFILE || errno == ENFILE;
    return;
  }
  exhausted_ = ++accepted_ >= kAcceptedAPeriod;
  absl::StatusOr<PodIdentity> pod = PodOfPeer(socket, options_.proc);
  const auto known = pod.ok() ? budgets_.find(pod->uid) : budgets_.end();
  const bool many = known != budgets_.end() && known->second.connections >= kConnectionsOfPodMax;
  if (!pod.ok() || many) {
    base::LogDebug("port_refused", {{"why", pod.ok() ? "too many connections of the pod"
                                                     : std::string(pod.status().message())}});
    close(socket);
    return;
  }
  ++budgets_[pod->uid].connections;
  connections_[socket].pod = *std::move(pod);
}

void PodPort::Read(int socket, Connection& connection) {
  std::array<char, kMessageMax> packet;  // NOLINT: 4 KiB that need no zeros
  const ssize_t got = recv(socket, packet.data(), packet.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  v1::WorkerState state;
  const bool readable = got > 0 && static_cast<size_t>(got) <= packet.size() &&
                        state.ParseFromArray(packet.data(), static_cast<int>(got));
  if (!readable) {
    Drop(socket);
    return;
  }
  // Unknown fields are kept by protobuf, at many times their size.
  state.DiscardUnknownFields();
  ++budgets_.at(connection.pod.uid).messages;
  if (!std::exchange(connection.told, true)) {
    v1::PortWelcome welcome;
    welcome.set_pod_uid(connection.pod.uid);
    const std::string answer = welcome.SerializeAsString();
    send(socket, answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  connection.last = {.pod = connection.pod, .state = std::move(state)};
  Report(connection.last);
}

void PodPort::Drop(int socket) {
  close(socket);
  const auto node = connections_.extract(socket);
  const auto budget = budgets_.find(node.mapped().pod.uid);
  if (--budget->second.connections == 0) {
    // What it used of the period is forgotten: that it may connect anew is bounded too.
    budgets_.erase(budget);
  }
  if (node.mapped().told) {
    WorkerReport last = node.mapped().last;
    last.connected = false;
    Report(std::move(last));
  }
}

void PodPort::Report(WorkerReport report) {
  executor_.Post([on_report = on_report_, moved = std::move(report)]() mutable {
    on_report(std::move(moved));
  });
}

}  // namespace asterism::agent
