#include "kube/pod_requests.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "kube/quantity.h"

namespace asterism::kube {
namespace {

// Merges `more` into `amounts` (both sorted), equal names by `combine`.
template <typename Combine>
void MergeAmounts(const ResourceAmounts& more, ResourceAmounts& amounts, Combine combine) {
  auto position = amounts.begin();
  for (const ResourceAmount& amount : more) {
    while (position != amounts.end() && position->name < amount.name) {
      ++position;
    }
    if (position != amounts.end() && position->name == amount.name) {
      position->amount = combine(position->amount, amount.amount);
    } else {
      position = amounts.insert(position, amount);
    }
  }
}

void AddAmounts(const ResourceAmounts& more, ResourceAmounts& amounts) {
  MergeAmounts(more, amounts, SaturatingAdd);
}

void RaiseAmounts(const ResourceAmounts& more, ResourceAmounts& amounts) {
  MergeAmounts(more, amounts, [](int64_t a, int64_t b) { return std::max(a, b); });
}

// Requests with missing ones taken from the limits.
ResourceAmounts Defaulted(ContainerRequests container) {
  MergeAmounts(container.limits, container.requests,
               [](int64_t request, int64_t /*limit*/) { return request; });
  return std::move(container.requests);
}

bool IsPodLevelResource(std::string_view name) {
  return name == "cpu" || name == "memory" || name.starts_with("hugepages-");
}

}  // namespace

ResourceAmounts EffectiveRequests(PodResources resources) {
  ResourceAmounts total;
  for (ContainerRequests& container : resources.containers) {
    AddAmounts(Defaulted(std::move(container)), total);
  }
  ResourceAmounts sidecars;
  ResourceAmounts init_peak;
  for (ContainerRequests& container : resources.init_containers) {
    const bool restartable = container.restartable;
    ResourceAmounts requests = Defaulted(std::move(container));
    if (restartable) {
      AddAmounts(requests, total);
      AddAmounts(requests, sidecars);
      RaiseAmounts(sidecars, init_peak);
    } else {
      AddAmounts(sidecars, requests);
      RaiseAmounts(requests, init_peak);
    }
  }
  RaiseAmounts(init_peak, total);
  std::erase_if(resources.pod_level,
                [](const ResourceAmount& amount) { return !IsPodLevelResource(amount.name); });
  MergeAmounts(resources.pod_level, total, [](int64_t, int64_t pod_level) { return pod_level; });
  AddAmounts(resources.overhead, total);
  return total;
}

}  // namespace asterism::kube
