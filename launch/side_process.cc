#include "launch/side_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "launch/child_process.h"
#include "launch/clocks.h"

namespace asterism::launch {
namespace {

constexpr absl::Duration kRestartPause = absl::Seconds(1);
// For what SIGKILL ends at once; whoever is stuck in its file system is left to the system.
constexpr absl::Duration kReapLimit = absl::Milliseconds(50);

// Leaves but `socket`, as descriptor 0.
void LeaveDescriptors(int socket) {
  dup2(socket, STDIN_FILENO);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing < 0 || dup2(nothing, stream) < 0) {
      close(stream);
    }
  }
  if (syscall(SYS_close_range, 3U, ~0U, 0U) != 0) {
    // Before Linux 5.9.
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    const auto end = static_cast<int>(std::min<rlim_t>(files.rlim_cur, 65'536));
    for (int descriptor = 3; descriptor < end; ++descriptor) {
      close(descriptor);
    }
  }
}

[[noreturn]] void Serve(int socket, pid_t parent, const SideProcess::Work& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(0);
  }
  BlockAllSignals();
  LeaveDescriptors(socket);
  char question = 0;
  while (recv(STDIN_FILENO, &question, 1, 0) == 1) {
    std::string answer = work();
    if (answer.size() >= kSideAnswerMax) {
      answer.clear();
    }
    // A packet of no bytes would look like an end.
    answer.push_back('\n');
    if (send(STDIN_FILENO, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
      break;
    }
  }
  _exit(0);
}

}  // namespace

SideProcess::~SideProcess() {
  Forget();
  const base::SteadyTime end = SteadyNow() + kReapLimit;
  while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0 && SteadyNow() < end) {
    usleep(1'000);
  }
}

void SideProcess::Forget() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
  }
  if (socket_ >= 0) {
    close(socket_);
  }
  socket_ = -1;
  asked_ = false;
}

void SideProcess::NoteReaped(pid_t pid) {
  if (pid == pid_) {
    pid_ = -1;
  }
}

bool SideProcess::Start(base::SteadyTime now) {
  if (started_ && now - *started_ < kRestartPause) {
    return false;
  }
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
    return false;
  }
  started_ = now;
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return false;
  }
  const int size = 2 * static_cast<int>(kSideAnswerMax);
  setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  const pid_t self = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    Serve(ends[1], self, work_);
  }
  close(ends[1]);
  if (pid_ < 0) {
    close(ends[0]);
    return false;
  }
  socket_ = ends[0];
  return true;
}

void SideProcess::Ask(base::SteadyTime now) {
  if (asked_) {
    return;
  }
  if (!waiting_since_) {
    waiting_since_ = now;
  }
  if (socket_ < 0 && !Start(now)) {
    return;
  }
  asked_ = send(socket_, "?", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
  if (!asked_) {
    Forget();
  }
}

std::optional<std::string> SideProcess::Take() {
  if (socket_ < 0) {
    return std::nullopt;
  }
  std::string answer(kSideAnswerMax, '\0');
  const ssize_t got = recv(socket_, answer.data(), answer.size(), MSG_DONTWAIT);
  if (got <= 0) {
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      Forget();
    }
    return std::nullopt;
  }
  asked_ = false;
  waiting_since_.reset();
  answer.resize(static_cast<size_t>(got) - 1);
  return answer;
}

std::optional<std::string> SideProcess::TakeWithin(absl::Duration limit) {
  const base::SteadyTime end = SteadyNow() + limit;
  while (socket_ >= 0) {
    const auto left = absl::ToInt64Milliseconds(end - SteadyNow());
    pollfd waited{.fd = socket_, .events = POLLIN};
    if (left <= 0 || (poll(&waited, 1, static_cast<int>(left)) < 0 && errno != EINTR)) {
      return std::nullopt;
    }
    if (auto answer = Take()) {
      return answer;
    }
  }
  return std::nullopt;
}

}  // namespace asterism::launch
