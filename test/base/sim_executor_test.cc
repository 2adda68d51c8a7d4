#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

using testing::ElementsAre;

class SimExecutorTest : public testing::Test {
 protected:
  // Work that writes its name down.
  Work Note(std::string name) {
    return [this, name = std::move(name)] { done_.push_back(name); };
  }

  SimClock clock_;
  SimExecutor executor_{clock_};
  std::vector<std::string> done_;
};

TEST_F(SimExecutorTest, RunsPostsInTheOrderOfPosting) {
  executor_.Post(Note("a"));
  executor_.Post(Note("b"));
  executor_.PostAfter(-absl::Seconds(1), Note("c"));
  EXPECT_TRUE(done_.empty());
  EXPECT_EQ(executor_.RunUntilIdle(), 3);
  EXPECT_THAT(done_, ElementsAre("a", "b", "c"));
}

TEST_F(SimExecutorTest, RunsTimersByTimeAndThenByInsertion) {
  executor_.PostAfter(absl::Seconds(2), Note("late"));
  executor_.PostAfter(absl::Seconds(1), Note("early first"));
  executor_.PostAfter(absl::Seconds(1), Note("early second"));
  executor_.RunFor(absl::Seconds(3));
  EXPECT_THAT(done_, ElementsAre("early first", "early second", "late"));
}

TEST_F(SimExecutorTest, MovesTheClockToEachPieceAndThenToTheEnd) {
  const SteadyTime start = clock_.SteadyNow();
  std::vector<absl::Duration> times;
  for (const int seconds : {5, 1}) {
    executor_.PostAfter(absl::Seconds(seconds),
                        [&] { times.push_back(clock_.SteadyNow() - start); });
  }
  executor_.RunFor(absl::Seconds(10));
  EXPECT_THAT(times, ElementsAre(absl::Seconds(1), absl::Seconds(5)));
  EXPECT_EQ(clock_.SteadyNow() - start, absl::Seconds(10));
}

TEST_F(SimExecutorTest, LeavesWhatIsDueLater) {
  executor_.PostAfter(absl::Milliseconds(1001), Note("later"));
  EXPECT_EQ(executor_.RunFor(absl::Seconds(1)), 0);
  EXPECT_FALSE(executor_.empty());
  EXPECT_EQ(executor_.RunFor(absl::Milliseconds(1)), 1);
  EXPECT_TRUE(executor_.empty());
}

TEST_F(SimExecutorTest, RunsWhatWorkPosts) {
  executor_.Post([this] {
    done_.push_back("outer");
    executor_.Post(Note("inner"));
  });
  executor_.Post(Note("second"));
  EXPECT_EQ(executor_.RunUntilIdle(), 3);
  EXPECT_THAT(done_, ElementsAre("outer", "second", "inner"));
}

TEST_F(SimExecutorTest, CancelledWorkNeverRuns) {
  const TimerId first = executor_.PostAfter(absl::Seconds(1), Note("first"));
  executor_.PostAfter(absl::Seconds(1), Note("second"));
  executor_.Cancel(first);
  executor_.Cancel(first);
  executor_.Cancel(0);
  executor_.Cancel(12345);
  executor_.RunFor(absl::Seconds(2));
  EXPECT_THAT(done_, ElementsAre("second"));
}

TEST_F(SimExecutorTest, WorkMayCancelItsNeighbourAtTheSameTime) {
  TimerId victim = 0;
  executor_.PostAfter(absl::Seconds(1), [&] { executor_.Cancel(victim); });
  victim = executor_.PostAfter(absl::Seconds(1), Note("victim"));
  executor_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(done_.empty());
}

// A random tree of posts, timers and cancellations, as a trace of times and names.
std::vector<std::string> TraceOf(uint64_t seed) {
  SimClock clock;
  SimExecutor executor(clock);
  Rng rng(seed);
  std::vector<std::string> trace;
  std::vector<TimerId> timers;
  int next_name = 0;
  std::function<void()> grow = [&] {
    trace.push_back(std::to_string(clock.SteadyNow().nanos));
    for (uint64_t i = rng.Below(3); i > 0 && next_name < 500; --i) {
      const int name = next_name++;
      timers.push_back(executor.PostAfter(absl::Milliseconds(rng.Below(20)), [&, name] {
        trace.push_back(std::to_string(name));
        grow();
      }));
    }
    if (!timers.empty() && rng.Chance(0.1)) {
      executor.Cancel(timers[rng.Below(timers.size())]);
    }
  };
  for (int i = 0; i < 20; ++i) {
    executor.Post(grow);
  }
  executor.RunFor(absl::Seconds(10));
  return trace;
}

TEST(SimExecutor, SameSeedSameTrace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<std::string> trace = TraceOf(seed);
    EXPECT_EQ(trace, TraceOf(seed)) << "seed " << seed;
    EXPECT_GE(trace.size(), 20u);
  }
  EXPECT_NE(TraceOf(1), TraceOf(2));
}

TEST_F(SimExecutorTest, AnOwnedTimerFiresOnce) {
  OwnedTimer timer(executor_);
  timer.Start(absl::Seconds(1), Note("fired"));
  EXPECT_TRUE(timer.pending());
  executor_.RunFor(absl::Seconds(5));
  EXPECT_FALSE(timer.pending());
  EXPECT_THAT(done_, ElementsAre("fired"));
}

TEST_F(SimExecutorTest, StartReplacesWhatWasPending) {
  OwnedTimer timer(executor_);
  timer.Start(absl::Seconds(1), Note("old"));
  timer.Start(absl::Seconds(2), Note("new"));
  executor_.RunFor(absl::Seconds(5));
  EXPECT_THAT(done_, ElementsAre("new"));
}

TEST_F(SimExecutorTest, ATimerMayRestartItselfFromItsWork) {
  OwnedTimer timer(executor_);
  int ticks = 0;
  std::function<void()> tick = [&] {
    if (++ticks < 3) {
      timer.Start(absl::Seconds(1), tick);
    }
  };
  timer.Start(absl::Seconds(1), tick);
  executor_.RunFor(absl::Seconds(10));
  EXPECT_EQ(ticks, 3);
  EXPECT_FALSE(timer.pending());
}

TEST_F(SimExecutorTest, ADeadOwnersTimerNeverFires) {
  auto timer = std::make_unique<OwnedTimer>(executor_);
  timer->Start(absl::Seconds(1), Note("must not run"));
  timer.reset();
  executor_.RunFor(absl::Seconds(2));
  EXPECT_TRUE(done_.empty());
  EXPECT_TRUE(executor_.empty());
}

TEST_F(SimExecutorTest, DroppedWorkMayOwnATimer) {
  SimExecutor executor(clock_);
  auto owned = std::make_unique<OwnedTimer>(executor);
  owned->Start(absl::Hours(2), [] {});
  executor.PostAfter(absl::Hours(1), [owned = std::move(owned)] {});
}

}  // namespace
}  // namespace asterism::base
