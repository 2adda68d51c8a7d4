// File: cli/topology_folds.h
//
// Which domains of a tree look the same, so that views show them once: equal counts, and below them
// equal children down to the last level that is shown.
//
//   const TopologyFolds folds(tree, 1);
//   for (const std::vector<size_t>& group : folds.GroupsOf(level, parent.children)) ...
//
// Thread-safety: immutable. Cost: one pass over the domains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cli/topology_tree.h"

namespace asterism::cli {

class TopologyFolds {
 public:
  // Levels below `last_level` are not looked at. `tree` must outlive this.
  TopologyFolds(const TopologyTree& tree, size_t last_level);

  // `members` of a level >= last_level in groups of equals: most free GPUs first, since that is
  // what one looks for; then in topology order.
  std::vector<std::vector<size_t>> GroupsOf(size_t level, const std::vector<size_t>& members) const;

 private:
  const TopologyTree& tree_;
  std::vector<std::vector<int64_t>> kinds_;  // by level and domain
};

}  // namespace asterism::cli
