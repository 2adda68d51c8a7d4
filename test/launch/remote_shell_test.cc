// `asterism-launch worker` and `asterism-launch rsh` as mpirun uses them.
#include "launch/remote_shell.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launch/clocks.h"
#include "launch/process_tree.h"
#include "test/launch/program.h"

namespace asterism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

uint16_t FreePort() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  bind(probe, reinterpret_cast<const sockaddr*>(&address), size);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  close(probe);
  return ntohs(address.sin_port);
}

int ConnectedTo(uint16_t port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return connection;
}

// On 127.0.0.`last`.
int ListenerAt(uint16_t port, uint32_t last) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr = {.s_addr = htonl(0x7F000000U + last)}};
  EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener, 8), 0);
  return listener;
}

bool IsCalled(int listener, int milliseconds = 30'000) {
  pollfd waited{.fd = listener, .events = POLLIN};
  return poll(&waited, 1, milliseconds) == 1;
}

class RemoteShellTest : public ::testing::Test {
 protected:
  using Environment = std::map<std::string, std::string>;

  RemoteShellTest() {
    std::filesystem::create_directory(folder_);
    std::ofstream(folder_ + "/key") << std::string(32, 'k');
    std::ofstream(folder_ + "/other") << std::string(32, 'x');
    std::ofstream(folder_ + "/short") << "k";
  }
  ~RemoteShellTest() override { std::filesystem::remove_all(folder_); }

  Environment With(const std::string& key) const {
    return {{"ASTERISM_JOB_KEY", folder_ + "/" + key},
            {"ASTERISM_REMOTE_PORT", std::to_string(port_)}};
  }
  ProgramEnd Remote(std::vector<std::string> command, const std::string& input = {}) const {
    command.insert(command.begin(), {"rsh", "127.0.0.1"});
    return Program(command, With("key"), input).End();
  }

  const std::string folder_ = ::testing::TempDir() + "remote-shell-" + std::to_string(getpid());
  const uint16_t port_ = FreePort();
};

TEST_F(RemoteShellTest, RunsACommandAsSshDoes) {
  Program worker({"worker"}, With("key"));
  const ProgramEnd end =
      Remote({"read", "x;", "echo", "got:$x;", "echo bad >&2;", "exit", "9"}, "line\n");
  EXPECT_EQ(WEXITSTATUS(end.wait_status), 9);
  EXPECT_THAT(end.output, HasSubstr("got:line"));
  EXPECT_THAT(end.output, HasSubstr("bad"));
  EXPECT_EQ(WEXITSTATUS(Remote({"kill -9 $$"}).wait_status), 137);
  EXPECT_EQ(WEXITSTATUS(Remote({"/no/such/program"}).wait_status), 127);
}

TEST_F(RemoteShellTest, CarriesMuchBothWaysAtOnce) {
  Program worker({"worker"}, With("key"));
  // The reader is slower than the writer, and the command writes more than it was given.
  const std::string input(60'000, 'i');
  const ProgramEnd end =
      Remote({"head -c 3000000 /dev/zero | tr '\\0' o; sleep 0.2; cat | wc -c"}, input);
  EXPECT_EQ(end.wait_status, 0);
  EXPECT_EQ(end.output.size(), 3'000'000U + 6);
  EXPECT_THAT(end.output.substr(3'000'000), HasSubstr("60000"));
}

TEST_F(RemoteShellTest, ServesMembersOfTheJobOnly) {
  Program worker({"worker"}, With("key"));
  EXPECT_EQ(Remote({"true"}).wait_status, 0);
  const ProgramEnd stranger = Program({"rsh", "127.0.0.1", "echo", "secret"}, With("other")).End();
  EXPECT_EQ(WEXITSTATUS(stranger.wait_status), 1);
  EXPECT_THAT(stranger.output, HasSubstr("does not know the job's key"));
  EXPECT_THAT(stranger.output, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(Remote({"true"}).wait_status, 0);
}

TEST_F(RemoteShellTest, OutlivesNoise) {
  Program worker({"worker"}, With("key"));
  EXPECT_EQ(Remote({"true"}).wait_status, 0);
  for (const std::string noise : {"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff"}) {
    const int stranger = ConnectedTo(port_);
    [[maybe_unused]] const ssize_t sent = send(stranger, noise.data(), noise.size(), MSG_NOSIGNAL);
    EXPECT_EQ(Remote({"true"}).wait_status, 0);
    close(stranger);
  }
}

TEST_F(RemoteShellTest, SilentConnectionsKeepNobodyOut) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlimit before = files;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  Program worker({"worker"}, With("key"));
  EXPECT_EQ(Remote({"true"}).wait_status, 0);
  std::vector<int> silent(std::min<rlim_t>(files.rlim_cur - 64, 1'200));
  for (int& connection : silent) {
    connection = ConnectedTo(port_);
  }
  const ProgramEnd end = Remote({"echo", "served"});
  EXPECT_EQ(end.wait_status, 0);
  EXPECT_EQ(end.output, "served\n");
  for (const int connection : silent) {
    close(connection);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(RemoteShellTest, AsksAgainWhereTheConnectionEnded) {
  Program caller({"rsh", "127.0.0.1", "echo", "served"}, With("key"));
  const int listener = ListenerAt(port_, 1);
  ASSERT_TRUE(IsCalled(listener));
  close(accept(listener, nullptr, nullptr));  // as a worker whose place others take
  ASSERT_TRUE(IsCalled(listener));
  close(listener);
  Program worker({"worker"}, With("key"));
  const ProgramEnd end = caller.End();
  EXPECT_EQ(end.output, "served\n");
  EXPECT_EQ(end.wait_status, 0);
}

TEST_F(RemoteShellTest, GivesAllThatTheCommandStartedTimeToEnd) {
  Program worker({"worker"}, With("key"));
  const std::string marker = folder_ + "/ended";
  {
    // The shell ends at once; what it has started wants to write something first.
    Program caller({"rsh", "127.0.0.1",
                    "sh -c 'trap \"sleep 0.3; echo > " + marker +
                        "; exit\" TERM; echo started; while :; do sleep 0.05; done' & wait"},
                   With("key"));
    ASSERT_TRUE(caller.Prints("started"));
  }
  bool ended = false;
  for (int i = 0; i < 500 && !ended; ++i) {
    usleep(20'000);
    ended = std::filesystem::exists(marker);
  }
  EXPECT_TRUE(ended);
}

TEST_F(RemoteShellTest, EndsWhatTheCommandHasPutIntoAnotherSession) {
  Program worker({"worker"}, With("key"));
  const std::string marker = folder_ + "/pids";
  {
    Program caller({"rsh", "127.0.0.1",
                    "setsid sh -c 'trap \"\" TERM; echo $$ > " + marker +
                        "; echo started; sleep 600' & (setsid sh -c 'echo $$ >> " + marker +
                        "; sleep 600' &) ; wait"},
                   With("key"));
    ASSERT_TRUE(caller.Prints("started"));
  }
  std::vector<pid_t> pids;
  std::ifstream file(marker);
  for (pid_t pid = 0; file >> pid;) {
    pids.push_back(pid);
  }
  ASSERT_FALSE(pids.empty());
  for (const pid_t pid : pids) {
    bool gone = false;
    for (int i = 0; i < 1'000 && !gone; ++i) {
      usleep(20'000);
      gone = !ReadProcessStat("/proc", pid) || ReadProcessStat("/proc", pid)->state == 'Z';
    }
    EXPECT_TRUE(gone);
    if (!gone) {
      kill(pid, SIGKILL);
    }
  }
}

TEST_F(RemoteShellTest, CommandsHaveTheSignalsOfALogin) {
  Program worker({"worker"}, With("key"));
  const ProgramEnd end = Remote({"grep", "-E", "'SigIgn|SigBlk'", "/proc/self/status"});
  // 32 and 33 belong to the C library, whose posix_spawn hands them on ignored; make uses it.
  constexpr uint64_t kOfTheLibrary = uint64_t{3} << 31;
  for (const char* field : {"SigIgn:\t", "SigBlk:\t"}) {
    const size_t at = end.output.find(field);
    ASSERT_NE(at, std::string::npos) << end.output;
    const uint64_t set = std::stoull(end.output.substr(at + 8, 16), nullptr, 16);
    EXPECT_EQ(set & ~kOfTheLibrary, 0U) << end.output;
  }
}

TEST_F(RemoteShellTest, EndsTheCommandWithItsCaller) {
  Program worker({"worker"}, With("key"));
  const std::string marker = folder_ + "/alive";
  {
    Program caller(
        {"rsh", "127.0.0.1", "echo started; while :; do date > " + marker + "; sleep 0.05; done"},
        With("key"));
    ASSERT_TRUE(caller.Prints("started"));
  }
  // The writer is gone soon, and nothing comes after it.
  bool quiet = false;
  for (int i = 0; i < 100 && !quiet; ++i) {
    std::filesystem::remove(marker);
    usleep(300'000);
    quiet = !std::filesystem::exists(marker);
  }
  EXPECT_TRUE(quiet);
}

TEST_F(RemoteShellTest, WorkersEndWithTheJob) {
  Program worker({"--", ASTERISM_LAUNCH, "worker"}, With("key"));
  EXPECT_EQ(Remote({"true"}).wait_status, 0);
  Environment first = With("key");
  const std::string hosts = folder_ + "/hostfile";
  std::ofstream(hosts) << "rank-0 slots=8\n127.0.0.1 slots=8\n";
  first["ASTERISM_HOSTFILE"] = hosts;
  first["ASTERISM_RANK_FIRST"] = "0";
  EXPECT_EQ(WEXITSTATUS(Program({"sh", "-c", "exit 3"}, first).End().wait_status), 3);
  EXPECT_EQ(Remote({"true"}).wait_status, 0) << "a failure is for whoever restarts the gang";
  EXPECT_EQ(Program({"true"}, first).End().wait_status, 0);
  EXPECT_EQ(worker.End().wait_status, 0);
}

// Workers that take a connection and say nothing: were they told one after the other, the second
// would hear of it when the time of all is over.
TEST_F(RemoteShellTest, AllWorkersAreToldAtOnceAndAnEndIsNotHeldUp) {
  std::vector<int> listeners;
  const std::string hosts = folder_ + "/hostfile";
  std::ofstream file(hosts);
  file << "rank-0\n";
  for (uint32_t last = 2; last < 8; ++last) {
    listeners.push_back(ListenerAt(port_, last));
    file << "127.0.0." << last << "\n";
  }
  file.close();
  Environment first = With("key");
  first["ASTERISM_HOSTFILE"] = hosts;
  first["ASTERISM_RANK_FIRST"] = "0";
  Program program({"true"}, first);
  for (const int listener : listeners) {
    EXPECT_TRUE(IsCalled(listener, 8'000));
  }
  const base::SteadyTime asked = SteadyNow();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.End().wait_status, 0) << "the command had ended well";
  EXPECT_LT(SteadyNow() - asked, absl::Seconds(3)) << "all would take 5 s";
  // Nobody is left who would call again.
  for (const int listener : listeners) {
    close(accept(listener, nullptr, nullptr));
    close(listener);
  }
}

TEST_F(RemoteShellTest, RefusesNamesThatNoHostHas) {
  for (const char* host : {"a b", "[::1]", "user@"}) {
    const ProgramEnd end = Program({"rsh", host, "true"}, With("key")).End();
    EXPECT_EQ(WEXITSTATUS(end.wait_status), 2) << host;
    EXPECT_THAT(end.output, HasSubstr("is no host")) << host;
  }
}

TEST_F(RemoteShellTest, HonoursTheOptionsOfSsh) {
  Program worker({"worker"}, With("key"));
  const ProgramEnd end =
      Program({"rsh", "-x", "-n", "-l", "user", "127.0.0.1", "cat;", "echo", "end"}, With("key"),
              "input")
          .End();
  EXPECT_EQ(end.output, "end\n");
}

TEST_F(RemoteShellTest, SaysWhatIsMissing) {
  EXPECT_THAT(Program({"worker"}).End().output, HasSubstr("ASTERISM_JOB_KEY"));
  EXPECT_THAT(Program({"worker"}, With("short")).End().output, HasSubstr("32 bytes"));
  EXPECT_THAT(Program({"worker"}, With("absent")).End().output, HasSubstr("absent"));
}

TEST(HostsOf, ReadsAHostFile) {
  EXPECT_THAT(HostsOf("a slots=8\n\n# note\nb\tslots=8\r\nc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(HostsOf(""), ElementsAre());
}

}  // namespace
}  // namespace asterism::launch
