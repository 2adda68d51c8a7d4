#include "launch/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace asterism::launch {
namespace {

void ReplaceStream(int from, int to) {
  if (from >= 0 && from != to) {
    dup2(from, to);
  }
}

// In the child; returns only when exec failed, with errno.
void Become(const std::vector<char*>& arguments, const sigset_t& mask, const ChildStreams& streams,
            pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) {
    _exit(kExitNotFound);
  }
  if (streams.new_session) {
    setsid();
    // The remote shell's, not the caller's: a command expects what it gets from a login.
    signal(SIGPIPE, SIG_DFL);
  }
  ReplaceStream(streams.input, STDIN_FILENO);
  ReplaceStream(streams.output, STDOUT_FILENO);
  ReplaceStream(streams.error, STDERR_FILENO);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  execvp(arguments[0], arguments.data());
}

absl::Status CannotStart(const std::string& command, int error) {
  const std::string text = "cannot start \"" + command + "\": " + strerror(error);
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(text)
                                             : absl::PermissionDeniedError(text);
}

}  // namespace

sigset_t BlockAllSignals() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

absl::StatusOr<pid_t> StartChild(const std::vector<std::string>& command, const sigset_t& mask,
                                 const ChildStreams& streams) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);

  // The child tells over this pipe that exec failed; its end without a word means success.
  std::array<int, 2> told{};
  if (pipe2(told.data(), O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(std::string("pipe: ") + strerror(errno));
  }
  const pid_t launcher = getpid();
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(told[0]);
    close(told[1]);
    return absl::ResourceExhaustedError(std::string("fork: ") + strerror(error));
  }
  if (child == 0) {
    Become(arguments, mask, streams, launcher);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(told[1], &error, sizeof(error));
    _exit(kExitNotFound);
  }
  close(told[1]);
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(told[0], &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  close(told[0]);
  if (got == sizeof(error)) {
    waitpid(child, nullptr, 0);
    return CannotStart(command[0], error);
  }
  return child;
}

int ExitCodeFor(const absl::Status& cannot_start) {
  return cannot_start.code() == absl::StatusCode::kNotFound ? kExitNotFound : kExitCannotExecute;
}

void EndLike(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal_number = WTERMSIG(wait_status);
    // The child has left its core dump, if any; ours would say nothing.
    const rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    signal(signal_number, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal_number);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    _exit(128 + signal_number);
  }
  _exit(WEXITSTATUS(wait_status));
}

}  // namespace asterism::launch
