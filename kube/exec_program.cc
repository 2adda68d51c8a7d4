// The one place in kube/ that starts a process.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "fmt/format.h"
#include "kube/credentials.h"

namespace asterism::kube {
namespace {

constexpr int kExecTimeoutMs = 60'000;
constexpr int kExecPollMs = 100;
constexpr size_t kMaxExecOutput = size_t{1} << 20;

// Our environment with the plug-in's entries over it.
std::vector<std::string> PluginEnvironment(const ExecPlugin& plugin, const std::string& exec_info) {
  std::vector<std::pair<std::string, std::string>> added = plugin.env;
  added.emplace_back("KUBERNETES_EXEC_INFO", exec_info);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool replaced = false;
    for (const auto& [name, value] : added) {
      replaced = replaced || text.starts_with(name + "=");
    }
    if (!replaced) {
      environment.emplace_back(text);
    }
  }
  for (const auto& [name, value] : added) {
    environment.push_back(name + "=" + value);
  }
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Reads until the end of the pipe. False when it took too long or was too much.
bool Collect(int descriptor, const std::atomic<bool>& cancelled, std::string& output) {
  int waited_ms = 0;
  for (;;) {
    pollfd entry{descriptor, POLLIN, 0};
    const int ready = poll(&entry, 1, kExecPollMs);
    if (ready == 0) {
      waited_ms += kExecPollMs;
      if (waited_ms >= kExecTimeoutMs || cancelled) {
        return false;
      }
      continue;
    }
    std::array<char, 4096> buffer;
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count == 0) {
      return true;
    }
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return false;
    }
    output.append(buffer.data(), static_cast<size_t>(count));
    if (output.size() > kMaxExecOutput) {
      return false;
    }
  }
}

absl::StatusOr<std::string> Finish(const ExecPlugin& plugin, pid_t process, bool complete,
                                   std::string output) {
  if (!complete) {
    kill(process, SIGKILL);
  }
  int state = 0;
  while (waitpid(process, &state, 0) < 0 && errno == EINTR) {
  }
  if (!complete) {
    return absl::DeadlineExceededError(fmt::format(
        "exec plug-in {} did not answer within 60 s, or wrote more than 1 MiB", plugin.command));
  }
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    return absl::UnauthenticatedError(
        fmt::format("exec plug-in {} failed with code {}", plugin.command,
                    WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state)));
  }
  return output;
}

}  // namespace

absl::StatusOr<std::string> RunProgram(const ExecPlugin& plugin, const std::string& exec_info,
                                       const std::atomic<bool>& cancelled) {
  std::vector<std::string> arguments = {plugin.command};
  arguments.insert(arguments.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> environment = PluginEnvironment(plugin, exec_info);
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return absl::InternalError(fmt::format("pipe failed: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  pid_t process = 0;
  const int error = posix_spawnp(&process, plugin.command.c_str(), &actions, nullptr,
                                 Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (error != 0) {
    close(pipe_ends[0]);
    return absl::FailedPreconditionError(
        fmt::format("cannot start exec plug-in {}: {}{}{}", plugin.command, std::strerror(error),
                    plugin.install_hint.empty() ? "" : ". ", plugin.install_hint));
  }
  std::string output;
  const bool complete = Collect(pipe_ends[0], cancelled, output);
  close(pipe_ends[0]);
  return Finish(plugin, process, complete, std::move(output));
}

}  // namespace asterism::kube
