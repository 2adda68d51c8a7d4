#include "scheduler/quota.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "scheduler/amount_text.h"

namespace asterism::scheduler {
namespace {

int64_t SaturatedAdd(int64_t left, int64_t right) {
  int64_t sum = 0;
  return __builtin_add_overflow(left, right, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

}  // namespace

QuotaTree::QuotaTree(std::vector<QuotaQueue> queues) {
  for (QuotaQueue& queue : queues) {
    if (by_name_.emplace(queue.name, nodes_.size()).second) {
      nodes_.emplace_back().queue = std::move(queue);
    }
  }
  for (Node& node : nodes_) {
    node.parent = Find(node.queue.parent);
  }
  for (size_t index = 0; index < nodes_.size(); ++index) {
    nodes_[index].problem = FindProblem(index);
  }
}

size_t QuotaTree::Find(std::string_view queue) const {
  const auto it = by_name_.find(queue);
  return it == by_name_.end() ? kNoQueue : it->second;
}

std::optional<QuotaProblem> QuotaTree::FindProblem(size_t index) const {
  std::vector<size_t> path;
  for (size_t at = index; at != kNoQueue; at = nodes_[at].parent) {
    const auto before = std::find(path.begin(), path.end(), at);
    if (before != path.end()) {
      std::string names;
      for (auto it = before; it != path.end(); ++it) {
        names += nodes_[*it].queue.name + " -> ";
      }
      return QuotaProblem{
          QuotaFault::kParentCycle,
          fmt::format("the parents of queue {} form a cycle ({}{}): change spec.parent of one",
                      nodes_[index].queue.name, names, nodes_[at].queue.name)};
    }
    path.push_back(at);
    const QuotaQueue& queue = nodes_[at].queue;
    if (!queue.parent.empty() && nodes_[at].parent == kNoQueue) {
      return QuotaProblem{
          QuotaFault::kParentMissing,
          fmt::format(
              "queue {} has the parent {}, which does not exist: create it or change spec.parent",
              queue.name, queue.parent)};
    }
  }
  return std::nullopt;
}

const QuotaLimit* QuotaTree::LimitFor(const Node& node, std::string_view product) {
  const QuotaLimit* others = nullptr;
  for (const QuotaLimit& limit : node.queue.limits) {
    if (limit.product == product) {
      return &limit;
    }
    if (limit.product == "*" && others == nullptr) {
      others = &limit;
    }
  }
  return others;
}

// Products that fall under the same limit share it.
int64_t QuotaTree::UsedOf(const Node& node, std::string_view product) {
  const QuotaLimit* limit = LimitFor(node, product);
  int64_t used = 0;
  for (const Use& use : node.uses) {
    if (LimitFor(node, use.product) == limit) {
      used = SaturatedAdd(used, use.gpus);
    }
  }
  return used;
}

void QuotaTree::AddUse(std::string_view queue, std::string_view product, int64_t gpus) {
  size_t at = Find(queue);
  if (gpus <= 0) {
    return;
  }
  // A cycle would never end: at most as many steps as there are queues.
  for (size_t step = 0; at != kNoQueue && step < nodes_.size(); ++step, at = nodes_[at].parent) {
    std::vector<Use>& uses = nodes_[at].uses;
    auto it = std::find_if(uses.begin(), uses.end(),
                           [&](const Use& use) { return use.product == product; });
    if (it == uses.end()) {
      it = uses.insert(uses.end(), {std::string(product), 0});
    }
    it->gpus = SaturatedAdd(it->gpus, gpus);
  }
}

void QuotaTree::ClearUse() {
  for (Node& node : nodes_) {
    node.uses.clear();
  }
}

int64_t QuotaTree::Used(std::string_view queue, std::string_view product) const {
  const size_t index = Find(queue);
  return index == kNoQueue ? 0 : UsedOf(nodes_[index], product);
}

std::optional<QuotaProblem> QuotaTree::Problem(std::string_view queue) const {
  const size_t index = Find(queue);
  return index == kNoQueue ? std::nullopt : nodes_[index].problem;
}

std::optional<QuotaRefusal> QuotaTree::AdmitHere(const Node& node, std::string_view product,
                                                 int64_t gpus) const {
  const QuotaQueue& queue = node.queue;
  if (queue.stopped) {
    return QuotaRefusal{QuotaReason::kQueueStopped, queue.name,
                        fmt::format("queue {} is stopped (spec.stopPolicy)", queue.name)};
  }
  if (queue.max_gpus_per_job.has_value() && gpus > *queue.max_gpus_per_job) {
    return QuotaRefusal{QuotaReason::kNotAllowed, queue.name,
                        fmt::format("asks for {}, queue {} allows a job at most {} "
                                    "(spec.maxGpusPerJob)",
                                    Counted(gpus, "GPU"), queue.name,
                                    Thousands(std::max<int64_t>(*queue.max_gpus_per_job, 0)))};
  }
  const QuotaLimit* limit = LimitFor(node, product);
  if (limit == nullptr || !limit->limit.has_value()) {
    return std::nullopt;
  }
  const int64_t used = UsedOf(node, product);
  const int64_t allowed = std::max<int64_t>(*limit->limit, 0);
  if (used <= allowed && gpus <= allowed - used) {
    return std::nullopt;
  }
  const std::string of = limit->product == "*" ? "" : " of " + limit->product;
  return QuotaRefusal{
      QuotaReason::kQuotaExceeded, queue.name,
      fmt::format("queue {} has {} of {}{} in use, {} more do not fit its limit", queue.name,
                  Thousands(used), Counted(allowed, "GPU"), of, Thousands(gpus))};
}

std::optional<QuotaRefusal> QuotaTree::Admit(std::string_view queue, std::string_view product,
                                             int64_t gpus) const {
  const size_t index = Find(queue);
  if (index == kNoQueue) {
    return QuotaRefusal{
        QuotaReason::kNotAllowed, std::string(queue),
        fmt::format("queue {} does not exist: create it or change spec.queue", queue)};
  }
  if (gpus < 1) {
    return QuotaRefusal{QuotaReason::kNotAllowed, std::string(queue),
                        fmt::format("asks for {} GPUs: a job asks for at least 1", gpus)};
  }
  if (nodes_[index].problem.has_value()) {
    return QuotaRefusal{QuotaReason::kNotAllowed, std::string(queue),
                        nodes_[index].problem->message};
  }
  for (size_t at = index; at != kNoQueue; at = nodes_[at].parent) {
    if (std::optional<QuotaRefusal> refusal = AdmitHere(nodes_[at], product, gpus);
        refusal.has_value()) {
      return refusal;
    }
  }
  return std::nullopt;
}

}  // namespace asterism::scheduler
