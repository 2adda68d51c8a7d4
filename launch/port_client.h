// File: launch/port_client.h
//
// Tells the agent of the node the newest state over its Unix socket. The job does not depend on it:
// without a socket, without an agent, with one that hangs, nothing waits and nothing is printed.
//
//   PortClient port("/run/asterism/port.sock");
//   port.Set(state);      // sent at once where possible, else by a later Tick
//   port.Tick(SteadyNow());   // every 100 ms or so: connects again, sends what is due
//
// Thread-safety: none. Cost: a system call or two.
#pragma once

#include <optional>
#include <string>

#include "asterism/v1/worker_port.pb.h"
#include "base/clock.h"

namespace asterism::launch {

class PortClient {
 public:
  // An empty path: there is no agent to tell.
  explicit PortClient(std::string path) : path_(std::move(path)) {}
  ~PortClient() { Close(); }
  PortClient(const PortClient&) = delete;
  PortClient& operator=(const PortClient&) = delete;

  void Set(const v1::WorkerState& state);
  void Tick(base::SteadyTime now);
  bool connected() const { return socket_ >= 0; }

 private:
  void Connect();
  void Send();
  void Listen();
  void Close();

  const std::string path_;
  int socket_ = -1;
  std::string newest_;  // serialised
  bool unsent_ = false;
  std::optional<base::SteadyTime> next_connect_;
};

}  // namespace asterism::launch
