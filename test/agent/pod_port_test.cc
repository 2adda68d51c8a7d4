// The socket for pods, with real processes behind it; their control groups are those of a folder
// that stands in for /proc, since a test belongs to no pod.
#include "agent/pod_port.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::agent {
namespace {

constexpr char kPortUid[] = "7d1f2c3a-0b1c-4d5e-8f90-a1b2c3d4e5f6";
constexpr char kOtherUid[] = "00000000-0b1c-4d5e-8f90-a1b2c3d4e5f6";

class PodPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(proc_ + "/" + std::to_string(getpid()));
    SetGroup("0::/kubepods/pod" + std::string(kPortUid) + "/x\n");
    auto port = PodPort::Open({.folder = folder_, .proc = proc_}, clock_, executor_,
                              [this](const WorkerReport& report) {
                                absl::MutexLock lock(&mutex_);
                                reports_.push_back(report);
                                more_.Signal();
                              });
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
  }
  void TearDown() override {
    port_.reset();
    executor_.Stop();
    std::filesystem::remove_all(folder_);
  }

  void SetGroup(const std::string& text) const {
    std::ofstream(proc_ + "/" + std::to_string(getpid()) + "/cgroup") << text;
  }
  int Connect() const {
    const std::string path = folder_ + "/" + kPortSocketName;
    sockaddr_un address{.sun_family = AF_UNIX};
    path.copy(address.sun_path, path.size());
    const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const timeval limit{.tv_sec = 5};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return connection;
  }
  static void Send(int connection, const std::string& packet) {
    send(connection, packet.data(), packet.size(), MSG_NOSIGNAL);
  }
  static std::string State(int64_t epoch) {
    v1::WorkerState state;
    state.set_epoch(epoch);
    return state.SerializeAsString();
  }
  // The answer of the agent; empty: it has closed, or says nothing.
  static std::string Receive(int connection) {
    std::string packet(4096, '\0');
    const ssize_t got = recv(connection, packet.data(), packet.size(), 0);
    packet.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return packet;
  }
  // The agent has closed it; not: it says nothing.
  static bool IsClosed(int connection) {
    char byte = 0;
    const ssize_t got = recv(connection, &byte, sizeof(byte), 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int tries = 0; tries < 500; ++tries) {
      if (condition()) {
        return true;
      }
      absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(10));
    }
    return false;
  }
  std::vector<WorkerReport> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    // Not Mutex::Await, which ThreadSanitizer does not see.
    const absl::Time limit = clock_.Now() + absl::Seconds(10);
    while (reports_.size() < count && !more_.WaitWithDeadline(&mutex_, limit)) {
    }
    return reports_;
  }

  const std::string folder_ = ::testing::TempDir() + "pod-port-" + std::to_string(getpid());
  const std::string proc_ = folder_ + "/proc";
  absl::Mutex mutex_;
  absl::CondVar more_;
  std::vector<WorkerReport> reports_;
  const base::SystemClock clock_{};
  base::ThreadExecutor executor_{"test"};
  std::unique_ptr<PodPort> port_;
};

TEST_F(PodPortTest, ReportsWhoTheKernelSaysItIs) {
  const int connection = Connect();
  Send(connection, State(3));
  v1::PortWelcome welcome;
  ASSERT_TRUE(welcome.ParseFromString(Receive(connection)));
  EXPECT_EQ(welcome.pod_uid(), kPortUid);
  Send(connection, State(4));
  close(connection);
  const std::vector<WorkerReport> reports = Await(3);
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].pod.uid, kPortUid);
  EXPECT_EQ(reports[0].state.epoch(), 3);
  EXPECT_TRUE(reports[1].connected);
  EXPECT_FALSE(reports[2].connected);
  EXPECT_EQ(reports[2].state.epoch(), 4);
}

TEST_F(PodPortTest, ClosesToWhoIsNoPod) {
  SetGroup("0::/user.slice\n");
  const int connection = Connect();
  EXPECT_TRUE(IsClosed(connection));
  close(connection);
}

TEST_F(PodPortTest, ClosesToWhoHasGone) {
  // A process that connects, hands its connection on, and ends.
  int connection = Connect();
  close(connection);
  connection = Connect();
  const pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  // The connection is that of this process, which runs.
  Send(connection, State(1));
  EXPECT_NE(Receive(connection), "");
  close(connection);
}

TEST_F(PodPortTest, DropsWhatItCannotRead) {
  for (const std::string& packet : {std::string("\xff\xff\xff"), std::string(4'097, '\0')}) {
    const int connection = Connect();
    Send(connection, packet);
    EXPECT_TRUE(IsClosed(connection));
    close(connection);
  }
  const int connection = Connect();
  Send(connection, State(1));
  EXPECT_NE(Receive(connection), "");
  close(connection);
}

TEST_F(PodPortTest, HearsAFewMessagesASecondOfEachPod) {
  const int loud = Connect();
  const int louder = Connect();
  Send(louder, State(1));
  EXPECT_NE(Receive(louder), "");
  for (int i = 0; i < 60; ++i) {
    Send(loud, State(i + 1));
    Send(louder, State(i + 1));
  }
  SetGroup("0::/kubepods/pod" + std::string(kOtherUid) + "/x\n");
  const int quiet = Connect();
  Send(quiet, State(1000));
  EXPECT_NE(Receive(quiet), "");
  absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(300));
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_LE(reports_.size(), 42U);
  }
  // Nothing is lost.
  EXPECT_GE(Await(122).size(), 122U);
  close(loud);
  close(louder);
  close(quiet);
}

TEST_F(PodPortTest, BoundsTheConnectionsOfAPod) {
  std::vector<int> connections;
  for (int i = 0; i < 8; ++i) {
    connections.push_back(Connect());
  }
  Send(connections[3], State(1));
  EXPECT_NE(Receive(connections[3]), "");
  EXPECT_TRUE(IsClosed(connections[7]));
  // Another pod has room of its own.
  SetGroup("0::/kubepods/pod" + std::string(kOtherUid) + "/x\n");
  const int other = Connect();
  Send(other, State(1));
  EXPECT_NE(Receive(other), "");
  // Who closes makes room.
  SetGroup("0::/kubepods/pod" + std::string(kPortUid) + "/x\n");
  close(connections[0]);
  EXPECT_TRUE(Eventually([&] {
    const int again = Connect();
    Send(again, State(1));
    const bool taken = !Receive(again).empty();
    close(again);
    return taken;
  }));
  for (size_t i = 1; i < connections.size(); ++i) {
    close(connections[i]);
  }
  close(other);
}

TEST_F(PodPortTest, KeepsKnownFieldsOnly) {
  const int connection = Connect();
  // The tag of field 15, a number, as often as a message may hold it.
  std::string packet = State(7);
  while (packet.size() + 2 <= 4096) {
    packet += {0x78, 0x00};
  }
  Send(connection, packet);
  EXPECT_NE(Receive(connection), "");
  const std::vector<WorkerReport> reports = Await(1);
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports[0].state.epoch(), 7);
  EXPECT_EQ(reports[0].state.SerializeAsString(), State(7));
  close(connection);
}

TEST_F(PodPortTest, WhoComesAfterALoopOfConnectionsIsHeard) {
  for (int i = 0; i < 600; ++i) {
    close(Connect());
  }
  // The rest waits; a launcher that comes after them is heard all the same.
  const int late = Connect();
  Send(late, State(5));
  EXPECT_NE(Receive(late), "");
  close(late);
}

TEST_F(PodPortTest, TakesTheSocketOfAKilledAgentOver) {
  auto second = PodPort::Open({.folder = folder_, .proc = proc_}, clock_, executor_,
                              [](const WorkerReport&) {});
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST(PodPort, SaysWhatIsWrongWithItsFolder) {
  const base::SystemClock clock{};
  base::ThreadExecutor executor("test");
  const auto none = [](const WorkerReport&) {};
  EXPECT_THAT(PodPort::Open({.folder = "/proc/no/such"}, clock, executor, none).status().message(),
              ::testing::HasSubstr("--port-folder"));
  const std::string too_long = ::testing::TempDir() + std::string(200, 'x');
  EXPECT_THAT(PodPort::Open({.folder = too_long}, clock, executor, none).status().message(),
              ::testing::HasSubstr("shorter"));
  EXPECT_FALSE(std::filesystem::exists(too_long));
}

}  // namespace
}  // namespace asterism::agent
