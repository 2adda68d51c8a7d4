// File: controller/review_cache.h
//
// Answers of the API server to reviews (who is it, may it), kept for a short time: a client that
// calls often costs one review in that time, and callers who ask the same at once share one.
//
//   ReviewCache<Verdict> cache(clock, {.keep = absl::Seconds(10)});
//   cache.Get(key, [&](ReviewCache<Verdict>::Done done) { Ask(std::move(done)); },
//             [](const absl::StatusOr<Verdict>& verdict) { ... });
//
// A no is kept like a yes; an error is not kept, so that the next caller asks again. Where there
// are too many entries the oldest go. A right that is taken away holds until its entry ends.
//
// Thread-safety: lives on one executor; `done` may be called at once. Cost: O(log entries).
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"

namespace asterism::controller {

struct ReviewCacheOptions {
  absl::Duration keep = absl::Seconds(10);
  size_t entries_max = 4096;
};

template <typename Answer>
class ReviewCache {
 public:
  using Done = absl::AnyInvocable<void(const absl::StatusOr<Answer>&)>;

  ReviewCache(const base::Clock& clock, ReviewCacheOptions options)
      : clock_(clock), options_(options) {}

  void Get(const std::string& key, absl::FunctionRef<void(Done)> ask, Done done) {
    Sweep();
    const auto [slot, added] = entries_.try_emplace(key);
    if (slot->second.answer) {
      done(*slot->second.answer);
      return;
    }
    slot->second.waiting.push_back(std::move(done));
    if (added) {
      ask(alive_.Wrap(
          [this, key](const absl::StatusOr<Answer>& answer) { OnAnswer(key, answer); }));
    }
  }

 private:
  struct Entry {
    std::optional<Answer> answer;  // absent: the review is under way
    std::vector<Done> waiting;
  };

  void Sweep() {
    const base::SteadyTime now = clock_.SteadyNow();
    while (!kept_.empty() && (kept_.front().first <= now || kept_.size() > options_.entries_max)) {
      entries_.erase(kept_.front().second);
      kept_.pop_front();
    }
  }

  void OnAnswer(const std::string& key, const absl::StatusOr<Answer>& answer) {
    const auto found = entries_.find(key);
    std::vector<Done> waiting = std::exchange(found->second.waiting, {});
    if (answer.ok()) {
      found->second.answer = *answer;
      kept_.emplace_back(clock_.SteadyNow() + options_.keep, key);
    } else {
      entries_.erase(found);
    }
    for (Done& done : waiting) {
      done(answer);
    }
  }

  const base::Clock& clock_;
  const ReviewCacheOptions options_;
  std::map<std::string, Entry> entries_;
  std::deque<std::pair<base::SteadyTime, std::string>> kept_;  // in the order of their end
  base::Alive alive_;
};

}  // namespace asterism::controller
