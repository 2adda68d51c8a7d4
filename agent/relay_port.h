// File: agent/relay_port.h
//
// The gRPC service asterism.v1.Relay: where the members of a relay speak to it. Takes who shows the
// agents' certificate, and shows the same one; what members say is none of its business, see
// relay_members.h.
//
//   ASSIGN_OR_RETURN(auto port, RelayPort::Open(options, executor, [&] { SendNext(); }));
//   port->members().Open(63);
//
// A member that does not answer a ping is gone after ten seconds; members ask the relay every two.
// Certificates are read again when their files change.
//
// Thread-safety: open, use and destroy it on the executor, or destroy it after that has stopped.
// Cost: 116 KB a member, and the threads of gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "agent/relay_members.h"
#include "base/executor.h"

namespace grpc {
class Server;
}

namespace asterism::agent {

struct RelayPortOptions {
  std::string host;   // an IP address of this agent that others reach; empty: it can be no relay
  uint16_t port = 0;  // 0: any free one
  // Files, PEM; all empty: plain text.
  std::string authority_path;
  std::string certificate_path;
  std::string key_path;
};

class RelayPort {
 public:
  // Listens when it returns, and nobody may join yet. `on_waiting`: a member has said something, or
  // has gone.
  static absl::StatusOr<std::unique_ptr<RelayPort>> Open(const RelayPortOptions& options,
                                                         base::Executor& executor,
                                                         std::function<void()> on_waiting);
  // All streams are over when it returns.
  ~RelayPort();

  RelayMembers& members() { return members_; }
  const std::string& address() const { return address_; }  // host:port

 private:
  class Service;
  class Stream;

  RelayPort(base::Executor& executor, std::function<void()> on_waiting, bool certificate_needed);

  base::Executor& executor_;
  const std::function<void()> on_waiting_;
  const bool certificate_needed_;
  RelayMembers members_;
  std::string address_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  base::Alive alive_;
};

}  // namespace asterism::agent
