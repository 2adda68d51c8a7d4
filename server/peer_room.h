// File: server/peer_room.h
//
// Room for connections, of all and of each peer, so that no stranger takes it all from probes,
// schedulers and agents: one peer may have each_max, and the last quarter of all_max is for peers
// that have none yet.
//
//   PeerRoom room({.all_max = 1024, .each_max = 128});
//   if (!room.Enter(peer)) ...     // close it
//   room.Leave(peer);
//
// A peer is an address, of IPv6 the whole of it: networks of clouds have all nodes and pods of a
// subnet in one /64, so that a bound for a /64 would be one for all agents together.
//
// Thread-safety: any thread. Cost: a lock and a look-up.
#pragma once

#include <sys/socket.h>

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/synchronization/mutex.h"

namespace asterism::server {

using Peer = absl::uint128;  // an IPv6 address; those of IPv4 as ::ffff:a.b.c.d

// 0 for what is no IP address.
Peer PeerOf(const sockaddr& address);

struct PeerLimits {
  size_t all_max = 0;
  size_t each_max = 0;  // 0: one peer may have all

  // How many there may be of all, for a peer that has so many.
  size_t AllMaxFor(size_t of_peer) const {
    return of_peer == 0 || each_max == 0 ? all_max : all_max - all_max / 4;
  }
  // Whether one more may come.
  bool Allow(size_t all, size_t of_peer) const {
    return (each_max == 0 || of_peer < each_max) && all < AllMaxFor(of_peer);
  }
};

class PeerRoom {
 public:
  explicit PeerRoom(PeerLimits limits) : limits_(limits) {}

  // False: there is no room, and nothing was taken.
  bool Enter(Peer peer);
  void Leave(Peer peer);

 private:
  const PeerLimits limits_;
  absl::Mutex mutex_;
  size_t all_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<Peer, size_t> peers_ ABSL_GUARDED_BY(mutex_);  // those that have some
};

}  // namespace asterism::server
