// File: operator/gang_dispatcher.h
//
// One pass over the gang queue: in order, each waiting gang is offered to the placement engine, and
// what it gets is booked before the next one is asked. A gang that does not fit holds nothing and
// does not stop the ones behind it.
//
//   dispatcher.Enqueue(entry);
//   dispatcher.Pass([&](const DispatchResult& result) { ... });   // result.outcome, result.refusal
//
// Thread-safety: none; core executor. Cost: one Place a waiting gang.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/strings.h"
#include "operator/cluster_feed.h"
#include "operator/job_reconciler.h"
#include "scheduler/gang_queue.h"
#include "scheduler/placement.h"
#include "scheduler/quota.h"

namespace asterism::operators {

// A gang in the queue, with what it asks for.
struct WaitingGang {
  scheduler::QueuedGang queued;
  scheduler::PlacementRequest request;
};

struct DispatchResult {
  std::string_view uid;
  size_t position = 0;  // 1-based, in the queue at the start of the pass
  // Set: quota or a stopped queue holds it back, the engine was not asked.
  std::optional<Refusal> refusal;
  scheduler::PlacementOutcome outcome;
  absl::Duration decide;
};

class GangDispatcher {
 public:
  GangDispatcher(const base::Clock& clock, ClusterFeed& feed) : clock_(clock), feed_(feed) {}

  void Enqueue(WaitingGang gang);  // adds or replaces
  void Remove(std::string_view uid);
  bool Contains(std::string_view uid) const { return waiting_.contains(uid); }
  size_t size() const { return waiting_.size(); }
  // Sum of the GPUs that gangs of a queue wait for, and their number.
  struct Pending {
    int64_t jobs = 0;
    int64_t gpus = 0;
  };
  Pending PendingOf(std::string_view queue) const;

  void SetQuota(scheduler::QuotaTree quota) { quota_ = std::move(quota); }

  // Calls `visit` for each gang. `visit` books what was placed (Ledger::PutGang) and may call
  // Remove for the gang it is called with, and for no other.
  void Pass(const std::function<void(const DispatchResult&)>& visit);

 private:
  void CountUse();
  std::optional<Refusal> QuotaRefusal(const WaitingGang& gang, std::string_view product) const;

  const base::Clock& clock_;
  ClusterFeed& feed_;
  scheduler::GangQueue queue_;
  scheduler::QuotaTree quota_;
  base::StringMap<WaitingGang> waiting_;
};

}  // namespace asterism::operators
