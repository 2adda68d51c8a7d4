// File: kube/executor_gate.h
//
// The way of other threads to an executor, which its owner can close: those that call back late,
// when the executor may be gone, then do nothing.
//
//   auto gate = std::make_shared<ExecutorGate>(executor);
//   http.Send(request, [gate](HttpResult result) { gate->Post([...] {...}); });
//   gate->Close();          // before the executor ends
//
// Thread-safety: yes. Cost: a lock more than the executor's.
#pragma once

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/executor.h"

namespace asterism::kube {

class ExecutorGate {
 public:
  explicit ExecutorGate(base::Executor& executor) : executor_(executor) {}

  void Post(base::Work work) {
    absl::MutexLock lock(&mutex_);
    if (!closed_) {
      executor_.Post(std::move(work));
    }
  }

  // At once when the caller runs on the executor.
  void Run(base::Work work) {
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) {
        return;
      }
      if (!executor_.IsCurrent()) {
        executor_.Post(std::move(work));
        return;
      }
    }
    work();
  }

  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

 private:
  base::Executor& executor_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace asterism::kube
