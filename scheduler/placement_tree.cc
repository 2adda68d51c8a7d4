#include "scheduler/placement_tree.h"

namespace asterism::scheduler {

using topology::DomainId;
using topology::NodeRange;

void PlacementTree::Load(const topology::Cluster& cluster) {
  nodes_ = cluster.node_count();
  levels_ = cluster.level_count();
  for (size_t level = 1; level < cluster.level_count(); ++level) {
    AddLevel(cluster, level);
  }
  if (levels_ < 2) {
    AddRoot();
  }
}

void PlacementTree::AddLevel(const topology::Cluster& cluster, size_t level) {
  const size_t domains = cluster.domain_count(level);
  const size_t below = level == 1 ? nodes_ : cluster.domain_count(level - 1);
  std::vector<uint32_t>& first_child = first_child_[level];
  std::vector<uint32_t>& parent = parent_[level - 1];
  first_child.resize(domains + 1);
  parent.resize(below);
  uint32_t child = 0;
  for (uint32_t domain = 0; domain < domains; ++domain) {
    first_child[domain] = child;
    const NodeRange range = cluster.NodesOf(level, DomainId(domain));
    while (child < below &&
           cluster.NodesOf(level - 1, DomainId(child)).begin.index() < range.end.index()) {
      parent[child++] = domain;
    }
  }
  first_child[domains] = child;
}

void PlacementTree::AddRoot() {
  levels_ = 2;
  first_child_[1] = {0, static_cast<uint32_t>(nodes_)};
  parent_[0].assign(nodes_, 0);
}

}  // namespace asterism::scheduler
