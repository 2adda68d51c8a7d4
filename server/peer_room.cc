#include "server/peer_room.h"

#include <netinet/in.h>

#include <cstdint>
#include <cstring>

namespace asterism::server {

Peer PeerOf(const sockaddr& address) {
  in6_addr ipv6{};
  if (address.sa_family == AF_INET6) {
    ipv6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  } else if (address.sa_family == AF_INET) {
    ipv6.s6_addr[10] = ipv6.s6_addr[11] = 0xff;
    std::memcpy(ipv6.s6_addr + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  }
  uint64_t halves[2] = {};
  static_assert(sizeof(halves) == sizeof(ipv6));
  std::memcpy(halves, &ipv6, sizeof(halves));
  return absl::MakeUint128(halves[0], halves[1]);
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
