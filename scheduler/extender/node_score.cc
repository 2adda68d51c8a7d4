#include "scheduler/extender/node_score.h"

#include <algorithm>

#include "scheduler/gpu_islands.h"

namespace asterism::scheduler::extender {

void PodDemand::Add(size_t slot, int64_t amount) {
  amounts_[size_++] = {slot, amount};
  wanted_[slot] = amount;
  asked_[slot] = -1;
  groups_ = std::max(groups_, slot / kGroup + 1);
}

PodDemand DemandOf(const kube::ResourceAmounts& requests, const LedgerView& view,
                   std::span<const std::string> gpu_resources) {
  PodDemand demand;
  if (kPodsSlot < view.resource_names.size()) {
    demand.Add(kPodsSlot, 1);
  }
  for (const kube::ResourceAmount& request : requests) {
    const auto found =
        std::find(view.resource_names.begin(), view.resource_names.end(), request.name);
    const auto slot = static_cast<size_t>(found - view.resource_names.begin());
    if (found == view.resource_names.end() || slot >= kResourceSlots || slot == kPodsSlot ||
        request.amount <= 0) {
      continue;
    }
    demand.Add(slot, request.amount);
  }
  for (const std::string& name : gpu_resources) {
    for (const SlotAmount& wanted : demand.amounts()) {
      if (!demand.gpus.has_value() && view.resource_names[wanted.slot] == name) {
        demand.gpus = wanted;
      }
    }
  }
  return demand;
}

std::optional<SlotAmount> FirstShortage(const NodeView& node, const PodDemand& demand) {
  // GPUs first: they are what a reader looks for.
  if (demand.gpus.has_value() &&
      node.used[demand.gpus->slot] > node.allocatable[demand.gpus->slot] - demand.gpus->amount) {
    return demand.gpus;
  }
  for (const SlotAmount& wanted : demand.amounts()) {
    if (node.used[wanted.slot] > node.allocatable[wanted.slot] - wanted.amount) {
      return wanted;
    }
  }
  return std::nullopt;
}

NodeScores::NodeScores(const LedgerView& view, const PodDemand& demand)
    : version_(view.version), cluster_(view.cluster), demand_(demand), scores_(view.nodes.size()) {
  const topology::Cluster* const cluster = cluster_.get();
  if (cluster == nullptr || cluster->level_count() < 2 ||
      cluster->node_count() != view.nodes.size()) {
    for (size_t node = 0; node < view.nodes.size(); ++node) {
      ScoreSupernode(view, node, node + 1);
    }
    return;
  }
  for (size_t domain = 0; domain < cluster->domain_count(1); ++domain) {
    const topology::NodeRange range = cluster->NodesOf(1, topology::DomainId(domain));
    ScoreSupernode(view, range.begin.index(), range.end.index());
  }
}

void NodeScores::ScoreSupernode(const LedgerView& view, size_t begin, size_t end) {
  // GPUs are few; the bound only keeps sums and products from overflowing.
  constexpr int64_t kMany = int64_t{1} << 40;
  const SlotAmount gpus = *demand_.gpus;
  const bool split = !view.gpu_islands.empty();
  int64_t all = 0;
  int64_t gone = 0;
  for (size_t i = begin; i < end; ++i) {
    const NodeView& node = view.nodes[i];
    const int64_t allocatable = std::clamp<int64_t>(node.allocatable[gpus.slot], 0, kMany);
    const int64_t used = std::clamp<int64_t>(node.used[gpus.slot], 0, allocatable);
    all += allocatable;
    gone += node.usable ? used : allocatable;
    if (!Fits(node, demand_)) {
      scores_[i] = kUnfit;
    } else if (split && WholePods(view.gpu_islands[i], gpus.amount, allocatable - used) == 0) {
      scores_[i] = kBrokenIsland;
    } else if (used == 0) {
      scores_[i] = kFreeNode;
    } else {
      // 10 - ceil(3 * left / allocatable); comparisons cost a tenth of the division.
      const int64_t thrice = 3 * (allocatable - used - gpus.amount);
      scores_[i] = static_cast<uint8_t>(10 - (thrice > 0) - (thrice > allocatable) -
                                        (thrice > 2 * allocatable));
    }
  }
  const int64_t of_free_node = gone == 0 ? 0 : 4 + std::min<int64_t>(2, 3 * gone / all);
  for (size_t i = begin; i < end; ++i) {
    if (scores_[i] == kFreeNode) {
      scores_[i] = static_cast<uint8_t>(of_free_node);
    }
  }
}

}  // namespace asterism::scheduler::extender
