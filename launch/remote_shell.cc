#include "launch/remote_shell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "launch/child_process.h"
#include "launch/clocks.h"
#include "launch/host_address.h"
#include "launch/pending_callers.h"
#include "launch/psk_channel.h"
#include "launch/remote_command.h"

namespace asterism::launch {
namespace {

constexpr int kSocketBuffer = 256 << 10;
constexpr size_t kCallersMax = 256;
// For a caller that connects, until it has proved that it belongs to the job, all in all.
constexpr unsigned kProofSeconds = 5;
constexpr absl::Duration kHandshake = absl::Seconds(10);
constexpr absl::Duration kReach = absl::Seconds(120);
constexpr absl::Duration kReachPause = absl::Milliseconds(200);
constexpr absl::Duration kReachForEnd = absl::Seconds(2);
constexpr absl::Duration kEndForAll = absl::Seconds(5);
constexpr size_t kTellersMax = 256;
constexpr int kHandlerSawEnd = 77;

absl::StatusOr<std::string> ReadKey(const RemoteSettings& settings) {
  if (settings.key_path.empty() || settings.port == 0) {
    return absl::FailedPreconditionError(
        "ASTERISM_JOB_KEY and ASTERISM_REMOTE_PORT are not set: this works in pods of an MPI job");
  }
  std::ifstream file(settings.key_path, std::ios::binary);
  std::string key((std::istreambuf_iterator<char>(file)), {});
  if (!file || key.size() < kPskKeyMin) {
    return absl::FailedPreconditionError(settings.key_path +
                                         ": cannot be read, or has fewer than 32 bytes");
  }
  return key;
}

void GiveRoom(int socket) {
  const int size = kSocketBuffer;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

bool WriteAll(int descriptor, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(descriptor, data.data(), data.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    data.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
  return true;
}

// In the handler's process; its exit code. Its PID goes through `proved` when the caller has proved
// that it belongs to the job.
int Handle(int connection, const std::string& key, const sigset_t& mask, int proved) {
  // Ends this process, however slowly the caller talks.
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  signal(SIGALRM, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  alarm(kProofSeconds);
  GiveRoom(connection);
  absl::StatusOr<PskChannel> channel = PskChannel::Accept(connection, key, kHandshake);
  if (!channel.ok()) {
    return 1;
  }
  alarm(0);
  const pid_t self = getpid();
  [[maybe_unused]] const ssize_t told = write(proved, &self, sizeof(self));
  close(proved);
  const absl::StatusOr<PskMessage> first = channel->Receive();
  if (!first.ok()) {
    return 1;
  }
  if (first->kind == kJobEndMessage) {
    return kHandlerSawEnd;
  }
  if (first->kind != kCommandMessage) {
    return 1;
  }
  const absl::Status status = RemoteCommand(*channel, mask).Run(first->data);
  if (!status.ok()) {
    static_cast<void>(
        channel->Send({.kind = kErrorsMessage, .data = std::string(status.message()) + "\n"}));
    static_cast<void>(
        channel->Send({.kind = kExitMessage, .data = std::to_string(ExitCodeFor(status))}));
  }
  return 0;
}

absl::StatusOr<int> ListenOn(uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool ipv6 = listener >= 0;
  const int fallback =
      ipv6 ? listener : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  const int off = 0;
  setsockopt(fallback, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 any6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  sockaddr_in any4{.sin_family = AF_INET, .sin_port = htons(port)};
  if (ipv6) {
    setsockopt(fallback, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  const auto* address =
      ipv6 ? reinterpret_cast<const sockaddr*>(&any6) : reinterpret_cast<const sockaddr*>(&any4);
  const socklen_t size = ipv6 ? sizeof(any6) : sizeof(any4);
  if (fallback < 0 || bind(fallback, address, size) != 0 || listen(fallback, 1024) != 0) {
    const std::string why = strerror(errno);
    if (fallback >= 0) {
      close(fallback);
    }
    return absl::FailedPreconditionError("worker: cannot listen on port " + std::to_string(port) +
                                         ": " + why);
  }
  return fallback;
}

std::string PeerText(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address =
      peer.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(&peer)->sin_addr;
  return inet_ntop(peer.ss_family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

// Waits for callers of this job.
class WorkerPort {
 public:
  WorkerPort(int listener, std::string key) : listener_(listener), key_(std::move(key)) {
    sigemptyset(&mask_);
  }
  ~WorkerPort() {
    for (const int descriptor : {listener_, proved_[0], proved_[1]}) {
      if (descriptor >= 0) {
        close(descriptor);
      }
    }
  }
  WorkerPort(const WorkerPort&) = delete;
  WorkerPort& operator=(const WorkerPort&) = delete;

  // Until one of them says that the job has ended.
  absl::Status Serve() {
    if (pipe2(proved_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      return absl::ResourceExhaustedError(std::string("pipe: ") + strerror(errno));
    }
    while (!Reap()) {
      TakeProved();
      const bool full = handlers_.size() - pending_.size() >= kCallersMax;
      std::array<pollfd, 2> waited = {pollfd{.fd = full ? -1 : listener_, .events = POLLIN},
                                      pollfd{.fd = proved_[0], .events = POLLIN}};
      if (poll(waited.data(), waited.size(), 100) > 0 && waited[0].revents != 0) {
        TakeCaller();
      }
    }
    return absl::OkStatus();
  }

 private:
  // Forgets handlers that have ended; true when one of them was told that the job has ended.
  bool Reap() {
    bool job_ended = false;
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      const bool ours = handlers_.erase(pid) > 0;
      pending_.Remove(pid);
      job_ended |= ours && WIFEXITED(status) && WEXITSTATUS(status) == kHandlerSawEnd;
    }
    return job_ended;
  }

  void TakeProved() {
    pid_t handler = 0;
    while (read(proved_[0], &handler, sizeof(handler)) == sizeof(handler)) {
      pending_.Remove(handler);
    }
  }

  void TakeCaller() {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int connection =
        accept4(listener_, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC);
    if (connection < 0) {
      return;
    }
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    const pid_t handler = fork();
    if (handler == 0) {
      close(listener_);
      close(proved_[0]);
      _exit(Handle(connection, key_, mask_, proved_[1]));
    }
    close(connection);
    if (handler < 0) {
      return;
    }
    handlers_.insert(handler);
    // Not one that has proved itself this very moment.
    TakeProved();
    if (const auto given_up = pending_.Add(handler, PeerText(peer))) {
      kill(*given_up, SIGKILL);
    }
  }

  const int listener_;
  const std::string key_;
  sigset_t mask_{};
  std::array<int, 2> proved_ = {-1, -1};
  std::set<pid_t> handlers_;
  PendingCallers pending_;
};

// The remote shell of one command, on the caller's side.
class Caller {
 public:
  explicit Caller(PskChannel& channel) : channel_(channel) {}

  absl::StatusOr<int> Run() {
    bool can_send = true;
    while (!code_) {
      if (channel_.pending()) {
        RETURN_IF_ERROR(Take());
        continue;
      }
      std::array<pollfd, 2> waited = {
          pollfd{.fd = channel_.socket(),
                 .events = static_cast<short>(POLLIN | (can_send ? 0 : POLLOUT))},
          pollfd{.fd = can_send && input_open_ ? STDIN_FILENO : -1, .events = POLLIN}};
      if (poll(waited.data(), waited.size(), -1) < 0) {
        continue;
      }
      can_send = can_send || (waited[0].revents & POLLOUT) != 0;
      if ((waited[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        RETURN_IF_ERROR(Take());
      }
      if (!code_ && waited[1].revents != 0) {
        RETURN_IF_ERROR(GiveInput());
        can_send = false;
      }
    }
    return *code_;
  }

 private:
  absl::Status Take() {
    ASSIGN_OR_RETURN(const PskMessage message, channel_.Receive());
    if (message.kind == kExitMessage) {
      int code = 1;
      std::from_chars(message.data.data(), message.data.data() + message.data.size(), code);
      code_ = code;
    } else if (message.kind == kOutputMessage) {
      WriteAll(STDOUT_FILENO, message.data);
    } else if (message.kind == kErrorsMessage) {
      WriteAll(STDERR_FILENO, message.data);
    }
    return absl::OkStatus();
  }

  absl::Status GiveInput() {
    std::string data(kStreamPiece, '\0');
    const ssize_t got = read(STDIN_FILENO, data.data(), data.size());
    if (got <= 0) {
      input_open_ = got < 0 && errno == EINTR;
      return input_open_ ? absl::OkStatus() : channel_.Send({.kind = kInputEndMessage});
    }
    data.resize(static_cast<size_t>(got));
    return channel_.Send({.kind = kInputMessage, .data = std::move(data)});
  }

  PskChannel& channel_;
  bool input_open_ = true;
  std::optional<int> code_;
};

// A worker that does not answer, or that had to end the connection for others, is asked again; one
// with another key is not.
absl::StatusOr<PskChannel> Reach(const std::string& host, const std::string& key, uint16_t port,
                                 absl::Duration limit) {
  const base::SteadyTime end = SteadyNow() + limit;
  while (true) {
    ASSIGN_OR_RETURN(const int connection, ConnectTo(host, port, end - SteadyNow()));
    GiveRoom(connection);
    fcntl(connection, F_SETFL, 0);
    const absl::Duration left = std::max(end - SteadyNow(), absl::Seconds(1));
    absl::StatusOr<PskChannel> channel =
        PskChannel::Connect(connection, key, std::min(kHandshake, left));
    if (channel.ok()) {
      return channel;
    }
    const bool again =
        absl::IsDeadlineExceeded(channel.status()) || absl::IsUnavailable(channel.status());
    if (!again || SteadyNow() + kReachPause >= end) {
      const std::string remedy =
          again ? ": does `asterism-launch worker` run there, and is its node overloaded?" : "";
      return absl::Status(channel.status().code(), host + " port " + std::to_string(port) + ": " +
                                                       std::string(channel.status().message()) +
                                                       remedy);
    }
    absl::SleepFor(kReachPause);
  }
}

[[noreturn]] void TellTheEnd(const std::string& host, const std::string& key, uint16_t port,
                             pid_t teller) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == teller) {
    absl::StatusOr<PskChannel> channel = Reach(host, key, port, kReachForEnd);
    if (channel.ok()) {
      static_cast<void>(channel->Send({.kind = kJobEndMessage}));
    }
  }
  _exit(0);
}

}  // namespace

RemoteSettings RemoteSettingsFrom(const std::function<const char*(const char*)>& environment) {
  RemoteSettings settings;
  if (const char* key = environment("ASTERISM_JOB_KEY")) {
    settings.key_path = key;
  }
  if (const char* port = environment("ASTERISM_REMOTE_PORT")) {
    const std::string_view text(port);
    std::from_chars(text.data(), text.data() + text.size(), settings.port);
  }
  return settings;
}

absl::Status ServeRemoteCommands(const RemoteSettings& settings) {
  ASSIGN_OR_RETURN(const std::string key, ReadKey(settings));
  ASSIGN_OR_RETURN(const int listener, ListenOn(settings.port));
  signal(SIGPIPE, SIG_IGN);
  return WorkerPort(listener, key).Serve();
}

absl::StatusOr<int> RunOnHost(const std::string& host, const std::vector<std::string>& command,
                              const RemoteSettings& settings) {
  ASSIGN_OR_RETURN(const std::string key, ReadKey(settings));
  signal(SIGPIPE, SIG_IGN);
  std::string joined;
  for (const std::string& word : command) {
    joined += (joined.empty() ? "" : " ") + word;
  }
  ASSIGN_OR_RETURN(PskChannel channel, Reach(host, key, settings.port, kReach));
  RETURN_IF_ERROR(channel.Send({.kind = kCommandMessage, .data = std::move(joined)}));
  return Caller(channel).Run();
}

void TellWorkersTheEnd(const std::vector<std::string>& hosts, const RemoteSettings& settings) {
  const absl::StatusOr<std::string> key = ReadKey(settings);
  if (!key.ok()) {
    return;
  }
  signal(SIGPIPE, SIG_IGN);
  const pid_t self = getpid();
  const base::SteadyTime end = SteadyNow() + kEndForAll;
  std::set<pid_t> tellers;
  size_t next = 0;
  while ((next < hosts.size() || !tellers.empty()) && SteadyNow() < end) {
    while (next < hosts.size() && tellers.size() < kTellersMax) {
      const pid_t teller = fork();
      if (teller == 0) {
        TellTheEnd(hosts[next], *key, settings.port, self);
      }
      if (teller < 0) {
        break;
      }
      tellers.insert(teller);
      ++next;
    }
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
      tellers.erase(ended);
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  for (const pid_t teller : tellers) {
    kill(teller, SIGKILL);
  }
}

std::vector<std::string> HostsOf(const std::string& host_file) {
  std::vector<std::string> hosts;
  std::string_view rest(host_file);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view host = line.substr(0, line.find_first_of(" \t\r"));
    if (!host.empty() && !host.starts_with('#')) {
      hosts.emplace_back(host);
    }
  }
  return hosts;
}

}  // namespace asterism::launch
