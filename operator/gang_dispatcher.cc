#include "operator/gang_dispatcher.h"

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
  std::string uid = gang.queued.uid;
  gang.queued.waiting_since = clock_.Now();
  queue_.Put(gang.queued);
  waiting_.insert_or_assign(std::move(uid), std::move(gang));
}

void GangDispatcher::Remove(std::string_view uid) {
  queue_.Remove(uid);
  waiting_.erase(uid);
}

GangDispatcher::Pending GangDispatcher::PendingOf(std::string_view queue) const {
  Pending pending;
  queue_.ForEach([&](const scheduler::QueuedGang& gang) {
    if (gang.queue == queue) {
      ++pending.jobs;
      pending.gpus += gang.gpus;
    }
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
    const WaitingGang gang = found->second;  // `visit` may remove it
    DispatchResult result{.uid = order[i], .position = i + 1};
    const auto& products = gang.request.products;
    result.refusal = QuotaRefusal(gang, products.size() == 1 ? products[0] : "");
    if (!result.refusal) {
      const base::SteadyTime begin = clock_.SteadyNow();
      result.outcome = scheduler::Place(gang.request, feed_.ledger());
      result.decide = clock_.SteadyNow() - begin;
    }
    if (const auto* placed = std::get_if<scheduler::Placed>(&result.outcome);
        placed != nullptr && !result.refusal) {
      // Only now the product is known that a limit may stand for.
      result.refusal = QuotaRefusal(gang, placed->product);
      if (!result.refusal) {
        quota_.AddUse(gang.queued.queue, placed->product, gang.queued.gpus);
      }
    }
    visit(result);
  }
}

}  // namespace asterism::operators
