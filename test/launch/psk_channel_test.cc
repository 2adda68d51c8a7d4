#include "launch/psk_channel.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "gtest/gtest.h"

namespace asterism::launch {
namespace {

const std::string kKey(32, 'k');

class PskChannelTest : public ::testing::Test {
 protected:
  PskChannelTest() { socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()); }
  ~PskChannelTest() override { signal(SIGPIPE, before_); }

  const sighandler_t before_ = signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends_{};
};

TEST_F(PskChannelTest, TellsSilenceFromAnotherKey) {
  const auto silent = PskChannel::Connect(ends_[0], kKey, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(silent.status())) << silent.status();
  close(ends_[1]);
}

TEST_F(PskChannelTest, TellsAnEndFromAnotherKey) {
  close(ends_[1]);
  const auto ended = PskChannel::Connect(ends_[0], kKey, absl::Seconds(10));
  EXPECT_TRUE(absl::IsUnavailable(ended.status())) << ended.status();
}

TEST_F(PskChannelTest, TellsAnEndWithinAHandshakeFromAnotherKey) {
  shutdown(ends_[1], SHUT_WR);
  const auto ended = PskChannel::Connect(ends_[0], kKey, absl::Seconds(10));
  EXPECT_TRUE(absl::IsUnavailable(ended.status())) << ended.status();
  close(ends_[1]);
}

TEST_F(PskChannelTest, KnowsAnotherKey) {
  std::thread server([this] {
    const auto accepted = PskChannel::Accept(ends_[1], std::string(32, 'x'), absl::Seconds(30));
    EXPECT_TRUE(absl::IsUnauthenticated(accepted.status())) << accepted.status();
  });
  const auto other = PskChannel::Connect(ends_[0], kKey, absl::Seconds(30));
  EXPECT_TRUE(absl::IsUnauthenticated(other.status())) << other.status();
  server.join();
}

}  // namespace
}  // namespace asterism::launch
