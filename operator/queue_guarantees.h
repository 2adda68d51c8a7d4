// File: operator/queue_guarantees.h
//
// Whether the cluster has the GPUs that its queues guarantee.
//
//   const QueueGuarantees guarantees(queues, tree, feed.GpusByProduct());
//   guarantees.Excess(queue)   // "all queues together guarantee 96 GPUs of H100, the cluster has
//   64"
//
// As a limit, a guarantee covers the queue and everything below it: a parent stands for the larger
// of its own guarantee and the sum of its children's, so a tree that shares out what its root has
// counts once. "*" is met from what the guarantees by name leave over. Queues that have no sound
// place in the tree take no jobs and count nothing.
//
// Thread-safety: a value. Cost: O(queues x products) to make, O(products) to ask.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kube/informer.h"
#include "operator/queue.h"
#include "scheduler/quota.h"

namespace asterism::operators {

class QueueGuarantees {
 public:
  // `tree` holds the same queues and tells which are sound.
  QueueGuarantees(const std::vector<kube::Shared<Queue>>& queues, const scheduler::QuotaTree& tree,
                  const std::map<std::string, int64_t>& gpus_by_product);

  // Why a guarantee of this queue cannot be met when all queues claim theirs; empty: it can.
  std::string Excess(const Queue& queue) const;

 private:
  std::map<std::string, std::string> excess_;  // by product, only those that have one
};

}  // namespace asterism::operators
