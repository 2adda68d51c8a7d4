#include "operator/gang_dispatcher.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "operator/conditions.h"

namespace asterism::operators {
namespace {

std::string_view ReasonWord(scheduler::QuotaReason reason) {
  switch (reason) {
    case scheduler::QuotaReason::kQuotaExceeded:
      return wait_reason::kQuotaExceeded;
    case scheduler::QuotaReason::kQueueStopped:
      return wait_reason::kQueueStopped;
    case scheduler::QuotaReason::kNotAllowed:
      return wait_reason::kNotAllowed;
  }
  return wait_reason::kNotAllowed;
}

}  // namespace

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

void GangDispatcher::CountUse() {
  quota_.ClearUse();
  for (const auto& gang : feed_.ledger().Gangs()) {
    quota_.AddUse(gang->queue, gang->product,
                  gang->gpus_per_block * static_cast<int64_t>(gang->blocks.size()));
  }
}

std::optional<Refusal> GangDispatcher::QuotaRefusal(const WaitingGang& gang,
                                                    std::string_view product) const {
  const auto refusal = quota_.Admit(gang.queued.queue, product, gang.queued.gpus);
  if (!refusal) {
    return std::nullopt;
  }
  return Refusal{std::string(ReasonWord(refusal->reason)), refusal->message};
}

GangDispatcher::Products GangDispatcher::AdmittedProducts(const WaitingGang& gang) const {
  std::vector<std::string> candidates = gang.request.products;
  if (candidates.empty()) {
    candidates = feed_.ledger().product_names();
    std::sort(candidates.begin(), candidates.end());
  }
  Products products;
  for (std::string& product : candidates) {
    if (std::optional<Refusal> refusal = QuotaRefusal(gang, product)) {
      products.refused.push_back(*std::move(refusal));
    } else {
      products.admitted.push_back(std::move(product));
    }
  }
  if (candidates.empty()) {
    // No limit can be told to stand for a product that is not known: the engine says what is amiss.
    std::optional<Refusal> refusal = QuotaRefusal(gang, "");
    if (refusal && refusal->reason != wait_reason::kQuotaExceeded) {
      products.refused.push_back(*std::move(refusal));
    }
  }
  return products;
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

void GangDispatcher::Ask(Entry& entry, const scheduler::PlacementRequest& request,
                         DispatchResult& result) {
  const scheduler::Ledger& ledger = feed_.ledger();
  const base::SteadyTime begin = clock_.SteadyNow();
  result.outcome = scheduler::Place(request, ledger);
  result.decide = clock_.SteadyNow() - begin;
  result.asked = true;
  entry.verdict.reset();
  if (!std::holds_alternative<scheduler::Placed>(result.outcome)) {
    entry.verdict = Verdict{request, result.outcome, ledger.node_version(), ledger.room_version()};
  }
}

void GangDispatcher::Decide(Entry& entry, DispatchResult& result) {
  WaitingGang& gang = entry.gang;
  const Products products = AdmittedProducts(gang);
  if (products.admitted.empty() && !products.refused.empty()) {
    result.refusal = products.refused.front();
    return;
  }
  if (gang.fit && entry.class_version != feed_.class_version()) {
    gang.request.node_classes = feed_.node_classes().Allowed(*gang.fit);
    entry.class_version = feed_.class_version();
  }
  std::optional<scheduler::PlacementRequest> narrowed;
  if (!products.refused.empty()) {
    narrowed = gang.request;
    narrowed->products = products.admitted;
  }
  const scheduler::PlacementRequest& request = narrowed ? *narrowed : gang.request;
  if (StillRefused(entry, request)) {
    result.outcome = entry.verdict->outcome;
  } else {
    Ask(entry, request, result);
  }
  if (const auto* placed = std::get_if<scheduler::Placed>(&result.outcome)) {
    quota_.AddUse(gang.queued.queue, placed->product, gang.queued.gpus);
  } else if (narrowed && std::holds_alternative<scheduler::Never>(result.outcome)) {
    result.refusal = products.refused.front();  // it may fit once the quota has room again
  } else if (auto* later = std::get_if<scheduler::NotNow>(&result.outcome); later && narrowed) {
    later->message += " (" + products.refused.front().message + ")";
  }
}

void GangDispatcher::Pass(const std::function<void(const DispatchResult&)>& visit) {
  CountUse();
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
