// File: scheduler/quota.h
//
// Whether a queue may take a job: limits over a tree of queues and what is in use.
//
//   QuotaTree tree(queues);
//   for (each gang in the ledger) tree.AddUse(gang.queue, gang.product, gpus);
//   if (std::optional<QuotaRefusal> refusal = tree.Admit("research", "H100", 512)) ...
//   -> kQuotaExceeded "queue research has 96 of 128 GPUs in use, 512 more do not fit its limit"
//
// A limit holds for the queue and everything below it, so a job is checked against its queue and
// all ancestors. Usage is added up from the holders each time, never kept by differences: sums
// saturate, and a saturated sum is not "unlimited". Nothing negative counts.
//
// Thread-safety: none. Cost: AddUse and Admit O(depth x products of a queue).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace asterism::scheduler {

struct QuotaLimit {
  std::string product;           // "*": products that this queue does not list
  std::optional<int64_t> limit;  // GPUs; nothing: no limit
};

struct QuotaQueue {
  std::string name;
  std::string parent;  // empty: a root
  std::vector<QuotaLimit> limits;
  std::optional<int64_t> max_gpus_per_job;
  bool stopped = false;
};

enum class QuotaReason { kQuotaExceeded, kQueueStopped, kNotAllowed };

struct QuotaRefusal {
  QuotaReason reason = QuotaReason::kQuotaExceeded;
  std::string queue;    // which queue says no: the job's, or an ancestor
  std::string message;  // names it, what is used and the limit
};

// What is wrong with a queue's place in the tree.
enum class QuotaFault { kParentMissing, kParentCycle };

struct QuotaProblem {
  QuotaFault fault = QuotaFault::kParentMissing;
  std::string message;  // names the queue to change
};

class QuotaTree {
 public:
  QuotaTree() = default;
  // Of two queues with one name the first counts.
  explicit QuotaTree(std::vector<QuotaQueue> queues);

  // Adds GPUs in use to the queue and its ancestors. Of an unknown queue: nothing happens.
  void AddUse(std::string_view queue, std::string_view product, int64_t gpus);
  void ClearUse();
  // In use in the queue and below it, of the products that count against its limit for `product`.
  int64_t Used(std::string_view queue, std::string_view product) const;

  // Nothing when the queue's place in the tree is sound. A queue that has a problem, and those
  // below it, take no jobs.
  std::optional<QuotaProblem> Problem(std::string_view queue) const;

  // Nothing when the queue may take a job of so many GPUs of this product.
  std::optional<QuotaRefusal> Admit(std::string_view queue, std::string_view product,
                                    int64_t gpus) const;

 private:
  struct Use {
    std::string product;
    int64_t gpus = 0;
  };
  struct Node {
    QuotaQueue queue;
    size_t parent = kNoQueue;
    std::optional<QuotaProblem> problem;
    std::vector<Use> uses;  // the whole subtree
  };
  static constexpr size_t kNoQueue = static_cast<size_t>(-1);

  size_t Find(std::string_view queue) const;
  std::optional<QuotaProblem> FindProblem(size_t index) const;
  static const QuotaLimit* LimitFor(const Node& node, std::string_view product);
  static int64_t UsedOf(const Node& node, std::string_view product);
  std::optional<QuotaRefusal> AdmitHere(const Node& node, std::string_view product,
                                        int64_t gpus) const;

  std::vector<Node> nodes_;
  base::StringMap<size_t> by_name_;
};

}  // namespace asterism::scheduler
