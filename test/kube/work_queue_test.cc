#include "kube/work_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>
#include <string>

namespace asterism::kube {
namespace {

struct Bench {
  base::SimClock clock;
  base::SimExecutor executor{clock};
  int told = 0;
  WorkQueue<std::string> queue{clock, executor, {}, [this] { ++told; }};
};

TEST(WorkQueue, AKeyWaitsOnlyOnce) {
  Bench bench;
  bench.queue.Add("a");
  bench.queue.Add("a");
  bench.queue.Add("b");
  bench.executor.RunUntilIdle();
  EXPECT_EQ(bench.told, 1);
  EXPECT_EQ(bench.queue.Take(), "a");
  EXPECT_EQ(bench.queue.Take(), "b");
  EXPECT_EQ(bench.queue.Take(), std::nullopt);
}

TEST(WorkQueue, AKeyInWorkComesBackAtDone) {
  Bench bench;
  bench.queue.Add("a");
  EXPECT_EQ(bench.queue.Take(), "a");
  bench.queue.Add("a");
  EXPECT_EQ(bench.queue.Take(), std::nullopt);
  bench.queue.Done("a");
  EXPECT_EQ(bench.queue.Take(), "a");
  bench.queue.Done("a");
  EXPECT_EQ(bench.queue.Take(), std::nullopt);
}

TEST(WorkQueue, HigherPriorityFirstThenFirstInFirstOut) {
  Bench bench;
  bench.queue.Add("low", -1);
  bench.queue.Add("one");
  bench.queue.Add("two");
  bench.queue.Add("high", 5);
  bench.queue.Add("low", 3);   // rises
  bench.queue.Add("high", 1);  // does not sink
  EXPECT_EQ(bench.queue.Take(), "high");
  EXPECT_EQ(bench.queue.Take(), "low");
  EXPECT_EQ(bench.queue.Take(), "one");
  EXPECT_EQ(bench.queue.Take(), "two");
}

TEST(WorkQueue, TheEarliestTimeCounts) {
  Bench bench;
  bench.queue.AddAfter("a", absl::Seconds(10));
  bench.queue.AddAfter("a", absl::Seconds(5));
  bench.queue.AddAfter("a", absl::Seconds(20));
  bench.executor.RunFor(absl::Milliseconds(4999));
  EXPECT_EQ(bench.queue.Take(), std::nullopt);
  bench.executor.RunFor(absl::Milliseconds(1));
  EXPECT_EQ(bench.queue.Take(), "a");
  bench.executor.RunFor(absl::Minutes(1));
  bench.queue.Done("a");
  EXPECT_EQ(bench.queue.Take(), std::nullopt);
}

TEST(WorkQueue, BacksOffByFailuresUntilForgotten) {
  Bench bench;
  for (const int wait_ms : {5, 10, 20, 40}) {
    bench.queue.AddRateLimited("a");
    bench.executor.RunFor(absl::Milliseconds(wait_ms - 1));
    EXPECT_EQ(bench.queue.Take(), std::nullopt);
    bench.executor.RunFor(absl::Milliseconds(1));
    EXPECT_EQ(bench.queue.Take(), "a");
    bench.queue.Done("a");
  }
  bench.queue.Forget("a");
  bench.queue.AddRateLimited("a");
  bench.executor.RunFor(absl::Milliseconds(5));
  EXPECT_EQ(bench.queue.Take(), "a");
}

TEST(WorkQueue, TheBucketLimitsTheWholeQueue) {
  Bench bench;
  for (int i = 0; i < 110; ++i) {
    bench.queue.AddRateLimited(std::to_string(i));
  }
  bench.executor.RunFor(absl::Milliseconds(10));
  EXPECT_EQ(bench.queue.size(), 100u);
  bench.executor.RunFor(absl::Seconds(1));
  EXPECT_EQ(bench.queue.size(), 110u);
}

// Against the rules in their plainest form.
TEST(WorkQueue, NeverLosesNorDoublesAKey) {
  EXPECT_TRUE(rc::check("work queue == model", [] {
    Bench bench;
    std::set<std::string> dirty;
    std::set<std::string> processing;
    std::map<std::string, base::SteadyTime> delayed;
    const int steps = *rc::gen::inRange(0, 60);
    for (int step = 0; step < steps; ++step) {
      const std::string key(1, static_cast<char>('a' + *rc::gen::inRange(0, 4)));
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
          bench.queue.Add(key, *rc::gen::inRange(0, 3));
          dirty.insert(key);
          delayed.erase(key);
          break;
        case 1: {
          const absl::Duration delay = absl::Seconds(*rc::gen::inRange(1, 5));
          bench.queue.AddAfter(key, delay);
          if (!dirty.contains(key)) {
            const base::SteadyTime due = bench.clock.SteadyNow() + delay;
            const auto [found, fresh] = delayed.emplace(key, due);
            found->second = fresh ? due : std::min(found->second, due);
          }
          break;
        }
        case 2: {
          bool expected = false;
          for (const std::string& other : dirty) {
            expected = expected || !processing.contains(other);
          }
          const std::optional<std::string> taken = bench.queue.Take();
          RC_ASSERT(taken.has_value() == expected);
          if (taken.has_value()) {
            RC_ASSERT(dirty.contains(*taken));
            RC_ASSERT(!processing.contains(*taken));
            dirty.erase(*taken);
            processing.insert(*taken);
          }
          break;
        }
        case 3:
          bench.queue.Done(key);
          processing.erase(key);
          break;
        default:
          bench.executor.RunFor(absl::Seconds(1));
          for (auto entry = delayed.begin(); entry != delayed.end();) {
            if (entry->second <= bench.clock.SteadyNow()) {
              dirty.insert(entry->first);
              entry = delayed.erase(entry);
            } else {
              ++entry;
            }
          }
      }
      RC_ASSERT(bench.queue.delayed() == delayed.size());
      RC_ASSERT(bench.queue.processing() == processing.size());
    }
  }));
}

}  // namespace
}  // namespace asterism::kube
