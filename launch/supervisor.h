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
// Signals go to the command alone, except those that the terminal has sent to both already.
//
// Thread-safety: for a program of one thread. Cost: asleep but for a look at the processes each
// second (each 100 ms in the first ten), and at the progress file.
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
