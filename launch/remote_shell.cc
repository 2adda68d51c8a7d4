#include "launch/remote_shell.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
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
#include "launch/host_address.h"
#include "launch/psk_channel.h"

namespace asterism::launch {
namespace {

// Kinds of messages.
constexpr char kCommand = 'C';
constexpr char kInput = 'I';
constexpr char kInputEnd = 'i';
constexpr char kOutput = 'O';
constexpr char kErrors = 'E';
constexpr char kExit = 'X';
constexpr char kJobEnd = 'D';

// A piece fits into the socket's free space whenever poll says that there is some, so that a side
// that sends never waits for one that sends too.
constexpr size_t kPiece = size_t{16} << 10;
constexpr int kSocketBuffer = 256 << 10;
constexpr size_t kCallersMax = 256;
constexpr absl::Duration kHandshake = absl::Seconds(10);
constexpr absl::Duration kReach = absl::Seconds(120);
constexpr absl::Duration kReachForEnd = absl::Seconds(2);
constexpr absl::Duration kGrace = absl::Seconds(2);
constexpr int kHandlerSawEnd = 77;

struct Pipe {
  int read = -1;
  int write = -1;
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  void CloseRead() { Close(read); }
  void CloseWrite() { Close(write); }
  bool Open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      return false;
    }
    read = ends[0];
    write = ends[1];
    return true;
  }

 private:
  static void Close(int& end) {
    if (end >= 0) {
      close(end);
    }
    end = -1;
  }
};

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

// What one caller asked for, in a process of its own.
class RemoteCommand {
 public:
  RemoteCommand(PskChannel& channel, const sigset_t& mask) : channel_(channel), mask_(mask) {}

  absl::Status Run(const std::string& command) {
    if (!input_.Open() || !output_.Open() || !errors_.Open()) {
      return absl::ResourceExhaustedError("no file descriptor is left");
    }
    ASSIGN_OR_RETURN(child_, StartChild({"/bin/sh", "-c", command}, mask_,
                                        {.input = input_.read,
                                         .output = output_.write,
                                         .error = errors_.write,
                                         .new_session = true}));
    input_.CloseRead();
    output_.CloseWrite();
    errors_.CloseWrite();
    fcntl(input_.write, F_SETFL, O_NONBLOCK);
    const absl::Status status = Pump();
    if (!status.ok()) {
      EndAll();
      return status;
    }
    ASSIGN_OR_RETURN(const int wait_status, AwaitEnd());
    const int code =
        WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    return channel_.Send({.kind = kExit, .data = std::to_string(code)});
  }

 private:
  // Until both outputs have ended, or the caller is gone.
  absl::Status Pump() {
    bool can_send = true;
    while (output_.read >= 0 || errors_.read >= 0) {
      if (channel_.pending() && unwritten_.empty()) {
        RETURN_IF_ERROR(TakeMessage());
        continue;
      }
      std::array<pollfd, 4> waited = {
          pollfd{.fd = channel_.socket(),
                 .events = static_cast<short>(POLLRDHUP | (unwritten_.empty() ? POLLIN : 0) |
                                              (can_send ? 0 : POLLOUT))},
          pollfd{.fd = can_send ? output_.read : -1, .events = POLLIN},
          pollfd{.fd = can_send ? errors_.read : -1, .events = POLLIN},
          pollfd{.fd = unwritten_.empty() ? -1 : input_.write, .events = POLLOUT}};
      if (poll(waited.data(), waited.size(), -1) < 0) {
        continue;
      }
      can_send = can_send || (waited[0].revents & POLLOUT) != 0;
      if ((waited[0].revents & POLLIN) != 0 && unwritten_.empty()) {
        RETURN_IF_ERROR(TakeMessage());
      } else if ((waited[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
        return absl::UnavailableError("the caller is gone");
      }
      if (waited[1].revents != 0) {
        RETURN_IF_ERROR(Forward(output_, kOutput));
        can_send = false;
      } else if (waited[2].revents != 0) {
        RETURN_IF_ERROR(Forward(errors_, kErrors));
        can_send = false;
      }
      if (waited[3].revents != 0) {
        FeedInput();
      }
    }
    return absl::OkStatus();
  }

  // A command may close its outputs and live on.
  absl::StatusOr<int> AwaitEnd() {
    int wait_status = 0;
    while (waitpid(child_, &wait_status, WNOHANG) == 0) {
      pollfd waited{.fd = channel_.socket(), .events = POLLRDHUP};
      if (poll(&waited, 1, 20) > 0) {
        EndAll();
        return absl::UnavailableError("the caller is gone");
      }
    }
    return wait_status;
  }

  absl::Status TakeMessage() {
    ASSIGN_OR_RETURN(PskMessage message, channel_.Receive());
    if (message.kind == kInputEnd) {
      input_.CloseWrite();
    } else if (message.kind == kInput && input_.write >= 0) {
      unwritten_ += message.data;
      FeedInput();
    }
    return absl::OkStatus();
  }

  void FeedInput() {
    while (!unwritten_.empty()) {
      const ssize_t written = write(input_.write, unwritten_.data(), unwritten_.size());
      if (written < 0) {
        if (errno != EAGAIN && errno != EINTR) {
          unwritten_.clear();  // the command reads no more
          input_.CloseWrite();
        }
        return;
      }
      unwritten_.erase(0, static_cast<size_t>(written));
    }
  }

  absl::Status Forward(Pipe& pipe, char kind) {
    std::string data(kPiece, '\0');
    const ssize_t got = read(pipe.read, data.data(), data.size());
    if (got <= 0) {
      if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        pipe.CloseRead();
      }
      return absl::OkStatus();
    }
    data.resize(static_cast<size_t>(got));
    return channel_.Send({.kind = kind, .data = std::move(data)});
  }

  void EndAll() {
    kill(-child_, SIGTERM);
    const absl::Time end = absl::Now() + kGrace;
    while (absl::Now() < end && waitpid(child_, nullptr, WNOHANG) == 0) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    kill(-child_, SIGKILL);
  }

  PskChannel& channel_;
  const sigset_t& mask_;
  Pipe input_;
  Pipe output_;
  Pipe errors_;
  std::string unwritten_;
  pid_t child_ = -1;
};

// In the handler's process; its exit code.
int Handle(int connection, const std::string& key, const sigset_t& mask) {
  GiveRoom(connection);
  absl::StatusOr<PskChannel> channel = PskChannel::Accept(connection, key, kHandshake);
  if (!channel.ok()) {
    return 1;
  }
  const absl::StatusOr<PskMessage> first = channel->Receive();
  if (!first.ok()) {
    return 1;
  }
  if (first->kind == kJobEnd) {
    return kHandlerSawEnd;
  }
  if (first->kind != kCommand) {
    return 1;
  }
  const absl::Status status = RemoteCommand(*channel, mask).Run(first->data);
  if (!status.ok()) {
    static_cast<void>(
        channel->Send({.kind = kErrors, .data = std::string(status.message()) + "\n"}));
    static_cast<void>(channel->Send({.kind = kExit, .data = std::to_string(ExitCodeFor(status))}));
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

// Forgets handlers that have ended; true when one of them was told that the job has ended.
bool ReapHandlers(std::set<pid_t>& handlers) {
  bool job_ended = false;
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    const bool ours = handlers.erase(pid) > 0;
    job_ended |= ours && WIFEXITED(status) && WEXITSTATUS(status) == kHandlerSawEnd;
  }
  return job_ended;
}

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
    if (message.kind == kExit) {
      int code = 1;
      std::from_chars(message.data.data(), message.data.data() + message.data.size(), code);
      code_ = code;
    } else if (message.kind == kOutput) {
      WriteAll(STDOUT_FILENO, message.data);
    } else if (message.kind == kErrors) {
      WriteAll(STDERR_FILENO, message.data);
    }
    return absl::OkStatus();
  }

  absl::Status GiveInput() {
    std::string data(kPiece, '\0');
    const ssize_t got = read(STDIN_FILENO, data.data(), data.size());
    if (got <= 0) {
      input_open_ = got < 0 && errno == EINTR;
      return input_open_ ? absl::OkStatus() : channel_.Send({.kind = kInputEnd});
    }
    data.resize(static_cast<size_t>(got));
    return channel_.Send({.kind = kInput, .data = std::move(data)});
  }

  PskChannel& channel_;
  bool input_open_ = true;
  std::optional<int> code_;
};

absl::StatusOr<PskChannel> Reach(const std::string& host, const std::string& key, uint16_t port,
                                 absl::Duration limit) {
  ASSIGN_OR_RETURN(const int connection, ConnectTo(host, port, limit));
  GiveRoom(connection);
  fcntl(connection, F_SETFL, 0);
  absl::StatusOr<PskChannel> channel = PskChannel::Connect(connection, key, kHandshake);
  if (!channel.ok()) {
    return absl::Status(channel.status().code(),
                        host + ": " + std::string(channel.status().message()));
  }
  return channel;
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
  sigset_t mask;
  sigemptyset(&mask);
  std::set<pid_t> handlers;
  while (!ReapHandlers(handlers)) {
    pollfd waited{.fd = handlers.size() < kCallersMax ? listener : -1, .events = POLLIN};
    if (poll(&waited, 1, 100) <= 0) {
      continue;
    }
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      continue;
    }
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    const pid_t handler = fork();
    if (handler == 0) {
      close(listener);
      _exit(Handle(connection, key, mask));
    }
    close(connection);
    if (handler > 0) {
      handlers.insert(handler);
    }
  }
  close(listener);
  return absl::OkStatus();
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
  RETURN_IF_ERROR(channel.Send({.kind = kCommand, .data = std::move(joined)}));
  return Caller(channel).Run();
}

void TellWorkersTheEnd(const std::vector<std::string>& hosts, const RemoteSettings& settings) {
  const absl::StatusOr<std::string> key = ReadKey(settings);
  if (!key.ok()) {
    return;
  }
  signal(SIGPIPE, SIG_IGN);
  for (const std::string& host : hosts) {
    absl::StatusOr<PskChannel> channel = Reach(host, *key, settings.port, kReachForEnd);
    if (channel.ok()) {
      static_cast<void>(channel->Send({.kind = kJobEnd}));
    }
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
