// `asterism-launch worker` and `asterism-launch rsh` as mpirun uses them.
#include "launch/remote_shell.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(port_),
                              .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    ASSERT_EQ(connect(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    [[maybe_unused]] const ssize_t sent = send(stranger, noise.data(), noise.size(), MSG_NOSIGNAL);
    EXPECT_EQ(Remote({"true"}).wait_status, 0);
    close(stranger);
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
