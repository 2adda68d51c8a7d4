#include "operator/gang_decision.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "operator/conditions.h"

namespace asterism::operators {
namespace {

// Products that the gang may have by quota.
struct QuotaProducts {
  std::vector<std::string> admitted;
  std::vector<Refusal> refused;
};

std::string_view QuotaWord(scheduler::QuotaReason reason) {
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

std::optional<Refusal> QuotaRefusalOf(const scheduler::QueuedGang& gang,
                                      const scheduler::QuotaTree& quota, std::string_view product) {
  const auto refusal = quota.Admit(gang.queue, product, gang.gpus);
  if (!refusal) {
    return std::nullopt;
  }
  return Refusal{std::string(QuotaWord(refusal->reason)), refusal->message};
}

QuotaProducts AdmittedProducts(const scheduler::QueuedGang& gang,
                               std::vector<std::string> candidates,
                               const scheduler::QuotaTree& quota,
                               const std::vector<std::string>& product_names) {
  if (candidates.empty()) {
    candidates = product_names;
    std::sort(candidates.begin(), candidates.end());
  }
  QuotaProducts products;
  for (std::string& product : candidates) {
    if (std::optional<Refusal> refusal = QuotaRefusalOf(gang, quota, product)) {
      products.refused.push_back(*std::move(refusal));
    } else {
      products.admitted.push_back(std::move(product));
    }
  }
  if (candidates.empty()) {
    // No limit can be told to stand for a product that is not known: the engine says what is amiss.
    std::optional<Refusal> refusal = QuotaRefusalOf(gang, quota, "");
    if (refusal && refusal->reason != wait_reason::kQuotaExceeded) {
      products.refused.push_back(*std::move(refusal));
    }
  }
  return products;
}

}  // namespace

GangDecision DecideGang(const scheduler::QueuedGang& gang,
                        const scheduler::PlacementRequest& request,
                        const scheduler::QuotaTree& quota,
                        const std::vector<std::string>& product_names, AskEngine ask) {
  GangDecision decision;
  const QuotaProducts products = AdmittedProducts(gang, request.products, quota, product_names);
  if (products.admitted.empty() && !products.refused.empty()) {
    decision.refusal = products.refused.front();
    return decision;
  }
  if (products.refused.empty()) {
    decision.outcome = ask(request);
    return decision;
  }
  scheduler::PlacementRequest narrowed = request;
  narrowed.products = products.admitted;
  decision.outcome = ask(narrowed);
  if (std::holds_alternative<scheduler::Never>(decision.outcome)) {
    decision.refusal = products.refused.front();  // it may fit once the quota has room again
  } else if (auto* later = std::get_if<scheduler::NotNow>(&decision.outcome)) {
    later->message += " (" + products.refused.front().message + ")";
  }
  return decision;
}

}  // namespace asterism::operators
