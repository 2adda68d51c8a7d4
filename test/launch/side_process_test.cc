#include "launch/side_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launch/clocks.h"
#include "launch/process_tree.h"

namespace asterism::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr absl::Duration kPatience = absl::Seconds(30);

bool IsGone(pid_t pid) {
  const auto stat = ReadProcessStat("/proc", pid);
  return !stat || stat->state == 'Z' || stat->state == 'X';
}

bool IsGoneSoon(pid_t pid) {
  for (int i = 0; i < 3'000 && !IsGone(pid); ++i) {
    usleep(10'000);
  }
  return IsGone(pid);
}

TEST(SideProcess, KeepsWhatTheWorkChanges) {
  int asked = 0;
  SideProcess side([&asked] { return std::to_string(++asked); });
  EXPECT_EQ(side.descriptor(), -1);
  for (const char* answer : {"1", "2", "3"}) {
    side.Ask(SteadyNow());
    EXPECT_THAT(side.TakeWithin(kPatience), Optional(std::string(answer)));
    EXPECT_FALSE(side.waiting_since());
  }
  EXPECT_EQ(asked, 0);
}

TEST(SideProcess, TellsAnEmptyAnswerFromNone) {
  SideProcess side([] { return std::string(); });
  side.Ask(SteadyNow());
  EXPECT_THAT(side.TakeWithin(kPatience), Optional(std::string()));
  EXPECT_EQ(side.Take(), std::nullopt);
}

TEST(SideProcess, IsNotWaitedForWhenItIsStuck) {
  pid_t pid = -1;
  {
    SideProcess side([]() -> std::string {
      while (true) {
        pause();
      }
    });
    const base::SteadyTime asked{.nanos = 1'000};
    side.Ask(asked);
    side.Ask(asked + absl::Hours(1));
    EXPECT_EQ(side.Take(), std::nullopt);
    EXPECT_THAT(side.waiting_since(), Optional(asked));
    pid = side.pid();
    ASSERT_GT(pid, 0);
    EXPECT_FALSE(IsGone(pid));
  }
  EXPECT_TRUE(IsGoneSoon(pid));
}

TEST(SideProcess, HasNoDescriptorOfItsMaker) {
  SideProcess side([] {
    std::string open;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      open += std::filesystem::read_symlink(entry.path()).string() + " ";
    }
    return open;
  });
  side.Ask(SteadyNow());
  const auto open = side.TakeWithin(kPatience);
  ASSERT_TRUE(open);
  EXPECT_THAT(*open, HasSubstr("socket:"));
  EXPECT_THAT(*open, ::testing::Not(HasSubstr("pipe:")));
  EXPECT_EQ(std::ranges::count(*open, ' '), 4) << *open;  // 0, 1, 2 and the folder itself
}

TEST(SideProcess, IsStartedAgain) {
  SideProcess side([] { return std::to_string(getpid()); });
  const base::SteadyTime start = SteadyNow();
  side.Ask(start);
  const auto first = side.TakeWithin(kPatience);
  ASSERT_TRUE(first);
  kill(side.pid(), SIGKILL);
  std::optional<std::string> second;
  for (int second_of_clock = 2; second_of_clock < 100 && !second; ++second_of_clock) {
    side.Ask(start + absl::Seconds(second_of_clock));
    second = side.TakeWithin(kPatience);
    usleep(10'000);
  }
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
}

TEST(SideProcess, TakesNoSignalAndEndsWithItsMaker) {
  std::array<int, 2> told{};
  ASSERT_EQ(pipe(told.data()), 0);
  const pid_t maker = fork();
  if (maker == 0) {
    SideProcess side([] { return std::string("x"); });
    side.Ask(SteadyNow());
    const bool answered = side.TakeWithin(kPatience).has_value();
    kill(side.pid(), SIGTERM);
    kill(side.pid(), SIGINT);
    side.Ask(SteadyNow());
    const pid_t pid = answered && side.TakeWithin(kPatience) ? side.pid() : -1;
    [[maybe_unused]] const ssize_t written = write(told[1], &pid, sizeof(pid));
    _exit(0);  // without a destructor, as one that is killed
  }
  pid_t pid = -1;
  ASSERT_EQ(read(told[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ASSERT_GT(pid, 0);
  waitpid(maker, nullptr, 0);
  EXPECT_TRUE(IsGoneSoon(pid));
  close(told[0]);
  close(told[1]);
}

}  // namespace
}  // namespace asterism::launch
