#include "scheduler/ledger_image.h"

namespace asterism::scheduler {

LedgerImage::LedgerImage(const Ledger& ledger)
    : cluster(ledger.shared_cluster()),
      nodes(ledger.node_count()),
      product_names(ledger.product_names()),
      version(ledger.version()) {
  for (size_t index = 0; index < nodes.size(); ++index) {
    const NodeId node(index);
    const NodeState& state = ledger.node_state(node);
    nodes[index] = {.allocatable = state.allocatable,
                    .used = ledger.used(node),
                    .node_class = state.node_class,
                    .product = ledger.ProductColumn()[index],
                    .known = ledger.ProductColumn()[index] != Ledger::kNoProduct,
                    .usable = state.usable,
                    .degraded = state.degraded,
                    .gpu_islands = ledger.gpu_islands(node)};
  }
  for (size_t slot = 0; slot < ledger.resource_count(); ++slot) {
    resource_names.push_back(ledger.resource_name(slot));
  }
}

std::vector<HeldAmount> HeldBy(const Ledger& ledger, std::string_view gang_uid) {
  std::vector<HeldAmount> amounts;
  ledger.ForEachHeld(gang_uid, [&](NodeId node, const ResourceVector& held) {
    amounts.push_back({node, held});
  });
  return amounts;
}

void LedgerImage::Release(const std::vector<HeldAmount>& held) {
  for (const HeldAmount& amount : held) {
    nodes[amount.node.index()].used.Subtract(amount.amount);
  }
}

ImageLedger::ImageLedger(const LedgerImage& image) : ledger_(table_) {
  for (const std::string& name : image.resource_names) {
    table_.SlotOf(name);  // the first ones are there already; the order is that of the original
  }
  ledger_.SetCluster(image.cluster);
  for (size_t index = 0; index < image.nodes.size(); ++index) {
    const ImageNode& node = image.nodes[index];
    if (!node.known) {
      continue;
    }
    const std::string& name = image.cluster->node_name(NodeId(index));
    ledger_.SetNode({.name = name,
                     .allocatable = node.allocatable,
                     .usable = node.usable,
                     .degraded = node.degraded,
                     .product = image.product_names[node.product],
                     .node_class = node.node_class});
    ledger_.SetGpuIslands(name, node.gpu_islands);
    if (node.used != ResourceVector()) {
      ledger_.PutPod({.uid = name, .name = name, .node = name, .requests = node.used});
    }
  }
}

}  // namespace asterism::scheduler
