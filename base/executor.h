// File: base/executor.h
//
// Runs work one piece after another, now or later. Every object that has state lives on one
// executor and is touched only there; threads talk by posting. So there are few locks, and the
// simulator can run the same code on one thread.
//
//   executor.Post([this] { Reconcile(); });
//   TimerId timer = executor.PostAfter(absl::Seconds(5), [this] { Retry(); });
//   executor.Cancel(timer);   // after Cancel on the executor itself the work never runs
//
// Work is run in the order of (due time, insertion). Thread-safety: Post, PostAfter and Cancel may
// be called from any thread. Cost: a lock and a queue insertion, under 1 us.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::base {

using TimerId = uint64_t;  // 0 is no timer
using Work = absl::AnyInvocable<void()>;

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Post(Work work) = 0;
  // A delay <= 0 is a Post.
  virtual TimerId PostAfter(absl::Duration delay, Work work) = 0;
  // Work that has run or never existed is ignored.
  virtual void Cancel(TimerId timer) = 0;
  // True when the caller runs on this executor.
  virtual bool IsCurrent() const = 0;
};

// Ordered queue of due work; shared by both executors.
//
// Destroying work may call back into the queue (it may own a timer of the same executor), so work
// is taken out before it is destroyed.
class WorkQueueByTime {
 public:
  WorkQueueByTime() = default;
  ~WorkQueueByTime();
  WorkQueueByTime(const WorkQueueByTime&) = delete;
  WorkQueueByTime& operator=(const WorkQueueByTime&) = delete;

  TimerId Add(SteadyTime due, Work work);
  // The cancelled work, for the caller to destroy outside any lock; empty when there is none.
  Work Cancel(TimerId timer);
  bool empty() const { return work_.empty(); }
  SteadyTime NextDue() const;  // not empty
  Work TakeNext();             // not empty

 private:
  using Key = std::pair<SteadyTime, TimerId>;
  std::map<Key, Work> work_;
  std::map<TimerId, SteadyTime> due_by_timer_;
  TimerId last_timer_ = 0;
};

// One thread of its own. The destructor finishes the running piece and drops the rest.
class ThreadExecutor final : public Executor {
 public:
  // `name` is the thread's name in `ps -L` (at most 15 characters).
  explicit ThreadExecutor(const char* name);
  ~ThreadExecutor() override;

  void Post(Work work) override;
  TimerId PostAfter(absl::Duration delay, Work work) override;
  void Cancel(TimerId timer) override;
  bool IsCurrent() const override;

  // Ends the thread after the running piece. Work posted later is dropped. Not from its own thread.
  void Stop();

 private:
  void Run();

  SystemClock clock_;
  mutable absl::Mutex mutex_;
  absl::CondVar wake_;
  WorkQueueByTime queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Simulated time on the caller's thread: nothing runs until RunUntilIdle or RunFor, and time jumps
// from one piece of work to the next. Same posts, same order, same result.
class SimExecutor final : public Executor {
 public:
  explicit SimExecutor(SimClock& clock) : clock_(clock) {}

  void Post(Work work) override;
  TimerId PostAfter(absl::Duration delay, Work work) override;
  void Cancel(TimerId timer) override;
  bool IsCurrent() const override { return true; }

  // Runs what is due now, including what that posts. Returns the number of pieces run.
  int RunUntilIdle();
  // Runs everything due within `duration`, moving the clock; ends with the clock at the end of it.
  int RunFor(absl::Duration duration);
  bool empty() const { return queue_.empty(); }

 private:
  SimClock& clock_;
  WorkQueueByTime queue_;
};

// A timer that belongs to an object: the destructor cancels it, so work never meets a dead owner.
class OwnedTimer {
 public:
  explicit OwnedTimer(Executor& executor) : executor_(executor) {}
  ~OwnedTimer() { Cancel(); }
  OwnedTimer(const OwnedTimer&) = delete;
  OwnedTimer& operator=(const OwnedTimer&) = delete;

  // Replaces what was pending.
  void Start(absl::Duration delay, Work work);
  void Cancel();
  bool pending() const { return timer_ != 0; }

 private:
  Executor& executor_;
  TimerId timer_ = 0;
};

// Guards work that an object posts to others: `Wrap(f)` gives work that does nothing once the
// object is gone. Use on one executor only.
//
//   client.Get(path, alive_.Wrap([this](Response response) { ... }));
class Alive {
 public:
  template <typename Function>
  auto Wrap(Function function) {
    return [weak = std::weak_ptr<const bool>(token_),
            inner = std::move(function)](auto&&... args) mutable {
      if (!weak.expired()) {
        inner(std::forward<decltype(args)>(args)...);
      }
    };
  }

 private:
  std::shared_ptr<const bool> token_ = std::make_shared<const bool>(true);
};

}  // namespace asterism::base
