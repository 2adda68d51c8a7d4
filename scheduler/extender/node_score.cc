#include "scheduler/extender/node_score.h"

#include <algorithm>

#include "kube/quantity.h"

namespace asterism::scheduler::extender {

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

SupernodeUse::SupernodeUse(const LedgerView& view, size_t gpu_slot)
    : version_(view.version), cluster_(view.cluster), gpu_slot_(gpu_slot) {
  const topology::Cluster* const cluster = cluster_.get();
  const bool levels = cluster != nullptr && cluster->level_count() >= 2 &&
                      cluster->node_count() == view.nodes.size();
  supernode_of_node_.resize(view.nodes.size());
  uses_.resize(levels ? cluster->domain_count(1) : view.nodes.size());
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    const size_t supernode = levels ? cluster->DomainOf(1, NodeId(i)).index() : i;
    supernode_of_node_[i] = static_cast<uint32_t>(supernode);
    const NodeView& node = view.nodes[i];
    const int64_t all = std::max<int64_t>(node.allocatable[gpu_slot], 0);
    const int64_t held = std::clamp<int64_t>(node.used[gpu_slot], 0, all);
    Use& use = uses_[supernode];
    use.all = kube::SaturatingAdd(use.all, all);
    use.gone = kube::SaturatingAdd(use.gone, node.usable ? held : all);
  }
}

int ScoreNode(const NodeView& node, const SlotAmount& gpus, const SupernodeUse::Use& supernode) {
  // GPUs are few; the bound only keeps the products below from overflowing.
  constexpr int64_t kMany = int64_t{1} << 60;
  const int64_t used = node.used[gpus.slot];
  if (used > 0) {
    const int64_t allocatable = std::min(node.allocatable[gpus.slot], kMany);
    const int64_t left = std::min(node.allocatable[gpus.slot] - used - gpus.amount, kMany);
    return static_cast<int>(10 - std::min<int64_t>(3, (3 * left + allocatable - 1) / allocatable));
  }
  if (supernode.gone == 0) {
    return 0;
  }
  const int64_t all = std::min(supernode.all, kMany);
  return static_cast<int>(4 + std::min<int64_t>(2, 3 * std::min(supernode.gone, kMany) / all));
}

}  // namespace asterism::scheduler::extender
