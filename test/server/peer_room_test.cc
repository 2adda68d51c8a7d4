#include "server/peer_room.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "gtest/gtest.h"

namespace asterism::server {
namespace {

Peer PeerAt(const std::string& text) {
  if (text.find(':') == std::string::npos) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &address.sin_addr), 1);
    return PeerOf(reinterpret_cast<const sockaddr&>(address));
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &address.sin6_addr), 1);
  return PeerOf(reinterpret_cast<const sockaddr&>(address));
}

TEST(PeerOf, IsAnAddress) {
  EXPECT_NE(PeerAt("10.0.0.1"), PeerAt("10.0.0.2"));
  EXPECT_EQ(PeerAt("10.0.0.1"), PeerAt("::ffff:10.0.0.1"));
  EXPECT_EQ(PeerAt("fd00:1:2:3::1"), PeerAt("fd00:1:2:3::1"));
  EXPECT_EQ(PeerOf(sockaddr{.sa_family = AF_UNIX, .sa_data = {}}), 0u);
}

// A cloud has all nodes and pods of a subnet in one /64: a thousand agents are a thousand peers.
TEST(PeerOf, HostsOfOneNetworkAreDifferentPeers) {
  PeerRoom room({.all_max = 4096, .each_max = 128});
  for (int host = 1; host <= 1280; ++host) {
    EXPECT_TRUE(room.Enter(PeerAt("fd00:1:2:3::" + std::to_string(host)))) << host;
  }
}

TEST(PeerRoom, OnePeerCannotTakeAll) {
  PeerRoom room({.all_max = 16, .each_max = 4});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(room.Enter(1)) << i;
  }
  EXPECT_FALSE(room.Enter(1));
  EXPECT_TRUE(room.Enter(2));
  room.Leave(1);
  EXPECT_TRUE(room.Enter(1));
  EXPECT_FALSE(room.Enter(1));
}

TEST(PeerRoom, TheLastQuarterIsForPeersThatHaveNone) {
  PeerRoom room({.all_max = 16, .each_max = 4});
  for (Peer peer = 1; peer <= 3; ++peer) {
    EXPECT_TRUE(room.Enter(peer) && room.Enter(peer) && room.Enter(peer) && room.Enter(peer));
  }
  EXPECT_TRUE(room.Enter(4));
  EXPECT_FALSE(room.Enter(4)) << "it has one";
  EXPECT_TRUE(room.Enter(5) && room.Enter(6) && room.Enter(7));
  EXPECT_FALSE(room.Enter(8)) << "all are taken";
  room.Leave(1);
  EXPECT_TRUE(room.Enter(8));
}

TEST(PeerRoom, WithoutABoundForEachOnePeerMayHaveAll) {
  PeerRoom room({.all_max = 3, .each_max = 0});
  EXPECT_TRUE(room.Enter(1) && room.Enter(1) && room.Enter(1));
  EXPECT_FALSE(room.Enter(2));
}

}  // namespace
}  // namespace asterism::server
