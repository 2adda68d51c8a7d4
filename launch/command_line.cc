#include "launch/command_line.h"

#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "launch/host_address.h"

namespace asterism::launch {

const char kUsage[] =
    "usage: asterism-launch [--] COMMAND [ARGUMENT...]   run a job's command\n"
    "       asterism-launch copy FOLDER                  put this program into FOLDER\n"
    "       asterism-launch worker                       wait for commands of rank 0 (MPI)\n"
    "       asterism-launch rsh HOST COMMAND...          run COMMAND on HOST (for mpirun)\n"
    "       asterism-launch --version\n";

namespace {

std::vector<std::string> From(const std::vector<std::string>& arguments, size_t first) {
  return {arguments.begin() + static_cast<ptrdiff_t>(first), arguments.end()};
}

// ssh(1) of OpenSSH: letters without a value, with one, and those that ask for something else than
// to run a command.
constexpr std::string_view kFlags = "46AaCfgKknqTtvXxYy";
constexpr std::string_view kWithValue = "BbcEeFIilmoPpS";
constexpr std::string_view kNotHere = "DGJLMNOQRVWsw";

// Takes the options that start at `at`, and moves it behind them.
absl::Status SkipSshOptions(const std::vector<std::string>& arguments, size_t& at,
                            RunRemotely& remote) {
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at].starts_with('-')) {
    const std::string& word = arguments[at++];
    if (word == "--") {
      return absl::OkStatus();
    }
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string option = std::string("-") + word[i];
      if (kNotHere.find(word[i]) != std::string_view::npos) {
        return absl::InvalidArgumentError(
            "rsh: " + option + " cannot be done without sshd: leave it out of the options of " +
            "mpirun's remote agent");
      }
      remote.no_input |= word[i] == 'n' || word[i] == 'f';
      if (kWithValue.find(word[i]) != std::string_view::npos) {
        // The rest of the word is its value, or the next word.
        if (i + 1 == word.size() && ++at > arguments.size()) {
          return absl::InvalidArgumentError("rsh: " + option + " needs a value");
        }
        break;
      }
      if (kFlags.find(word[i]) == std::string_view::npos) {
        return absl::InvalidArgumentError("rsh: unknown option " + option +
                                          ": options are those of ssh");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Request> ParseRemote(const std::vector<std::string>& arguments) {
  RunRemotely remote;
  size_t at = 1;
  RETURN_IF_ERROR(SkipSshOptions(arguments, at, remote));
  if (at < arguments.size()) {
    const std::string& host = arguments[at++];
    remote.host = host.substr(host.rfind('@') + 1);
    RETURN_IF_ERROR(SkipSshOptions(arguments, at, remote));
  }
  if (at >= arguments.size()) {
    return absl::InvalidArgumentError("rsh: give a host and a command");
  }
  if (const absl::Status status = CheckHost(remote.host); !status.ok()) {
    return absl::InvalidArgumentError("rsh: " + std::string(status.message()));
  }
  remote.command = From(arguments, at);
  return remote;
}

}  // namespace

absl::StatusOr<Request> ParseCommandLine(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    return absl::InvalidArgumentError("no command is given");
  }
  const std::string& first = arguments[0];
  if (first == "--help" || first == "-h") {
    return ShowUsage{};
  }
  if (first == "--version") {
    return ShowVersion{};
  }
  if (first == "--") {
    if (arguments.size() == 1) {
      return absl::InvalidArgumentError("no command follows --");
    }
    return RunCommand{From(arguments, 1)};
  }
  if (first.starts_with('-')) {
    return absl::InvalidArgumentError("unknown option " + first);
  }
  if (first == "copy") {
    if (arguments.size() != 2) {
      return absl::InvalidArgumentError("copy: give one folder");
    }
    return CopySelf{arguments[1]};
  }
  if (first == "worker") {
    if (arguments.size() != 1) {
      return absl::InvalidArgumentError("worker: takes no argument");
    }
    return ServeWorker{};
  }
  if (first == "rsh") {
    return ParseRemote(arguments);
  }
  return RunCommand{arguments};
}

}  // namespace asterism::launch
