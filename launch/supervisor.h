// File: launch/supervisor.h
//
// Runs the job's command as if there were no launcher: same signals, same streams, same exit code;
// and tells the agent when it started, which rank ended badly first, how the command ended, and
// what it writes about its progress.
//
//   const SupervisorSettings settings = SettingsFromEnvironment(getenv);
//   Supervise({"torchrun", "train.py"}, settings);   // does not return
//
// The launcher is the subreaper of the job: processes whose parent is gone end as its children, so
// none stays as a zombie, whether or not it is the first process of its container. When the command
// ends, it ends: what the command left behind is the container's business, as without a launcher.
//
// Signals go to the command alone, also those that usually report a fault (SIGSEGV, SIGABRT) when
// somebody sends them, except those that the terminal has sent to both already; a hangup, which the
// terminal tells the leader of its session alone, is handed on by a launcher that is the leader.
// SIGKILL, which nobody can hand on, ends the command with the launcher. SIGSTOP stops the launcher
// alone, and a SIGCHLD that somebody sends is taken for what the kernel says about the command:
// these two do not reach it.
//
// What may hang does so beside the launcher (side_process.h): the progress file and the search for
// ranks. Intervals are of the monotonic clock; the wall clock is in reports only.
//
// Thread-safety: for a program of one thread. Cost: asleep but for a look at the processes each
// second (each 100 ms in the first ten), and at the progress file; two processes for these.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launch/rank_watch.h"
#include "launch/remote_shell.h"

namespace asterism::launch {

struct SupervisorSettings {
  std::string port;  // ASTERISM_PORT: path of the agent's socket; empty: none
  std::string job;   // ASTERISM_JOB
  int64_t epoch = 0;
  RankRange ranks;
  std::string progress_path;  // ASTERISM_PROGRESS_FILE; empty: none
  // ASTERISM_HOSTFILE, in the pod of rank 0 of an MPI job: who is told when all has ended well.
  std::string host_file;
  RemoteSettings remote;
  std::string version;
};

// Numbers that cannot be read are 0: the job runs all the same.
SupervisorSettings SettingsFromEnvironment(
    const std::function<const char*(const char*)>& environment);

[[noreturn]] void Supervise(const std::vector<std::string>& command,
                            const SupervisorSettings& settings);

}  // namespace asterism::launch
