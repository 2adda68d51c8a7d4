#include "launch/command_line.h"

#include <utility>

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

absl::StatusOr<Request> ParseRemote(const std::vector<std::string>& arguments) {
  // mpirun may put options of ssh before the host; -x and the like mean nothing here.
  size_t host = 1;
  while (host < arguments.size() && arguments[host].starts_with('-')) {
    ++host;
  }
  if (host + 1 >= arguments.size()) {
    return absl::InvalidArgumentError("rsh: give a host and a command");
  }
  return RunRemotely{.host = arguments[host], .command = From(arguments, host + 1)};
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
