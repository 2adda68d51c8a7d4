#include "operator/queue_guarantees.h"

#include <algorithm>

#include "fmt/format.h"

namespace asterism::operators {
namespace {

using ByProduct = std::map<std::string, int64_t>;
using Children = std::multimap<std::string, const Queue*>;  // by parent

// Of the queue and all below it.
ByProduct NeedOf(const Queue& queue, const Children& children) {
  ByProduct need;
  const auto [begin, end] = children.equal_range(queue.meta.name);
  for (auto child = begin; child != end; ++child) {
    for (const auto& [product, gpus] : NeedOf(*child->second, children)) {
      need[product] += gpus;
    }
  }
  for (const QueueQuota& quota : queue.spec.quotas) {
    need[quota.product] = std::max(need[quota.product], quota.guaranteed);
  }
  return need;
}

std::string ExcessText(int64_t needed, const std::string& of, int64_t there) {
  return fmt::format(
      "all queues together guarantee {} GPUs{}, the cluster has {}: lower "
      "spec.quotas[].guaranteed of some, or add nodes",
      needed, of, there);
}

}  // namespace

QueueGuarantees::QueueGuarantees(const std::vector<kube::Shared<Queue>>& queues,
                                 const scheduler::QuotaTree& tree,
                                 const ByProduct& gpus_by_product) {
  Children children;
  for (const kube::Shared<Queue>& queue : queues) {
    if (!tree.Problem(queue->meta.name).has_value()) {
      children.emplace(queue->spec.parent, queue.get());
    }
  }
  Queue root;  // without a name, as the parent of those that have none
  ByProduct need = NeedOf(root, children);
  const int64_t others_need = need.contains("*") ? need.extract("*").mapped() : 0;
  ByProduct left = gpus_by_product;
  for (const auto& [product, needed] : need) {
    int64_t& gpus = left[product];
    if (needed > gpus) {
      excess_[product] = ExcessText(needed, " of " + product, gpus);
    }
    gpus = std::max<int64_t>(0, gpus - needed);
  }
  int64_t left_over = 0;
  for (const auto& [product, gpus] : left) {
    left_over += gpus;
  }
  if (others_need > left_over) {
    excess_["*"] = ExcessText(others_need, " of products that are not listed (\"*\")", left_over);
  }
}

std::string QueueGuarantees::Excess(const Queue& queue) const {
  for (const QueueQuota& quota : queue.spec.quotas) {
    if (const auto found = excess_.find(quota.product);
        quota.guaranteed > 0 && found != excess_.end()) {
      return found->second;
    }
  }
  return "";
}

}  // namespace asterism::operators
