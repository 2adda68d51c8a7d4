#include "controller/domain_use.h"

#include <algorithm>

namespace asterism::controller {
namespace {

std::vector<size_t> GpuSlots(const scheduler::LedgerView& view,
                             const std::vector<std::string>& resources) {
  std::vector<size_t> slots;
  for (size_t slot = 0; slot < view.resource_names.size(); ++slot) {
    if (std::find(resources.begin(), resources.end(), view.resource_names[slot]) !=
        resources.end()) {
      slots.push_back(slot);
    }
  }
  return slots;
}

// By node, of all gangs.
std::vector<int64_t> SpareGpus(const scheduler::LedgerView& view) {
  std::vector<int64_t> spare(view.nodes.size(), 0);
  for (const auto& [uid, gang] : view.gangs) {
    for (const scheduler::Spare& each : gang->spares) {
      if (const topology::NodeId node = view.cluster->FindNode(each.node);
          node.valid() && node.index() < spare.size()) {
        spare[node.index()] += gang->gpus_per_block;
      }
    }
  }
  return spare;
}

DomainGpus GpusOf(const scheduler::NodeView& node, const std::vector<size_t>& slots) {
  DomainGpus gpus;
  for (const size_t slot : slots) {
    // More may be used than there is when a foreign pod came first.
    const int64_t total = std::max<int64_t>(node.allocatable[slot], 0);
    const int64_t held = std::clamp<int64_t>(node.used[slot], 0, total);
    gpus.total += total;
    gpus.held += held;
    (node.usable ? gpus.free : gpus.faulty) += total - held;
  }
  return gpus;
}

}  // namespace

void DomainGpus::Add(const DomainGpus& other) {
  total += other.total;
  free += other.free;
  held += other.held;
  spare += other.spare;
  faulty += other.faulty;
}

DomainUses MeasureDomains(const scheduler::LedgerView& view,
                          const std::vector<std::string>& gpu_resources) {
  if (view.cluster == nullptr) {
    return {};
  }
  const topology::Cluster& cluster = *view.cluster;
  const std::vector<size_t> slots = GpuSlots(view, gpu_resources);
  const std::vector<int64_t> spare = SpareGpus(view);
  DomainUses uses(cluster.level_count());
  for (size_t level = 0; level < uses.size(); ++level) {
    uses[level].resize(cluster.domain_count(level));
  }
  for (size_t index = 0; index < view.nodes.size() && index < cluster.node_count(); ++index) {
    const scheduler::NodeView& node = view.nodes[index];
    DomainGpus gpus = GpusOf(node, slots);
    gpus.spare = std::clamp<int64_t>(spare[index], 0, gpus.held);
    gpus.held -= gpus.spare;
    for (size_t level = 0; level < uses.size(); ++level) {
      DomainUse& use = uses[level][cluster.DomainOf(level, topology::NodeId(index)).index()];
      use.gpus.Add(gpus);
      ++use.nodes;
      use.unusable_nodes += node.usable ? 0 : 1;
    }
  }
  return uses;
}

}  // namespace asterism::controller
