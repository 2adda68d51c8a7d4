#include "launch/rank_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "gtest/gtest.h"

namespace asterism::launch {
namespace {

using std::literals::string_view_literals::operator""sv;

TEST(RankOfEnvironment, KnowsTheVariablesOfTorchrunAndOfMpi) {
  EXPECT_EQ(RankOfEnvironment("PATH=/bin\0RANK=12\0"sv), 12);
  EXPECT_EQ(RankOfEnvironment("OMPI_COMM_WORLD_RANK=3\0"sv), 3);
  EXPECT_EQ(RankOfEnvironment("PMIX_RANK=4"sv), 4);
  EXPECT_EQ(RankOfEnvironment("LOCAL_RANK=4\0NODE_RANK=1\0"sv), std::nullopt);
  EXPECT_EQ(RankOfEnvironment("RANK=\0"sv), std::nullopt);
  EXPECT_EQ(RankOfEnvironment("RANK=1x\0"sv), std::nullopt);
  EXPECT_EQ(RankOfEnvironment(""sv), std::nullopt);
  EXPECT_EQ(RankOfEnvironment("\0\0=\0RANK"sv), std::nullopt);
}

TEST(ParseProcessStat, SurvivesNamesOfPrograms) {
  const auto stat = ParseProcessStat("12 (a) S 7 (b) c) Z 99 1 1 0 -1");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'Z');
  EXPECT_EQ(stat->parent, 99);
  EXPECT_FALSE(stat->exit_code);
  EXPECT_FALSE(ParseProcessStat(""));
  EXPECT_FALSE(ParseProcessStat("1 (x) S y"));
  EXPECT_FALSE(ParseProcessStat("no parenthesis"));
}

TEST(ParseProcessStat, ReadsTheExitCodeAtTheEnd) {
  std::string text = "5 (python3) Z 4";
  for (int field = 5; field < 52; ++field) {
    text += " 0";
  }
  const auto stat = ParseProcessStat(text + " 256\n");
  ASSERT_TRUE(stat && stat->exit_code);
  EXPECT_EQ(WEXITSTATUS(*stat->exit_code), 1);
}

// A process with a rank, whose parent is not the launcher: `sh` starts it and reaps it.
class RankWatchTest : public ::testing::Test {
 protected:
  void Start(const std::string& script) {
    child_ = fork();
    setpgid(child_, child_);
    if (child_ == 0) {
      setpgid(0, 0);
      execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      _exit(127);
    }
  }
  ~RankWatchTest() override {
    kill(-child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  // Scans until `count` ranks are seen.
  void ScanFor(RankWatch& watch, size_t count) {
    for (int i = 0; i < 500 && watch.watched() < count; ++i) {
      watch.Add(FindRankProcesses("/proc", getpid(), ranks_));
      usleep(10'000);
    }
    ASSERT_EQ(watch.watched(), count);
  }

  static RankEnd NextEnd(RankWatch& watch) {
    for (int i = 0; i < 1000; ++i) {
      for (const int descriptor : watch.descriptors()) {
        pollfd waited{.fd = descriptor, .events = POLLIN};
        if (poll(&waited, 1, 10) == 1) {
          return *watch.TakeEnd(descriptor);
        }
      }
    }
    ADD_FAILURE() << "nothing ended";
    return {};
  }

  pid_t child_ = -1;
  RankRange ranks_;
};

TEST_F(RankWatchTest, TellsHowTheRankOfAnotherParentEnded) {
  Start("RANK=9 sh -c 'sleep 0.3; exit 3' & wait; sleep 60");
  ranks_ = {.first = 8, .count = 4};
  RankWatch watch("/proc");
  ScanFor(watch, 1);
  const RankEnd end = NextEnd(watch);
  EXPECT_EQ(end.rank, 9);
  ASSERT_TRUE(end.wait_status) << "this kernel tells nothing (Linux 6.15 does)";
  EXPECT_EQ(WEXITSTATUS(*end.wait_status), 3);
}

TEST_F(RankWatchTest, TakesTheTopmostProcessOfARank) {
  Start("RANK=8 sh -c 'sleep 60 & sleep 60 & wait' & wait");
  ranks_ = {.first = 8, .count = 1};
  RankWatch watch("/proc");
  ScanFor(watch, 1);
  for (int i = 0; i < 20; ++i) {
    watch.Add(FindRankProcesses("/proc", getpid(), ranks_));
    usleep(10'000);
  }
  EXPECT_EQ(watch.watched(), 1U);
}

TEST_F(RankWatchTest, LeavesForeignRanksAlone) {
  Start("RANK=7 sleep 60 & RANK=12 sleep 60 & RANK=10 sleep 60 & wait");
  ranks_ = {.first = 8, .count = 4};
  RankWatch watch("/proc");
  ScanFor(watch, 1);
}

TEST_F(RankWatchTest, TakesNobodyElseForTheOneItFound) {
  Start("RANK=8 exec sleep 60");
  std::vector<RankProcess> found;
  for (int i = 0; i < 500 && found.empty(); ++i) {
    usleep(10'000);
    found = FindRankProcesses("/proc", getpid(), {.first = 8, .count = 1});
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(ParseRankProcesses(FormatRankProcesses(found)), found);
  RankWatch watch("/proc");
  // As if the number had been given to another process since the search.
  ++found[0].started;
  watch.Add(found);
  EXPECT_EQ(watch.watched(), 0U);
  --found[0].started;
  watch.Add(found);
  watch.Add(found);
  EXPECT_EQ(watch.watched(), 1U);
}

TEST(ParseRankProcesses, LeavesOutWhatIsNone) {
  EXPECT_EQ(ParseRankProcesses("1 2 3\nx 2 3\n1 2\n\n 1 2 3\n1 2 3 4\n4 5 6"),
            (std::vector<RankProcess>{{1, 2, 3}, {4, 5, 6}}));
}

TEST_F(RankWatchTest, BelievesWhatTheLauncherItselfHasReaped) {
  Start("RANK=8 exec sh -c 'exit 0'");
  usleep(100'000);
  ranks_ = {.first = 8, .count = 1};
  RankWatch watch("/proc");
  EXPECT_FALSE(watch.TakeEnd(12345));
  watch.NoteReaped(1, 0);  // not watched: forgotten at once
}

}  // namespace
}  // namespace asterism::launch
