#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

// Returns after everything that was posted before has run.
void Drain(ThreadExecutor& executor) {
  absl::Notification drained;
  executor.Post([&] { drained.Notify(); });
  drained.WaitForNotification();
}

TEST(ThreadExecutor, KeepsTheOrderOfOneThreadsPosts) {
  std::vector<int> order;
  ThreadExecutor executor("test");
  for (int i = 0; i < 1000; ++i) {
    executor.Post([&order, i] { order.push_back(i); });
  }
  Drain(executor);
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST(ThreadExecutor, TakesPostsFromManyThreadsOneAtATime) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 2000;
  int count = 0;  // no lock: the executor is the lock
  std::vector<int> last_of_thread(kThreads, -1);
  bool in_order = true;
  ThreadExecutor executor("test");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kPosts; ++i) {
        executor.Post([&, thread, i] {
          ++count;
          int& last = last_of_thread[static_cast<size_t>(thread)];
          in_order = in_order && last == i - 1;
          last = i;
        });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  Drain(executor);
  EXPECT_EQ(count, kThreads * kPosts);
  EXPECT_TRUE(in_order);
}

TEST(ThreadExecutor, KnowsItsOwnThread) {
  ThreadExecutor executor("test");
  EXPECT_FALSE(executor.IsCurrent());
  bool inside = false;
  executor.Post([&] { inside = executor.IsCurrent(); });
  Drain(executor);
  EXPECT_TRUE(inside);
}

TEST(ThreadExecutor, RunsTimersByDueTime) {
  std::vector<int> order;
  ThreadExecutor executor("test");
  absl::Notification done;
  executor.PostAfter(absl::Milliseconds(30), [&] {
    order.push_back(2);
    done.Notify();
  });
  executor.PostAfter(absl::Milliseconds(5), [&] { order.push_back(1); });
  executor.Post([&] { order.push_back(0); });
  done.WaitForNotification();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2));
}

TEST(ThreadExecutor, NeverRunsATimerEarly) {
  SystemClock clock;
  ThreadExecutor executor("test");
  absl::Notification done;
  const SteadyTime start = clock.SteadyNow();
  executor.PostAfter(absl::Milliseconds(20), [&] { done.Notify(); });
  done.WaitForNotification();
  EXPECT_GE(clock.SteadyNow() - start, absl::Milliseconds(20));
}

TEST(ThreadExecutor, CancelOnTheExecutorItselfIsCertain) {
  ThreadExecutor executor("test");
  bool ran = false;
  executor.Post([&] {
    const TimerId timer = executor.PostAfter(absl::ZeroDuration(), [&] { ran = true; });
    executor.Cancel(timer);
  });
  Drain(executor);
  Drain(executor);
  EXPECT_FALSE(ran);
}

TEST(ThreadExecutor, StopDropsWhatIsLeftAndWhatComesLater) {
  ThreadExecutor executor("test");
  absl::Notification running;
  absl::Notification go_on;
  std::atomic<int> later = 0;
  executor.Post([&] {
    running.Notify();
    go_on.WaitForNotification();
  });
  executor.Post([&] { ++later; });
  running.WaitForNotification();
  std::thread stopper([&] { executor.Stop(); });
  // Stop has begun once posting is refused.
  while (executor.PostAfter(absl::Hours(1), [] {}) != 0) {
    std::this_thread::yield();
  }
  go_on.Notify();
  stopper.join();
  EXPECT_EQ(later, 0);
  EXPECT_EQ(executor.PostAfter(absl::ZeroDuration(), [&] { ++later; }), 0u);
  executor.Stop();
  EXPECT_EQ(later, 0);
}

TEST(ThreadExecutor, DestroysPendingWork) {
  const auto token = std::make_shared<int>(1);
  {
    ThreadExecutor executor("test");
    executor.PostAfter(absl::Hours(1), [token] {});
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(ThreadExecutor, CancelDestroysTheWork) {
  const auto token = std::make_shared<int>(1);
  ThreadExecutor executor("test");
  executor.Cancel(executor.PostAfter(absl::Hours(1), [token] {}));
  EXPECT_EQ(token.use_count(), 1);
}

// Work often owns the object whose timer it cancels: destroying it calls Cancel again.
TEST(ThreadExecutor, WorkThatOwnsATimerMayBeCancelled) {
  ThreadExecutor executor("test");
  auto owned = std::make_unique<OwnedTimer>(executor);
  owned->Start(absl::Hours(1), [] {});
  const TimerId outer = executor.PostAfter(absl::Hours(1), [owned = std::move(owned)] {});
  executor.Cancel(outer);
}

TEST(ThreadExecutor, WorkThatOwnsATimerMayBeDroppedAtTheEnd) {
  ThreadExecutor executor("test");
  for (int i = 0; i < 3; ++i) {
    auto owned = std::make_unique<OwnedTimer>(executor);
    owned->Start(absl::Hours(1 + i), [] {});
    executor.PostAfter(absl::Hours(2), [owned = std::move(owned)] {});
  }
}

}  // namespace
}  // namespace asterism::base
