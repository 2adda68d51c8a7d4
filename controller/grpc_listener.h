// File: controller/grpc_listener.h
//
// Listens in front of gRPC, which by itself takes connections without bound and listens no more
// once the process has run out of files.
//
//   ASSIGN_OR_RETURN(auto listener, GrpcListener::Listen({.address = "0.0.0.0", .port = 9443}));
//   listener->Start([&](int socket) { acceptor->HandleNewConnection(...); });
//
// Over a bound a connection is taken and closed at once, so that those who wait behind it get their
// turn: one peer may have connections_per_address_max, and the last quarter of connections_max is
// for peers that have none yet, such as the agents of nodes (server/peer_room.h).
//
// Who takes a socket closes it; nobody has to say so. A connection counts until then: sockets have
// cookies (SO_COOKIE), which tell whether a number still means the one that was given away.
//
// Thread-safety: Start, Stop and the destructor belong to one owner. Cost: one thread; a system
// call for each connection of a peer when that one comes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "server/peer_room.h"

namespace asterism::controller {

struct GrpcListenerOptions {
  std::string address = "0.0.0.0";  // an IP address; "::" takes IPv4 too
  uint16_t port = 0;                // 0: any free one, see port()
  // 0: half of the files that this process may open, and at least 16.
  size_t connections_max = 0;
  size_t connections_per_address_max = 128;  // and at most an eighth of connections_max
};

class GrpcListener {
 public:
  // On the listener's thread; owns the socket from then on.
  using Take = std::function<void(int socket)>;

  // The port is ours when it returns, and connections wait. Errors name what is wrong and what to
  // do.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Listen(GrpcListenerOptions options);
  ~GrpcListener();  // Stop

  uint16_t port() const { return options_.port; }
  void Start(Take take);
  // Closes the port; what was given away stays open. Again is harmless.
  void Stop();

 private:
  struct Connection {
    int socket;
    uint64_t cookie;
  };
  using Peer = server::Peer;

  explicit GrpcListener(GrpcListenerOptions options);
  absl::Status Bind();
  absl::Status CannotListen(const std::string& why) const;
  void Run();
  // False: there is none, and why it cannot be taken has been dealt with.
  bool AcceptOne();
  void Judge(int socket, Peer peer);
  bool HasRoom(Peer peer);
  bool MayTell();
  void Sweep();
  static void DropClosed(std::vector<Connection>& connections);

  GrpcListenerOptions options_;
  int listening_ = -1;
  int wake_ = -1;  // an eventfd
  Take take_;

  // Of the thread.
  base::SystemClock clock_;
  std::map<Peer, std::vector<Connection>> peers_;
  size_t connections_ = 0;  // with those that were closed since the last look
  base::SteadyTime swept_;
  std::optional<base::SteadyTime> told_;

  base::ThreadExecutor thread_{"grpc-accept"};
};

}  // namespace asterism::controller
