#include "scheduler/placement_tree.h"

namespace asterism::scheduler {

void PlacementTree::Load(const topology::Cluster& cluster) {
  nodes_ = cluster.node_count();
  levels_ = cluster.level_count();
  for (size_t level = 0; level < levels_; ++level) {
    parent_[level] = cluster.Parents(level);
    first_child_[level] = cluster.FirstChildren(level);
  }
  if (levels_ < 2) {
    AddRoot();
  }
}

void PlacementTree::AddRoot() {
  levels_ = 2;
  root_children_ = {0, static_cast<uint32_t>(nodes_)};
  root_parents_.assign(nodes_, 0);
  first_child_[1] = root_children_;
  parent_[0] = root_parents_;
}

}  // namespace asterism::scheduler
