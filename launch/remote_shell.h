// File: launch/remote_shell.h
//
// The remote shell of an MPI job: mpirun in the pod of rank 0 starts its daemons in the other pods
// with it, without sshd and without a key of any user.
//
//   ServeRemoteCommands(settings)                in each other pod: `asterism-launch worker`
//   RunOnHost("llama-r8.llama.research.svc", {"orted", ...}, settings)    what mpirun calls
//   TellWorkersTheEnd(hosts, settings)           when mpirun has ended well
//
// Who knows the job's secret is a member of the job: both sides prove it by TLS 1.3 with a
// pre-shared key (RFC 8446, 2.2), so what they say is encrypted, too, and without it neither side
// gets a word. As with ssh, the words of the command are joined by blanks and run by /bin/sh.
//
// When the caller is gone, the command and all it started get SIGTERM and, two seconds later,
// SIGKILL (remote_command.h).
//
// Anybody can connect to the port and say nothing: such a connection has 5 s, counts for itself
// (pending_callers.h) and keeps no caller with the key out. A worker that does not answer, or is
// not there yet, is asked again for 120 s; one that has another key is not.
//
// Bounds: 256 callers at once, 128 that have not proved yet to be one, 64 KiB a message, 1 MiB a
// command.
//
// Thread-safety: for a program of one thread. Cost: a process for each caller.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace asterism::launch {

struct RemoteSettings {
  std::string key_path;  // ASTERISM_JOB_KEY: file of at least 32 bytes
  uint16_t port = 0;     // ASTERISM_REMOTE_PORT
};

RemoteSettings RemoteSettingsFrom(const std::function<const char*(const char*)>& environment);

// Returns when rank 0 says that the job has ended; an error says why it cannot serve.
absl::Status ServeRemoteCommands(const RemoteSettings& settings);

// The command's exit code; 128 + signal. Streams of this process are those of the command.
absl::StatusOr<int> RunOnHost(const std::string& host, const std::vector<std::string>& command,
                              const RemoteSettings& settings);

// All at once, 2 s for each and 5 s for all; who cannot be reached is left alone. Waits for any
// child of this process: it is for one that has no other.
void TellWorkersTheEnd(const std::vector<std::string>& hosts, const RemoteSettings& settings);

// Host names of a host file ("host slots=8" a line), in its order.
std::vector<std::string> HostsOf(const std::string& host_file);

}  // namespace asterism::launch
