// File: scheduler/placement_tree.h
//
// The cluster's levels as parents and children, for walking up and down. Internal to placement.
//
//   tree.Load(cluster);
//   for (uint32_t child = tree.FirstChild(2, d); child < tree.FirstChild(2, d + 1); ++child) ...
//
// The last level has exactly one domain, the root: where the cluster has one level only, a root is
// added above its nodes. Level 0 are the nodes.
//
// Thread-safety: none. Cost: Load O(levels), O(nodes) where a root is added.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang_shape.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

class PlacementTree {
 public:
  // The cluster must outlive the use of the tree.
  void Load(const topology::Cluster& cluster);

  size_t levels() const { return levels_; }
  size_t root_level() const { return levels_ - 1; }
  size_t node_count() const { return nodes_; }
  size_t domain_count(size_t level) const {
    return level == 0 ? nodes_ : first_child_[level].size() - 1;
  }
  // Level >= 1; `domain` may be one past the last.
  uint32_t FirstChild(size_t level, uint32_t domain) const { return first_child_[level][domain]; }
  // Any level below the root.
  uint32_t Parent(size_t level, uint32_t domain) const { return parent_[level][domain]; }
  uint32_t Ancestor(size_t level, uint32_t node) const {
    uint32_t domain = node;
    for (size_t below = 0; below < level; ++below) {
      domain = parent_[below][domain];
    }
    return domain;
  }

 private:
  void AddRoot();

  size_t levels_ = 0;
  size_t nodes_ = 0;
  std::array<std::span<const uint32_t>, kTreeLevelsMax> first_child_;
  std::array<std::span<const uint32_t>, kTreeLevelsMax> parent_;
  // Of the added root.
  std::array<uint32_t, 2> root_children_{};
  std::vector<uint32_t> root_parents_;
};

}  // namespace asterism::scheduler
