// File: controller/caller_turns.h
//
// Runs the work of many callers on one executor, a piece of each in turn: who asks for much waits
// behind itself, and everybody else waits for one piece of it at most.
//
//   CallerTurns turns(worker);
//   turns.Post(caller.key, [] { ... });
//
// Pieces of one caller run in the order they were posted.
//
// Thread-safety: any thread; it outlives the executor's work. Cost: a lock and a look-up a piece.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/executor.h"

namespace asterism::controller {

class CallerTurns {
 public:
  explicit CallerTurns(base::Executor& worker) : worker_(worker) {}

  void Post(const std::string& caller, base::Work work);

 private:
  void RunOne(const std::string& caller);

  base::Executor& worker_;
  absl::Mutex mutex_;
  // Of those who have a turn in the executor's queue, or are running.
  std::map<std::string, std::deque<base::Work>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace asterism::controller
