// The program as its users meet it: a command under it behaves as without it, and the agent is
// told.
#include "launch/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launch/copy_self.h"
#include "launch/process_tree.h"
#include "test/launch/program.h"

namespace asterism::launch {
namespace {

using ::testing::HasSubstr;

int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TEST(Supervisor, GivesTheExitCodeBack) {
  for (const int code : {0, 1, 3, 255}) {
    const ProgramEnd end = Program({"sh", "-c", "exit " + std::to_string(code)}).End();
    ASSERT_TRUE(WIFEXITED(end.wait_status));
    EXPECT_EQ(WEXITSTATUS(end.wait_status), code);
    EXPECT_EQ(end.output, "");
  }
}

TEST(Supervisor, EndsByTheSignalThatEndedTheCommand) {
  for (const int number : {SIGTERM, SIGKILL, SIGSEGV, SIGPIPE}) {
    const ProgramEnd end = Program({"sh", "-c", "kill -" + std::to_string(number) + " $$"}).End();
    ASSERT_TRUE(WIFSIGNALED(end.wait_status)) << number;
    EXPECT_EQ(WTERMSIG(end.wait_status), number);
  }
}

TEST(Supervisor, LeavesStreamsAndArgumentsAlone) {
  const ProgramEnd end =
      Program({"sh", "-c", "read line; echo \"$line:$1:$2\"; echo bad >&2", "sh", "a b", ""}, {},
              "input\n")
          .End();
  EXPECT_EQ(end.output, "input:a b:\nbad\n");
}

TEST(Supervisor, SaysWhatCannotBeStarted) {
  const ProgramEnd missing = Program({"--", "/no/such/program"}).End();
  EXPECT_EQ(WEXITSTATUS(missing.wait_status), 127);
  EXPECT_THAT(missing.output, HasSubstr("/no/such/program"));
  EXPECT_THAT(missing.output, HasSubstr("No such file"));
  const ProgramEnd forbidden = Program({"--", "/etc/passwd"}).End();
  EXPECT_EQ(WEXITSTATUS(forbidden.wait_status), 126);
}

TEST(Supervisor, HandsSignalsOn) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGWINCH}) {
    Program program({"sh", "-c",
                     "trap 'echo got; exit 7' " + std::to_string(number) +
                         "; echo ready; while :; do sleep 0.05; done"});
    ASSERT_TRUE(program.Prints("ready"));
    program.Signal(number);
    const ProgramEnd end = program.End();
    EXPECT_EQ(WEXITSTATUS(end.wait_status), 7) << number;
    EXPECT_THAT(end.output, HasSubstr("got"));
  }
}

TEST(Supervisor, StartsTheCommandWithItsOwnSignalMaskAndFiles) {
  const ProgramEnd end =
      Program({"sh", "-c", "grep SigBlk /proc/self/status; ls -l /proc/self/fd"}).End();
  EXPECT_THAT(end.output, HasSubstr("SigBlk:\t0000000000000000"));
  for (const char* ours : {"signalfd", "pidfd", "socket"}) {
    EXPECT_THAT(end.output, ::testing::Not(HasSubstr(ours)));
  }
}

TEST(Supervisor, LeavesNoZombies) {
  // The grandchild loses its parent; who waits for it is the launcher.
  Program program({"sh", "-c", "(sleep 0.1 &) ; sleep 0.6; ps -o stat= --ppid $PPID; echo end"});
  const ProgramEnd end = program.End();
  EXPECT_THAT(end.output, ::testing::Not(HasSubstr("Z")));
  EXPECT_THAT(end.output, HasSubstr("end"));
}

TEST(Supervisor, TellsTheAgentItsLife) {
  FakeAgent agent;
  const int64_t before = NowNanos();
  Program program({"sh", "-c", "sleep 0.3; exit 5"}, {{"ASTERISM_PORT", agent.path()},
                                                      {"ASTERISM_JOB", "research/llama"},
                                                      {"ASTERISM_EPOCH", "3"},
                                                      {"ASTERISM_RANK_FIRST", "8"},
                                                      {"ASTERISM_RANKS", "2"}});
  const auto first = agent.Next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->job(), "research/llama");
  EXPECT_EQ(first->epoch(), 3);
  EXPECT_EQ(first->first_rank(), 8);
  EXPECT_EQ(first->ranks(), 2);
  EXPECT_GE(first->started_unix_nanos(), before);
  EXPECT_FALSE(first->has_exit());
  const auto last = agent.Await([](const v1::WorkerState& state) { return state.has_exit(); });
  ASSERT_TRUE(last);
  EXPECT_EQ(last->exit().exit_code(), 5);
  EXPECT_EQ(last->first_cause().rank(), -1);
  EXPECT_GT(last->exit().time_unix_nanos(), first->started_unix_nanos() + 250'000'000);
  EXPECT_EQ(WEXITSTATUS(program.End().wait_status), 5);
}

TEST(Supervisor, NamesTheRankThatEndedFirst) {
  FakeAgent agent;
  // As torchrun does it: starts ranks, waits, ends all when one fails, exits with 1.
  Program program(
      {"sh", "-c",
       "RANK=8 sleep 60 & a=$!; RANK=9 sh -c 'sleep 0.5; exit 13' & wait $!; "
       "kill $a; wait; exit 1"},
      {{"ASTERISM_PORT", agent.path()}, {"ASTERISM_RANK_FIRST", "8"}, {"ASTERISM_RANKS", "2"}});
  const auto last = agent.Await([](const v1::WorkerState& state) { return state.has_exit(); });
  ASSERT_TRUE(last);
  EXPECT_EQ(last->first_cause().rank(), 9);
  EXPECT_EQ(last->first_cause().exit_code(), 13);
  EXPECT_EQ(last->exit().exit_code(), 1);
  EXPECT_LE(last->first_cause().time_unix_nanos(), last->exit().time_unix_nanos());
}

TEST(Supervisor, TellsAnAgentThatComesBackEverything) {
  FakeAgent agent;
  Program program({"sleep", "30"}, {{"ASTERISM_PORT", agent.path()}, {"ASTERISM_EPOCH", "2"}});
  ASSERT_TRUE(agent.Next());
  agent.Drop();
  const auto again = agent.Next();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->epoch(), 2);
}

TEST(Supervisor, RunsWithoutAnAgent) {
  Program program({"sh", "-c", "echo fine"}, {{"ASTERISM_PORT", "/no/such/socket"}});
  const ProgramEnd end = program.End();
  EXPECT_EQ(end.output, "fine\n");
  EXPECT_EQ(end.wait_status, 0);
}

TEST(Supervisor, TellsProgress) {
  FakeAgent agent;
  const std::string path = ::testing::TempDir() + "launch-progress-" + std::to_string(getpid());
  Program program(
      {"sh", "-c", "echo '{\"step\": 41, \"tokensPerSecond\": 8}' > $0; sleep 30", path},
      {{"ASTERISM_PORT", agent.path()}, {"ASTERISM_PROGRESS_FILE", path}});
  const auto told = agent.Await([](const v1::WorkerState& state) { return state.has_progress(); });
  std::filesystem::remove(path);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->progress().step(), 41);
  EXPECT_EQ(told->progress().tokens_per_second(), 8);
}

TEST(Supervisor, TellsTheLastProgress) {
  FakeAgent agent;
  const std::string path = ::testing::TempDir() + "last-progress-" + std::to_string(getpid());
  // Nothing looks at the file between the line and the end.
  Program program({"sh", "-c", "echo '{\"step\": 99}' > $0", path},
                  {{"ASTERISM_PORT", agent.path()}, {"ASTERISM_PROGRESS_FILE", path}});
  const auto last = agent.Await([](const v1::WorkerState& state) { return state.has_exit(); });
  std::filesystem::remove(path);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->progress().step(), 99);
}

// What looks for ranks and at files has the launcher's environment, and so the name of a rank.
TEST(Supervisor, TakesItsOwnProcessesForNoRank) {
  FakeAgent agent;
  Program program({"sh", "-c", "echo ready; read line; exit 0"},
                  {{"ASTERISM_PORT", agent.path()},
                   {"ASTERISM_PROGRESS_FILE", "/no/such/file"},
                   {"ASTERISM_RANK_FIRST", "8"},
                   {"ASTERISM_RANKS", "1"},
                   {"RANK", "8"}},
                  "", /*close_input=*/false);
  ASSERT_TRUE(program.Prints("ready"));
  std::vector<pid_t> own;
  for (int i = 0; i < 500 && own.size() < 2; ++i) {
    usleep(20'000);
    own.clear();
    for (const pid_t below : ProcessesBelow("/proc", program.pid())) {
      const auto words = ReadProcFile("/proc/" + std::to_string(below) + "/cmdline", 1'000);
      if (words && words->starts_with(ASTERISM_LAUNCH)) {
        own.push_back(below);
      }
    }
  }
  ASSERT_EQ(own.size(), 2U);
  usleep(500'000);  // some searches
  for (const pid_t pid : own) {
    kill(pid, SIGKILL);
  }
  usleep(500'000);
  program.CloseInput();
  const auto last = agent.Await([](const v1::WorkerState& state) { return state.has_exit(); });
  ASSERT_TRUE(last);
  EXPECT_FALSE(last->has_first_cause()) << last->first_cause().DebugString();
}

TEST(SettingsFromEnvironment, ForgivesNonsense) {
  const auto nothing = SettingsFromEnvironment([](const char*) { return nullptr; });
  EXPECT_EQ(nothing.epoch, 0);
  EXPECT_EQ(nothing.port, "");
  const auto nonsense = SettingsFromEnvironment([](const char*) { return "x"; });
  EXPECT_EQ(nonsense.ranks.count, 0);
}

TEST(CopySelf, PutsAWorkingProgramThere) {
  const std::string folder = ::testing::TempDir() + "launch-copy-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  EXPECT_EQ(Program({"copy", folder}).End().wait_status, 0);
  const std::string copy = folder + "/asterism-launch";
  struct stat status {};
  ASSERT_EQ(stat(copy.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755U);
  EXPECT_EQ(Program({copy, "--version"}).End().wait_status, 0);
  // Again over the first, as a restarted init container does.
  EXPECT_EQ(Program({"copy", folder}).End().wait_status, 0);
  const ProgramEnd end = Program({"copy", folder + "/absent"}).End();
  EXPECT_EQ(WEXITSTATUS(end.wait_status), 1);
  EXPECT_THAT(end.output, HasSubstr("No such file"));
  EXPECT_THAT(end.output, HasSubstr("mount a volume"));
  std::filesystem::remove_all(folder);
}

TEST(CopySelf, SaysWhatToDoAboutAFolderThatTakesNothing) {
  const std::string folder = ::testing::TempDir() + "launch-full-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto into = [&folder](const std::string& options) {
    return Program({"--", "unshare", "-Urm", "sh", "-c",
                    "mount -t tmpfs -o " + options + " none \"$0\" || exit 33; exec " +
                        ASTERISM_LAUNCH + " copy \"$0\"",
                    folder})
        .End();
  };
  const ProgramEnd full = into("size=64k");
  const ProgramEnd fixed = into("ro");
  std::filesystem::remove_all(folder);
  if (WEXITSTATUS(full.wait_status) != 1) {
    GTEST_SKIP() << "this machine lets us mount no tmpfs: " << full.output;
  }
  EXPECT_THAT(full.output, HasSubstr("emptyDir.sizeLimit"));
  EXPECT_EQ(WEXITSTATUS(fixed.wait_status), 1);
  EXPECT_THAT(fixed.output, HasSubstr("mount the volume writable"));
}

TEST(RemedyForCopy, KnowsWhatFoldersOfPodsDo) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EROFS, ENOENT, ENOTDIR, EACCES, EPERM, ENOMEM}) {
    EXPECT_NE(RemedyForCopy(error), "") << error;
  }
  EXPECT_EQ(RemedyForCopy(EIO), "");
}

}  // namespace
}  // namespace asterism::launch
