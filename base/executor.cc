#include "base/executor.h"

#include <pthread.h>

#include "base/check.h"

namespace asterism::base {

TimerId WorkQueueByTime::Add(SteadyTime due, Work work) {
  const TimerId timer = ++last_timer_;
  work_.emplace(Key{due, timer}, std::move(work));
  due_by_timer_.emplace(timer, due);
  return timer;
}

WorkQueueByTime::~WorkQueueByTime() {
  while (!empty()) {
    TakeNext();
  }
}

Work WorkQueueByTime::Cancel(TimerId timer) {
  const auto found = due_by_timer_.find(timer);
  if (found == due_by_timer_.end()) {
    return {};
  }
  const auto entry = work_.find(Key{found->second, timer});
  Work work = std::move(entry->second);
  work_.erase(entry);
  due_by_timer_.erase(found);
  return work;
}

SteadyTime WorkQueueByTime::NextDue() const {
  CHECK_THAT(!work_.empty(), "NextDue of an empty queue");
  return work_.begin()->first.first;
}

Work WorkQueueByTime::TakeNext() {
  CHECK_THAT(!work_.empty(), "TakeNext of an empty queue");
  auto first = work_.begin();
  Work work = std::move(first->second);
  due_by_timer_.erase(first->first.second);
  work_.erase(first);
  return work;
}

ThreadExecutor::ThreadExecutor(const char* name) {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), name);
}

ThreadExecutor::~ThreadExecutor() {
  Stop();
}

void ThreadExecutor::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    wake_.Signal();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ThreadExecutor::Post(Work work) {
  PostAfter(absl::ZeroDuration(), std::move(work));
}

TimerId ThreadExecutor::PostAfter(absl::Duration delay, Work work) {
  const SteadyTime now = clock_.SteadyNow();
  absl::MutexLock lock(&mutex_);
  if (stopping_) {
    return 0;
  }
  const TimerId timer =
      queue_.Add(delay > absl::ZeroDuration() ? now + delay : now, std::move(work));
  wake_.Signal();
  return timer;
}

void ThreadExecutor::Cancel(TimerId timer) {
  Work cancelled;  // destroyed after the lock is gone
  absl::MutexLock lock(&mutex_);
  cancelled = queue_.Cancel(timer);
}

bool ThreadExecutor::IsCurrent() const {
  return std::this_thread::get_id() == thread_.get_id();
}

void ThreadExecutor::Run() {
  for (;;) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && (queue_.empty() || queue_.NextDue() > clock_.SteadyNow())) {
        if (queue_.empty()) {
          wake_.Wait(&mutex_);
        } else {
          wake_.WaitWithTimeout(&mutex_, queue_.NextDue() - clock_.SteadyNow());
        }
      }
      if (stopping_) {
        return;
      }
      work = queue_.TakeNext();
    }
    work();
  }
}

void SimExecutor::Post(Work work) {
  queue_.Add(clock_.SteadyNow(), std::move(work));
}

TimerId SimExecutor::PostAfter(absl::Duration delay, Work work) {
  const SteadyTime now = clock_.SteadyNow();
  return queue_.Add(delay > absl::ZeroDuration() ? now + delay : now, std::move(work));
}

void SimExecutor::Cancel(TimerId timer) {
  queue_.Cancel(timer);
}

int SimExecutor::RunUntilIdle() {
  return RunFor(absl::ZeroDuration());
}

int SimExecutor::RunFor(absl::Duration duration) {
  const SteadyTime end = clock_.SteadyNow() + duration;
  int pieces = 0;
  while (!queue_.empty() && queue_.NextDue() <= end) {
    if (const SteadyTime due = queue_.NextDue(); due > clock_.SteadyNow()) {
      clock_.Advance(due - clock_.SteadyNow());
    }
    queue_.TakeNext()();
    ++pieces;
  }
  if (end > clock_.SteadyNow()) {
    clock_.Advance(end - clock_.SteadyNow());
  }
  return pieces;
}

void OwnedTimer::Start(absl::Duration delay, Work work) {
  Cancel();
  timer_ = executor_.PostAfter(delay, [this, inner = std::move(work)]() mutable {
    timer_ = 0;
    inner();
  });
}

void OwnedTimer::Cancel() {
  if (timer_ != 0) {
    executor_.Cancel(timer_);
    timer_ = 0;
  }
}

}  // namespace asterism::base
