#include "agent/probe/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

absl::StatusOr<pid_t> SpawnChild(const std::vector<std::string>& command, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const auto free_both = absl::MakeCleanup([&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  });
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // The agent blocks the signals that end it; its children must not.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  pid_t child = -1;
  if (const int error =
          posix_spawnp(&child, pointers[0], &actions, &attributes, pointers.data(), environ);
      error != 0) {
    return absl::NotFoundError(fmt::format("{} does not start (errno {})", command.front(), error));
  }
  return child;
}

}  // namespace

absl::StatusOr<std::string> ChildOutput(const std::vector<std::string>& command,
                                        absl::Duration deadline, size_t bytes_max) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "no pipe");
  }
  const auto close_read = absl::MakeCleanup([&] { close(ends[0]); });
  const absl::StatusOr<pid_t> child = SpawnChild(command, ends[1]);
  close(ends[1]);
  if (!child.ok()) {
    return child.status();
  }
  const base::SystemClock clock;
  const base::SteadyTime began = clock.SteadyNow();
  std::string output;
  absl::Status problem;
  while (problem.ok()) {
    const absl::Duration left = deadline - (clock.SteadyNow() - began);
    pollfd entry{ends[0], POLLIN, 0};
    const int ready = left <= absl::ZeroDuration()
                          ? 0
                          : poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      problem = absl::DeadlineExceededError(
          fmt::format("{} did not end within {}", command.front(), absl::FormatDuration(deadline)));
      break;
    }
    std::array<char, 16384> buffer;
    const ssize_t count = read(ends[0], buffer.data(), buffer.size());
    if (count == 0) {
      break;
    }
    if (count > 0) {
      output.append(buffer.data(), static_cast<size_t>(count));
    }
    if (output.size() > bytes_max) {
      problem = absl::ResourceExhaustedError(
          fmt::format("{} prints more than {} KiB", command.front(), bytes_max >> 10));
    }
  }
  if (!problem.ok()) {
    kill(-*child, SIGKILL);
  }
  int state = 0;
  while (waitpid(*child, &state, 0) < 0 && errno == EINTR) {
  }
  if (!problem.ok()) {
    return problem;
  }
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    return absl::UnavailableError(
        fmt::format("{} failed with code {}", command.front(),
                    WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state)));
  }
  return output;
}

}  // namespace asterism::agent
