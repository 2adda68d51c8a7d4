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

DomainUses MeasureDomains(const scheduler::LedgerView& view,
                          const std::vector<std::string>& gpu_resources) {
  if (view.cluster == nullptr) {
    return {};
  }
  const topology::Cluster& cluster = *view.cluster;
  const std::vector<size_t> slots = GpuSlots(view, gpu_resources);
  DomainUses uses(cluster.level_count());
  for (size_t level = 0; level < uses.size(); ++level) {
    uses[level].resize(cluster.domain_count(level));
  }
  for (size_t index = 0; index < view.nodes.size() && index < cluster.node_count(); ++index) {
    const scheduler::NodeView& node = view.nodes[index];
    const DomainGpus gpus = GpusOf(node, slots);
    for (size_t level = 0; level < uses.size(); ++level) {
      DomainUse& use = uses[level][cluster.DomainOf(level, topology::NodeId(index)).index()];
      use.gpus.total += gpus.total;
      use.gpus.free += gpus.free;
      use.gpus.held += gpus.held;
      use.gpus.faulty += gpus.faulty;
      ++use.nodes;
      use.unusable_nodes += node.usable ? 0 : 1;
    }
  }
  return uses;
}

}  // namespace asterism::controller
