#include "launch/remote_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <utility>

#include "base/status_macros.h"
#include "launch/child_process.h"
#include "launch/clocks.h"
#include "launch/process_tree.h"

namespace asterism::launch {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(2);
constexpr int kPollMilliseconds = 20;
// How long one that lost its parent and ended may stay unwaited for.
constexpr int kReapMilliseconds = 1'000;

}  // namespace

bool RemoteCommand::Pipe::Open() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return false;
  }
  read = ends[0];
  write = ends[1];
  return true;
}

absl::Status RemoteCommand::Run(const std::string& command) {
  if (!input_.Open() || !output_.Open() || !errors_.Open()) {
    return absl::ResourceExhaustedError("no file descriptor is left");
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
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
  return channel_.Send({.kind = kExitMessage, .data = std::to_string(code)});
}

// Until both outputs have ended, or the caller is gone.
absl::Status RemoteCommand::Pump() {
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
    const int ready = poll(waited.data(), waited.size(), kReapMilliseconds);
    Reap();
    if (ready <= 0) {
      continue;
    }
    can_send = can_send || (waited[0].revents & POLLOUT) != 0;
    if ((waited[0].revents & POLLIN) != 0 && unwritten_.empty()) {
      RETURN_IF_ERROR(TakeMessage());
    } else if ((waited[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      return absl::UnavailableError("the caller is gone");
    }
    if (waited[1].revents != 0) {
      RETURN_IF_ERROR(Forward(output_, kOutputMessage));
      can_send = false;
    } else if (waited[2].revents != 0) {
      RETURN_IF_ERROR(Forward(errors_, kErrorsMessage));
      can_send = false;
    }
    if (waited[3].revents != 0) {
      FeedInput();
    }
  }
  return absl::OkStatus();
}

// A command may close its outputs and live on.
absl::StatusOr<int> RemoteCommand::AwaitEnd() {
  while (Reap() && !wait_status_) {
    pollfd waited{.fd = channel_.socket(), .events = POLLRDHUP};
    if (poll(&waited, 1, kPollMilliseconds) > 0) {
      EndAll();
      return absl::UnavailableError("the caller is gone");
    }
  }
  return wait_status_.value_or(0);
}

absl::Status RemoteCommand::TakeMessage() {
  ASSIGN_OR_RETURN(PskMessage message, channel_.Receive());
  if (message.kind == kInputEndMessage) {
    input_.CloseWrite();
  } else if (message.kind == kInputMessage && input_.write >= 0) {
    unwritten_ += message.data;
    FeedInput();
  }
  return absl::OkStatus();
}

void RemoteCommand::FeedInput() {
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

absl::Status RemoteCommand::Forward(Pipe& pipe, char kind) {
  std::string data(kStreamPiece, '\0');
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

// False: nothing is left below this process. What has lost its parent is its child, so while
// anything lives there is a child.
bool RemoteCommand::Reap() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == child_) {
      wait_status_ = status;
    }
  }
  return pid == 0 || errno != ECHILD;
}

void RemoteCommand::SignalAll(int number) const {
  for (const pid_t pid : ProcessesBelow("/proc", getpid())) {
    kill(pid, number);
  }
}

void RemoteCommand::EndAll() {
  SignalAll(SIGTERM);
  const base::SteadyTime end = SteadyNow() + kGrace;
  while (Reap() && SteadyNow() < end) {
    usleep(kPollMilliseconds * 1'000);
  }
  // A process may start another one while it is looked for.
  const base::SteadyTime given_up = SteadyNow() + kGrace;
  while (Reap() && SteadyNow() < given_up) {
    SignalAll(SIGKILL);
    usleep(kPollMilliseconds * 1'000);
  }
}

}  // namespace asterism::launch
