// File: agent/pod_port.h
//
// The Unix socket at which the pods of this node tell the agent about themselves: asterism-launch
// sends a WorkerState (proto/asterism/v1/worker_port.proto) whenever something changed.
//
//   ASSIGN_OR_RETURN(auto port, PodPort::Open({.folder = "/run/asterism"}, clock, executor,
//                    [](const WorkerReport& report) {...}));
//
// Who speaks is known by SO_PEERCRED -> /proc/PID/cgroup -> UID of the pod, read while the
// connection is open. What is not from a pod of this node is answered by closing. A pod cannot
// speak for another, and what it says about itself counts for that pod only.
//
// Bounds: 4 connections a pod and 1,024 in all, 4 KiB a message, 20 messages a second and pod: who
// sends more is read later, which makes its own sockets full and nobody else's. 200 connections a
// second are taken: who connects and closes in a loop makes others wait for a second or two, and
// the agent no busier. Of a message only the known fields are kept.
//
// Thread-safety: one thread of its own; reports are posted to the executor. Cost: asleep until
// something comes.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/pod_identity.h"
#include "asterism/v1/worker_port.pb.h"
#include "base/clock.h"
#include "base/executor.h"

namespace asterism::agent {

inline constexpr char kPortSocketName[] = "port.sock";

struct PodPortOptions {
  std::string folder;          // is made; the socket is <folder>/port.sock
  std::string proc = "/proc";  // that of the host: the agent runs with hostPID
};

// What a launcher told, and who it is.
struct WorkerReport {
  PodIdentity pod;
  v1::WorkerState state;
  bool connected = true;  // false: it has ended, or its node's agent lost it
};

class PodPort {
 public:
  using OnReport = std::function<void(WorkerReport)>;

  static absl::StatusOr<std::unique_ptr<PodPort>> Open(PodPortOptions options,
                                                       const base::Clock& clock,
                                                       base::Executor& executor,
                                                       OnReport on_report);
  ~PodPort();
  PodPort(const PodPort&) = delete;
  PodPort& operator=(const PodPort&) = delete;

 private:
  struct Connection {
    PodIdentity pod;
    WorkerReport last;
    bool told = false;  // at least one state came
  };
  // What the pods have used of this period, by UID.
  struct Budget {
    int connections = 0;  // that are open
    int messages = 0;
  };

  PodPort(PodPortOptions options, const base::Clock& clock, base::Executor& executor,
          OnReport on_report);

  absl::Status Listen();
  void Run();
  void Accept();
  void Read(int socket, Connection& connection);
  void Drop(int socket);
  void Report(WorkerReport report);

  const PodPortOptions options_;
  const base::Clock& clock_;
  base::Executor& executor_;
  const OnReport on_report_;
  int listener_ = -1;
  int stop_ = -1;  // an eventfd
  // The listener, which stays readable, is not looked at any more in this period: no file
  // descriptor was left, or enough have been taken.
  bool exhausted_ = false;
  int accepted_ = 0;  // in this period
  std::map<int, Connection> connections_;
  std::map<std::string, Budget> budgets_;  // of pods that have a connection
  std::thread thread_;
};

// The pod of a process that has a connection here; errors say why it is none.
absl::StatusOr<PodIdentity> PodOfPeer(int socket, const std::string& proc);

}  // namespace asterism::agent
