// File: kube/work_queue.h
//
// Keys that need work, each at most once and never twice at the same time (the three sets of
// client-go util/workqueue: dirty, processing, queue), with delays, priorities and a back-off.
//
//   WorkQueue<std::string> queue(clock, executor, {}, [&] { Drain(); });
//   queue.Add("research/llama");
//   while (auto key = queue.Take()) { Reconcile(*key); queue.Done(*key); }
//
// A key that is added while it is processed comes back at Done. Of several adds the highest
// priority and the earliest time count; inside a priority the order is first in, first out.
// AddRateLimited waits for the longer of 5 ms x 2^failures (at most 1,000 s) and the queue's bucket
// (100 at once, 10 a second); Forget ends the failures of a key.
//
// Thread-safety: lives on one executor. Cost: O(log n) an operation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "kube/token_bucket.h"

namespace asterism::kube {

struct WorkQueueOptions {
  absl::Duration backoff_first = absl::Milliseconds(5);
  absl::Duration backoff_max = absl::Seconds(1000);
  double bucket_burst = 100;
  double bucket_per_second = 10;
};

template <typename Key>
class WorkQueue {
 public:
  // `on_ready` is posted when a key can be taken; once until the next Take.
  WorkQueue(const base::Clock& clock, base::Executor& executor, WorkQueueOptions options,
            std::function<void()> on_ready)
      : clock_(clock),
        executor_(executor),
        options_(options),
        on_ready_(std::move(on_ready)),
        bucket_(clock, options.bucket_burst, absl::Seconds(1) / options.bucket_per_second),
        timer_(executor) {}

  void Add(const Key& key, int priority = 0) {
    Entry& entry = entries_[key];
    entry.priority = entry.waits() ? std::max(entry.priority, priority) : priority;
    if (entry.delayed) {
      delayed_.erase({entry.due, key});
      entry.delayed = false;
    }
    if (entry.ready) {
      ready_.erase({entry.ready_priority, entry.sequence, key});
    } else {
      entry.sequence = ++sequence_;
    }
    entry.dirty = true;
    entry.ready = false;
    if (!entry.processing) {
      MakeReady(key, entry);
    }
  }

  void AddAfter(const Key& key, absl::Duration delay, int priority = 0) {
    if (delay <= absl::ZeroDuration()) {
      Add(key, priority);
      return;
    }
    Entry& entry = entries_[key];
    if (entry.dirty) {
      Add(key, priority);  // it is due already: only the priority may rise
      return;
    }
    const base::SteadyTime due = clock_.SteadyNow() + std::min(delay, absl::Hours(24 * 365));
    entry.priority = entry.delayed ? std::max(entry.priority, priority) : priority;
    if (entry.delayed) {
      if (entry.due <= due) {
        return;
      }
      delayed_.erase({entry.due, key});
    }
    entry.delayed = true;
    entry.due = due;
    delayed_.insert({due, key});
    Arm();
  }

  void AddRateLimited(const Key& key, int priority = 0) {
    Entry& entry = entries_[key];
    const absl::Duration backoff =
        std::min(options_.backoff_first * (int64_t{1} << std::min(entry.failures, 40)),
                 options_.backoff_max);
    ++entry.failures;
    ++retries_;
    AddAfter(key, std::max(backoff, bucket_.Reserve()), priority);
  }

  void Forget(const Key& key) {
    if (const auto found = entries_.find(key); found != entries_.end()) {
      found->second.failures = 0;
      DropIfIdle(found);
    }
  }
  int Failures(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? 0 : found->second.failures;
  }

  // The key to work on now; Done must follow.
  std::optional<Key> Take() {
    told_ = false;
    if (ready_.empty()) {
      return std::nullopt;
    }
    const Key key = std::get<2>(*ready_.begin());
    ready_.erase(ready_.begin());
    Entry& entry = entries_.find(key)->second;
    entry.ready = false;
    entry.dirty = false;
    entry.processing = true;
    ++processing_;
    return key;
  }

  void Done(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || !found->second.processing) {
      return;
    }
    found->second.processing = false;
    --processing_;
    if (found->second.dirty) {
      MakeReady(key, found->second);
    } else {
      DropIfIdle(found);
    }
  }

  // Keys that Take would give now, that wait for their time, and that are worked on.
  size_t size() const { return ready_.size(); }
  size_t delayed() const { return delayed_.size(); }
  size_t processing() const { return processing_; }
  uint64_t retries() const { return retries_; }

 private:
  struct Entry {
    int priority = 0;
    int ready_priority = 0;  // as it stands in ready_, negated
    uint64_t sequence = 0;
    int failures = 0;
    bool dirty = false;
    bool processing = false;
    bool ready = false;
    bool delayed = false;
    base::SteadyTime due;

    bool waits() const { return dirty || delayed; }
  };
  using Entries = absl::flat_hash_map<Key, Entry>;

  void MakeReady(const Key& key, Entry& entry) {
    entry.ready = true;
    entry.ready_priority = -entry.priority;
    ready_.insert({entry.ready_priority, entry.sequence, key});
    if (on_ready_ && !told_) {
      told_ = true;
      executor_.Post(alive_.Wrap([this] { on_ready_(); }));
    }
  }

  void Arm() {
    if (!delayed_.empty()) {
      timer_.Start(delayed_.begin()->first - clock_.SteadyNow(), [this] { Release(); });
    }
  }

  void Release() {
    const base::SteadyTime now = clock_.SteadyNow();
    while (!delayed_.empty() && delayed_.begin()->first <= now) {
      const Key key = delayed_.begin()->second;
      Add(key, entries_.find(key)->second.priority);
    }
    Arm();
  }

  void DropIfIdle(typename Entries::iterator found) {
    const Entry& entry = found->second;
    if (!entry.waits() && !entry.processing && entry.failures == 0) {
      entries_.erase(found);
    }
  }

  const base::Clock& clock_;
  base::Executor& executor_;
  const WorkQueueOptions options_;
  const std::function<void()> on_ready_;
  Entries entries_;
  std::set<std::tuple<int, uint64_t, Key>> ready_;
  std::set<std::pair<base::SteadyTime, Key>> delayed_;
  size_t processing_ = 0;
  uint64_t sequence_ = 0;
  uint64_t retries_ = 0;
  bool told_ = false;
  TokenBucket bucket_;
  base::OwnedTimer timer_;
  base::Alive alive_;
};

}  // namespace asterism::kube
