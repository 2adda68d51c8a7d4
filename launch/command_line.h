// File: launch/command_line.h
//
// What asterism-launch is asked to do.
//
//   asterism-launch [--] COMMAND [ARGUMENT...]   runs the job's command
//   asterism-launch copy FOLDER                  puts itself into FOLDER (the init container)
//   asterism-launch worker                       waits for commands of the job's rank 0 (MPI)
//   asterism-launch rsh HOST COMMAND...          runs COMMAND on HOST (what mpirun calls)
//   asterism-launch --version
//
// A command that has the name of a verb is reached with "--".
//
// `rsh` takes the options of ssh before and after the host, as Open MPI, MPICH and Slurm pass them
// (-x, -T, -l USER, -o X, -p N, ...), and USER@HOST. There is no sshd, so user, port, keys and
// terminals mean nothing here and are left out; -n is honoured; what ssh would do and this cannot
// (forwards, -W, -N) is an error.
//
// Thread-safety: pure. Cost: O(arguments).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::launch {

struct RunCommand {
  std::vector<std::string> command;  // not empty
};
struct CopySelf {
  std::string folder;
};
struct ServeWorker {};
struct RunRemotely {
  std::string host;
  std::vector<std::string> command;  // not empty
  bool no_input = false;             // standard input is not for the command
};
struct ShowVersion {};
struct ShowUsage {};

using Request =
    std::variant<RunCommand, CopySelf, ServeWorker, RunRemotely, ShowVersion, ShowUsage>;

// `arguments` without the program's name.
absl::StatusOr<Request> ParseCommandLine(const std::vector<std::string>& arguments);

extern const char kUsage[];

}  // namespace asterism::launch
