#include "controller/grpc_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;

void WaitFor(absl::Duration duration) {
  absl::Notification never;
  never.WaitForNotificationWithTimeout(duration);
}

class Socket {
 public:
  Socket() : number_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { close(number_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // From 127.0.0.`host`.
  void Connect(uint16_t port, int host) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x7f000000u + static_cast<uint32_t>(host));
    ASSERT_EQ(bind(number_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    ASSERT_EQ(connect(number_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  // The other side has closed it.
  bool Closed() const {
    pollfd event = {number_, POLLIN, 0};
    return poll(&event, 1, /*milliseconds=*/0) == 1;
  }

 private:
  const int number_;
};

class GrpcListenerTest : public ::testing::Test {
 protected:
  ~GrpcListenerTest() override {
    listener_.reset();
    CloseTaken(0);
  }
  void Listen(size_t connections_max) {
    auto listener =
        GrpcListener::Listen({.address = "127.0.0.1", .connections_max = connections_max});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    listener_->Start([this](int socket) {
      absl::MutexLock lock(&mutex_);
      taken_.push_back(socket);
    });
  }
  size_t taken() {
    absl::MutexLock lock(&mutex_);
    return taken_.size();
  }
  // All but the first ones, as gRPC would.
  void CloseTaken(size_t kept) {
    absl::MutexLock lock(&mutex_);
    for (; taken_.size() > kept; taken_.pop_back()) {
      close(taken_.back());
    }
  }
  // Whether a new connection from that host was taken; it stays open until the test ends.
  bool Takes(int host) {
    const size_t before = taken();
    sockets_.push_back(std::make_unique<Socket>());
    sockets_.back()->Connect(listener_->port(), host);
    for (int i = 0; i < 5000 && taken() == before && !sockets_.back()->Closed(); ++i) {
      WaitFor(absl::Milliseconds(1));
    }
    return taken() > before;
  }

  absl::Mutex mutex_;
  std::vector<int> taken_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::unique_ptr<GrpcListener> listener_;
};

TEST_F(GrpcListenerTest, OnePeerCannotTakeAllConnections) {
  Listen(32);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(Takes(1)) << i;
  }
  EXPECT_FALSE(Takes(1));
  EXPECT_FALSE(Takes(1));
  EXPECT_TRUE(Takes(2));
  CloseTaken(3);
  EXPECT_TRUE(Takes(1)) << "one of its connections is closed";
  EXPECT_FALSE(Takes(1));
}

TEST_F(GrpcListenerTest, TheLastQuarterIsForPeersThatHaveNone) {
  Listen(16);
  for (int host = 1; host <= 6; ++host) {
    EXPECT_TRUE(Takes(host) && Takes(host)) << host;
  }
  EXPECT_TRUE(Takes(7));
  EXPECT_FALSE(Takes(7)) << "it has one";
  EXPECT_TRUE(Takes(8) && Takes(9) && Takes(10));
  EXPECT_FALSE(Takes(11)) << "all are taken";
  CloseTaken(10);
  WaitFor(absl::Milliseconds(200));
  EXPECT_TRUE(Takes(11));
}

TEST_F(GrpcListenerTest, ANumberThatMeansAnotherFileIsNoConnection) {
  Listen(16);
  EXPECT_TRUE(Takes(1) && Takes(1));
  CloseTaken(0);
  const Socket other;  // has one of the numbers
  const Socket another;
  EXPECT_TRUE(Takes(1) && Takes(1));
}

TEST_F(GrpcListenerTest, ItListensOnWhenTheFilesHaveRunOut) {
  Listen(64);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Socket early;
  std::vector<int> all;
  for (int file = dup(0); file >= 0; file = dup(0)) {
    all.push_back(file);
  }
  early.Connect(listener_->port(), 1);
  WaitFor(absl::Milliseconds(300));
  EXPECT_EQ(taken(), 0u);
  for (const int file : all) {
    close(file);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (int i = 0; i < 5000 && taken() == 0; ++i) {
    WaitFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(taken(), 1u) << "it waited for its turn";
  EXPECT_TRUE(Takes(1));
}

TEST_F(GrpcListenerTest, APortThatIsTakenIsAnErrorAndAPortOfAStoppedOneIsFree) {
  Listen(16);
  const uint16_t port = listener_->port();
  const auto second = GrpcListener::Listen({.address = "127.0.0.1", .port = port});
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("the port is taken"));
  EXPECT_TRUE(Takes(1));
  listener_->Stop();
  EXPECT_TRUE(GrpcListener::Listen({.address = "127.0.0.1", .port = port}).ok());
}

}  // namespace
}  // namespace asterism::controller
