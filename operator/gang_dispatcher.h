// File: operator/gang_dispatcher.h
//
// One pass over the gang queue: in order, each waiting gang is offered to the placement engine, and
// what it gets is booked before the next one is asked. A gang that does not fit holds nothing and
// does not stop the ones behind it.
//
//   dispatcher.Enqueue(entry);
//   dispatcher.Pass([&](const DispatchResult& result) { ... });   // result.outcome, result.refusal
//
// Products come before the engine: those of the gang whose quota has room for it (no products
// stated: all that the cluster has). Only when none is left the quota refuses.
//
// A gang that was refused is not asked again while the answer cannot have changed: no room came
// free since, or all the free GPUs there are would not do. Its last outcome is told again then;
// that it waits is right, the numbers in its words may be of an earlier pass.
//
// Thread-safety: none; core executor. Cost: one Place for each waiting gang whose answer may have
// changed, O(products of its queue and those above) for the others; one scan of the nodes when
// something changed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/strings.h"
#include "operator/cluster_feed.h"
#include "operator/job_reconciler.h"
#include "operator/template_fit.h"
#include "scheduler/gang_queue.h"
#include "scheduler/placement.h"
#include "scheduler/quota.h"

namespace asterism::operators {

// A gang in the queue, with what it asks for.
struct WaitingGang {
  scheduler::QueuedGang queued;
  scheduler::PlacementRequest request;
  // When set, a pass takes request.node_classes from it, as the classes are at that moment.
  std::optional<TemplateFit> fit;
};

struct DispatchResult {
  std::string_view uid;
  size_t position = 0;  // 1-based, in the queue at the start of the pass
  // Set: quota or a stopped queue holds it back.
  std::optional<Refusal> refusal;
  scheduler::PlacementOutcome outcome;
  bool asked = false;  // the engine was asked in this pass, for so long:
  absl::Duration decide;
};

class GangDispatcher {
 public:
  GangDispatcher(const base::Clock& clock, ClusterFeed& feed) : clock_(clock), feed_(feed) {}

  void Enqueue(WaitingGang gang);  // adds or replaces
  void Remove(std::string_view uid);
  bool Contains(std::string_view uid) const { return waiting_.contains(uid); }
  size_t size() const { return waiting_.size(); }
  // Number of the gangs that wait in a queue, and the sum of their GPUs.
  struct Pending {
    int64_t jobs = 0;
    int64_t gpus = 0;
  };
  base::StringMap<Pending> PendingByQueue() const;  // O(waiting gangs)

  // First to last.
  const scheduler::GangQueue& queue() const { return queue_; }

  void SetQuota(scheduler::QuotaTree quota) { quota_ = std::move(quota); }
  // With what all gangs hold counted, but for those with these uids. O(gangs).
  scheduler::QuotaTree QuotaNow(std::span<const std::string> left_out = {}) const;

  // Calls `visit` for each gang. `visit` books what was placed (Ledger::PutGang) and may call
  // Remove for the gang it is called with, and for no other.
  void Pass(const std::function<void(const DispatchResult&)>& visit);

 private:
  // The engine's last no, and what it was asked.
  struct Verdict {
    scheduler::PlacementRequest request;
    scheduler::PlacementOutcome outcome;
    uint64_t node_version = 0;
    uint64_t room_version = 0;
  };
  struct Entry {
    WaitingGang gang;
    std::optional<uint64_t> class_version;  // of request.node_classes, once it comes from `fit`
    std::optional<Verdict> verdict;
  };

  void CountUse(scheduler::QuotaTree& quota, std::span<const std::string> left_out) const;
  void Decide(Entry& entry, DispatchResult& result);
  scheduler::PlacementOutcome Ask(Entry& entry, const scheduler::PlacementRequest& request,
                                  DispatchResult& result);
  bool StillRefused(const Entry& entry, const scheduler::PlacementRequest& request);
  int64_t FreeGpus(size_t slot);

  // The free GPUs of all usable nodes, as of a version of the ledger.
  struct FreeTotal {
    uint64_t version = 0;
    size_t slot = 0;
    int64_t gpus = 0;
  };

  const base::Clock& clock_;
  ClusterFeed& feed_;
  scheduler::GangQueue queue_;
  scheduler::QuotaTree quota_;
  base::StringMap<Entry> waiting_;
  std::optional<FreeTotal> free_total_;
};

}  // namespace asterism::operators
