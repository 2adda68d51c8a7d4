// File: launch/child_process.h
//
// Starts a command that shall not notice its launcher: the signal mask and dispositions, open
// files, terminal and environment are those that the launcher itself was started with.
//
// When the launcher is killed by SIGKILL, so is the command, as if the signal had met it (what the
// command has started is left alone, as then).
//
//   const SignalMask before = BlockAllSignals();
//   ASSIGN_OR_RETURN(const pid_t child, StartChild({"python3", "train.py"}, before));
//
// Thread-safety: for a program of one thread. Cost: a fork.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::launch {

// The exit codes of a shell for a command that cannot be started.
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;

// Blocks what can be blocked, and returns what was blocked before. A signal that reports a fault of
// this very process ends it all the same: the kernel does not let one be blocked. One of the same
// number that somebody sends waits as all others do.
sigset_t BlockAllSignals();

// Standard input, output and error of the child; -1: those of the launcher.
struct ChildStreams {
  int input = -1;
  int output = -1;
  int error = -1;
  // A session, so also a process group, of its own: all that it starts can be ended together.
  bool new_session = false;
};

// kNotFound or kPermissionDenied with a text for people when the command cannot be started.
absl::StatusOr<pid_t> StartChild(const std::vector<std::string>& command, const sigset_t& mask,
                                 const ChildStreams& streams = {});

int ExitCodeFor(const absl::Status& cannot_start);

// Ends this process as the child ended: with its exit code, or by the signal that ended it. A first
// process of a container cannot end by its own signal: it exits with 128 + signal, as container
// runtimes report it anyway.
[[noreturn]] void EndLike(int wait_status);

}  // namespace asterism::launch
