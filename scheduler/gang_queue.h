// File: scheduler/gang_queue.h
//
// The gangs that wait for a place, in the order in which they are tried.
//
//   GangQueue queue;
//   queue.Put({.uid = uid, .name = "research/llama", .queue = "research", .priority = 10,
//              .created = created, .gpus = 512, .waiting_since = clock.Now()});
//   queue.ForEach([&](const QueuedGang& gang) { ... });   // first to last
//   queue.Position(uid);                                  // 1 is next
//
// Order: higher priority first, then the older job, then by name, then by uid. How long a gang has
// waited does not change its place.
//
// Thread-safety: none. Cost: Put, Remove and Find O(log n); Position and
// PositionFor O(n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace asterism::scheduler {

struct QueuedGang {
  std::string uid;
  std::string name;  // "namespace/job"
  std::string queue;
  int32_t priority = 0;
  absl::Time created;
  int64_t gpus = 0;
  absl::Time waiting_since;
};

class GangQueue {
 public:
  // Adds the gang, or replaces what is known of it; the first waiting_since stays until Remove.
  void Put(QueuedGang gang);
  // False when it does not wait.
  bool Remove(std::string_view uid);

  const QueuedGang* Find(std::string_view uid) const;  // valid until the next change
  // 1-based; 0 when it does not wait.
  size_t Position(std::string_view uid) const;
  // Where a gang would stand that does not wait yet: 1 is next.
  size_t PositionFor(const QueuedGang& gang) const;
  size_t size() const { return gangs_.size(); }
  bool empty() const { return gangs_.empty(); }

  // Calls visit(gang) from the first to the last. `visit` must not change the queue.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const QueuedGang& gang : gangs_) {
      visit(gang);
    }
  }

 private:
  struct Earlier {
    bool operator()(const QueuedGang& left, const QueuedGang& right) const;
  };
  using Gangs = std::set<QueuedGang, Earlier>;

  Gangs gangs_;
  std::map<std::string, Gangs::const_iterator, std::less<>> by_uid_;
};

}  // namespace asterism::scheduler
