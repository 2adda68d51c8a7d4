#include "operator/gang_dispatcher.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "operator/gang_decision.h"

namespace asterism::operators {
void GangDispatcher::Enqueue(WaitingGang gang) {
  gang.queued.waiting_since = clock_.Now();
  queue_.Put(gang.queued);
  Entry& entry = waiting_[gang.queued.uid];
  entry.gang = std::move(gang);
  entry.class_version.reset();
}

void GangDispatcher::Remove(std::string_view uid) {
  queue_.Remove(uid);
  waiting_.erase(uid);
}

base::StringMap<GangDispatcher::Pending> GangDispatcher::PendingByQueue() const {
  base::StringMap<Pending> pending;
  queue_.ForEach([&](const scheduler::QueuedGang& gang) {
    Pending& sum = pending[gang.queue];
    ++sum.jobs;
    sum.gpus += gang.gpus;
  });
  return pending;
}

void GangDispatcher::CountUse(scheduler::QuotaTree& quota,
                              std::span<const std::string> left_out) const {
  quota.ClearUse();
  for (const auto& gang : feed_.ledger().Gangs()) {
    if (std::find(left_out.begin(), left_out.end(), gang->uid) == left_out.end()) {
      quota.AddUse(gang->queue, gang->product, gang->gpus_held());
    }
  }
}

scheduler::QuotaTree GangDispatcher::QuotaNow(std::span<const std::string> left_out) const {
  scheduler::QuotaTree quota = quota_;
  CountUse(quota, left_out);
  return quota;
}

int64_t GangDispatcher::FreeGpus(size_t slot) {
  const scheduler::Ledger& ledger = feed_.ledger();
  if (!free_total_ || free_total_->version != ledger.version() || free_total_->slot != slot) {
    free_total_ = FreeTotal{ledger.version(), slot, 0};
    const std::span<const int64_t> free = ledger.FreeColumn(slot);
    const std::span<const uint8_t> placeable = ledger.PlaceableColumn();
    for (size_t node = 0; node < free.size(); ++node) {
      free_total_->gpus += placeable[node] != 0 ? std::max<int64_t>(free[node], 0) : 0;
    }
  }
  return free_total_->gpus;
}

// Whether the engine would say no again. It may be asked without need, but never left out wrongly.
bool GangDispatcher::StillRefused(const Entry& entry, const scheduler::PlacementRequest& request) {
  const scheduler::Ledger& ledger = feed_.ledger();
  if (!entry.verdict || entry.verdict->node_version != ledger.node_version() ||
      entry.verdict->request != request) {
    return false;
  }
  // "Never" speaks of the nodes when nobody holds anything.
  if (entry.verdict->room_version == ledger.room_version() ||
      std::holds_alternative<scheduler::Never>(entry.verdict->outcome)) {
    return true;
  }
  bool holds_something = false;  // which counts as free for the gang itself
  ledger.ForEachHeld(request.gang_uid, [&](scheduler::NodeId, const scheduler::ResourceVector&) {
    holds_something = true;
  });
  const int64_t gpus_of_pod =
      request.gpu_slot < scheduler::kResourceSlots ? request.request[request.gpu_slot] : 0;
  return !holds_something && gpus_of_pod > 0 &&
         FreeGpus(request.gpu_slot) / gpus_of_pod < request.pods;
}

scheduler::PlacementOutcome GangDispatcher::Ask(Entry& entry,
                                                const scheduler::PlacementRequest& request,
                                                DispatchResult& result) {
  const scheduler::Ledger& ledger = feed_.ledger();
  const base::SteadyTime begin = clock_.SteadyNow();
  scheduler::PlacementOutcome outcome = scheduler::Place(request, ledger);
  result.decide = clock_.SteadyNow() - begin;
  result.asked = true;
  entry.verdict.reset();
  if (!std::holds_alternative<scheduler::Placed>(outcome)) {
    entry.verdict = Verdict{request, outcome, ledger.node_version(), ledger.room_version()};
  }
  return outcome;
}

void GangDispatcher::Decide(Entry& entry, DispatchResult& result) {
  WaitingGang& gang = entry.gang;
  if (gang.fit && entry.class_version != feed_.class_version()) {
    gang.request.node_classes = feed_.node_classes().Allowed(*gang.fit);
    entry.class_version = feed_.class_version();
  }
  const auto ask = [&](const scheduler::PlacementRequest& request) {
    if (StillRefused(entry, request)) {
      return entry.verdict->outcome;
    }
    return Ask(entry, request, result);
  };
  GangDecision decision =
      DecideGang(gang.queued, gang.request, quota_, feed_.ledger().product_names(), ask);
  result.refusal = std::move(decision.refusal);
  result.outcome = std::move(decision.outcome);
  if (const auto* placed = std::get_if<scheduler::Placed>(&result.outcome);
      placed != nullptr && !result.refusal) {
    quota_.AddUse(gang.queued.queue, placed->product, gang.queued.gpus);
  }
}

void GangDispatcher::Pass(const std::function<void(const DispatchResult&)>& visit) {
  CountUse(quota_, {});
  std::vector<std::string> order;
  order.reserve(queue_.size());
  queue_.ForEach([&](const scheduler::QueuedGang& gang) { order.push_back(gang.uid); });
  for (size_t i = 0; i < order.size(); ++i) {
    const auto found = waiting_.find(order[i]);
    if (found == waiting_.end()) {
      continue;
    }
    DispatchResult result{.uid = order[i], .position = i + 1};
    Decide(found->second, result);
    visit(result);  // may remove it
  }
}

}  // namespace asterism::operators
