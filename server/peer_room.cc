#include "server/peer_room.h"

#include <netinet/in.h>

#include <cstring>

namespace asterism::server {

Peer PeerOf(const sockaddr& address) {
  Peer peer = 0;
  if (address.sa_family == AF_INET) {
    peer = reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr;
  } else if (address.sa_family == AF_INET6) {
    const in6_addr& ipv6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&ipv6)) {
      uint32_t ipv4 = 0;
      std::memcpy(&ipv4, ipv6.s6_addr + 12, sizeof(ipv4));
      peer = ipv4;
    } else {
      std::memcpy(&peer, ipv6.s6_addr, sizeof(peer));
    }
  }
  return peer;
}

bool PeerRoom::Enter(Peer peer) {
  absl::MutexLock lock(&mutex_);
  const auto known = peers_.find(peer);
  if (!limits_.Allow(all_, known == peers_.end() ? 0 : known->second)) {
    return false;
  }
  ++all_;
  ++peers_[peer];
  return true;
}

void PeerRoom::Leave(Peer peer) {
  absl::MutexLock lock(&mutex_);
  const auto known = peers_.find(peer);
  --all_;
  if (--known->second == 0) {
    peers_.erase(known);
  }
}

}  // namespace asterism::server
