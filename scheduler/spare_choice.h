// File: scheduler/spare_choice.h
//
// Chooses where the spares of a gang go, once its pods have their places. Internal to placement.
//
//   SpareChoice choice;
//   placed.spares = {node_of_one_that_stays};
//   choice.Choose(tree, slots, placed.nodes, request.spares, placed.spares);
//
// A spare stands in for a pod whose node has failed, so it is never on a node of the gang, and it
// is worth most where most pods are near. Each in turn goes to the innermost level that has a
// domain with room and with pods that no spare is near to yet, there to the domain with most such
// pods; inside it to a node without a spare, where there is one, with least room. When every pod
// has one near, the next round begins. A spare that stays counts as chosen first, wherever it is.
//
// Thread-safety: none; buffers are kept. Cost: for each spare O(domains above the nodes) and the
// nodes of one domain.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/placement_tree.h"

namespace asterism::scheduler {

class SpareChoice {
 public:
  // `slots`: pods that each node has room for, the gang's own not yet taken off. `spares` has those
  // that stay; it grows to `count`, or less where there is no more room.
  void Choose(const PlacementTree& tree, std::span<const int64_t> slots,
              std::span<const NodeId> nodes, int64_t count, std::vector<NodeId>& spares);

 private:
  void CountAlone(const PlacementTree& tree, std::span<const NodeId> nodes);
  bool ChooseOne(const PlacementTree& tree, std::vector<NodeId>& spares);
  void CountStaying(const PlacementTree& tree, std::span<const NodeId> nodes, uint32_t node);
  void Take(const PlacementTree& tree, uint32_t node);
  uint32_t NodeIn(const PlacementTree& tree, size_t level, uint32_t domain) const;
  void Cover(const PlacementTree& tree, size_t level, uint32_t domain);

  // By level and domain.
  std::array<std::vector<int64_t>, kTreeLevelsMax> room_;
  std::array<std::vector<int64_t>, kTreeLevelsMax> alone_;  // pods without a spare near them
  std::vector<int64_t> taken_;                              // spares, by node
};

}  // namespace asterism::scheduler
