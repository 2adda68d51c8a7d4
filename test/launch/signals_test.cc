// Signals under the launcher: as its command would get them without it, whoever sends them, and
// whatever else the launcher is doing.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launch/process_tree.h"
#include "test/launch/program.h"

namespace asterism::launch {
namespace {

using ::testing::HasSubstr;

// Prints "ready", and on the signal "got" before it exits with 7.
std::string Trap(const std::string& signal_name) {
  return "trap 'echo got; exit 7' " + signal_name + "; echo ready; while :; do sleep 0.05; done";
}

TEST(Signals, ThoseOfFaultsAreHandedOnWhenSomebodySendsThem) {
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGALRM,
                           SIGPIPE, SIGRTMIN, SIGRTMAX}) {
    Program program({"sh", "-c", Trap(std::to_string(number))});
    ASSERT_TRUE(program.Prints("ready"));
    program.Signal(number);
    EXPECT_TRUE(program.Prints("got")) << number;
    EXPECT_EQ(WEXITSTATUS(program.End().wait_status), 7) << number;
  }
}

TEST(Signals, TheFirstProcessOfAContainerHandsThemOn) {
  const std::vector<std::string> container = {"--", "unshare", "-Urpf", "--mount-proc"};
  std::vector<std::string> words = container;
  words.emplace_back("true");
  if (Program(words).End().wait_status != 0) {
    GTEST_SKIP() << "this machine lets us make no PID namespace";
  }
  for (const int number : {SIGABRT, SIGSEGV, SIGTERM}) {
    words = container;
    words.insert(words.end(), {ASTERISM_LAUNCH, "--", "sh", "-c",
                               "(sleep 0.2; kill -" + std::to_string(number) + " 1) & " +
                                   Trap(std::to_string(number))});
    Program program(words);
    EXPECT_TRUE(program.Prints("got")) << number;
    EXPECT_EQ(WEXITSTATUS(program.End().wait_status), 7) << number;
  }
}

TEST(Signals, AHangupOfTheTerminalReachesTheCommand) {
  const std::string marker = ::testing::TempDir() + "hangup-" + std::to_string(getpid());
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const std::string script =
      "trap 'echo > " + marker + "; exit 7' HUP; echo ready; " + "while :; do sleep 0.05; done";
  const pid_t launcher = fork();
  if (launcher == 0) {
    // As the first process of a container with `tty: true`.
    setsid();
    const int side = open(ptsname(terminal), O_RDWR);
    ioctl(side, TIOCSCTTY, 0);
    dup2(side, STDIN_FILENO);
    dup2(side, STDOUT_FILENO);
    dup2(side, STDERR_FILENO);
    execl(ASTERISM_LAUNCH, ASTERISM_LAUNCH, "--", "sh", "-c", script.c_str(), nullptr);
    _exit(99);
  }
  std::string printed;
  char c = 0;
  while (printed.find("ready") == std::string::npos && read(terminal, &c, 1) == 1) {
    printed.push_back(c);
  }
  close(terminal);
  bool got = false;
  for (int i = 0; i < 500 && !got; ++i) {
    usleep(20'000);
    got = std::filesystem::exists(marker);
  }
  EXPECT_TRUE(got) << printed;
  if (!got) {
    kill(-launcher, SIGKILL);
  }
  int status = 0;
  waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  std::filesystem::remove(marker);
}

TEST(Signals, TheCommandEndsWithALauncherThatIsKilled) {
  Program program({"sh", "-c", "echo pid:$$.; exec sleep 600"});
  ASSERT_TRUE(program.Prints("."));
  pid_t command = -1;
  for (const pid_t below : ProcessesBelow("/proc", program.pid())) {
    const auto name = ReadProcFile("/proc/" + std::to_string(below) + "/cmdline", 100);
    if (name && name->find("asterism-launch") == std::string::npos) {
      command = below;
    }
  }
  ASSERT_GT(command, 0);
  program.Signal(SIGKILL);
  bool gone = false;
  for (int i = 0; i < 1'000 && !gone; ++i) {
    usleep(10'000);
    const auto stat = ReadProcessStat("/proc", command);
    gone = !stat || stat->state == 'Z';
  }
  EXPECT_TRUE(gone);
  if (!gone) {
    kill(command, SIGKILL);
  }
}

// A FUSE file system that nobody serves: each open, stat and read of it waits for ever.
class HungFileSystem : public ::testing::Test {
 protected:
  HungFileSystem() { std::filesystem::create_directory(folder_); }
  ~HungFileSystem() override { std::filesystem::remove(folder_); }

  // In a mount namespace of its own, which is gone with the last process in it.
  std::vector<std::string> Under(const std::string& script) const {
    return {"--",
            "unshare",
            "-Urm",
            "sh",
            "-c",
            "exec 3<>/dev/fuse && mount -i -t fuse -o "
            "fd=3,rootmode=40000,user_id=0,group_id=0 hung \"$0\" || exit 33; "
            "exec " ASTERISM_LAUNCH " -- sh -c \"$1\"",
            folder_,
            script};
  }
  std::map<std::string, std::string> Environment(const FakeAgent& agent) const {
    return {{"ASTERISM_PORT", agent.path()},
            {"ASTERISM_PROGRESS_FILE", folder_ + "/progress.jsonl"}};
  }
  bool Works() const { return WEXITSTATUS(Program(Under("exit 0")).End().wait_status) == 0; }

  const std::string folder_ = ::testing::TempDir() + "hung-" + std::to_string(getpid());
};

TEST_F(HungFileSystem, HoldsUpNoSignalAndNoEnd) {
  if (!Works()) {
    GTEST_SKIP() << "this machine lets us mount no FUSE file system";
  }
  FakeAgent outer;
  Program program(Under(Trap("TERM")), Environment(outer));
  ASSERT_TRUE(program.Prints("ready"));
  program.Signal(SIGTERM);
  ASSERT_TRUE(program.Prints("got"));
  EXPECT_EQ(WEXITSTATUS(program.End().wait_status), 7);
}

TEST_F(HungFileSystem, IsAProblemOfTheProgress) {
  if (!Works()) {
    GTEST_SKIP() << "this machine lets us mount no FUSE file system";
  }
  FakeAgent agent;
  std::map<std::string, std::string> environment = Environment(agent);
  const std::string inner = environment["ASTERISM_PROGRESS_FILE"];
  environment.erase("ASTERISM_PROGRESS_FILE");
  environment.erase("ASTERISM_PORT");
  std::vector<std::string> words = Under("sleep 600");
  // For the launcher inside only: the agent of the test hears one.
  words[5] =
      "export ASTERISM_PORT=" + agent.path() + " ASTERISM_PROGRESS_FILE=" + inner + "; " + words[5];
  Program program(words, environment);
  const auto told =
      agent.Await([](const v1::WorkerState& state) { return !state.progress_problem().empty(); });
  ASSERT_TRUE(told);
  EXPECT_THAT(told->progress_problem(), HasSubstr(inner));
  EXPECT_THAT(told->progress_problem(), HasSubstr("does not answer"));
}

}  // namespace
}  // namespace asterism::launch
