#include "scheduler/spare_choice.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace asterism::scheduler {

void SpareChoice::Choose(const PlacementTree& tree, std::span<const int64_t> slots,
                         std::span<const NodeId> nodes, int64_t count,
                         std::vector<NodeId>& spares) {
  taken_.assign(tree.node_count(), 0);
  room_[0].assign(slots.begin(), slots.end());
  for (const NodeId node : nodes) {
    room_[0][node.index()] = 0;
  }
  for (size_t level = 1; level < tree.levels(); ++level) {
    room_[level].assign(tree.domain_count(level), 0);
    for (uint32_t child = 0; child < tree.domain_count(level - 1); ++child) {
      room_[level][tree.Parent(level - 1, child)] += room_[level - 1][child];
    }
  }
  CountAlone(tree, nodes);
  for (const NodeId spare : spares) {
    CountStaying(tree, nodes, static_cast<uint32_t>(spare.index()));
  }
  for (auto i = static_cast<int64_t>(spares.size()); i < count && room_[tree.root_level()][0] > 0;
       ++i) {
    if (!ChooseOne(tree, spares)) {
      CountAlone(tree, nodes);
      ChooseOne(tree, spares);
    }
  }
}

void SpareChoice::CountAlone(const PlacementTree& tree, std::span<const NodeId> nodes) {
  for (size_t level = 0; level < tree.levels(); ++level) {
    alone_[level].assign(tree.domain_count(level), 0);
  }
  for (const NodeId node : nodes) {
    auto domain = static_cast<uint32_t>(node.index());
    ++alone_[0][domain];
    for (size_t level = 0; level < tree.root_level(); ++level) {
      domain = tree.Parent(level, domain);
      ++alone_[level + 1][domain];
    }
  }
}

// False: every pod has a spare near it.
bool SpareChoice::ChooseOne(const PlacementTree& tree, std::vector<NodeId>& spares) {
  for (size_t level = 1; level < tree.levels(); ++level) {
    int64_t most = 0;
    uint32_t chosen = 0;
    for (uint32_t domain = 0; domain < tree.domain_count(level); ++domain) {
      if (room_[level][domain] > 0 && alone_[level][domain] > most) {
        most = alone_[level][domain];
        chosen = domain;
      }
    }
    if (most == 0) {
      continue;
    }
    const uint32_t node = NodeIn(tree, level, chosen);
    spares.emplace_back(node);
    Take(tree, node);
    Cover(tree, level, chosen);
    return true;
  }
  return false;
}

// It is near the pods of the innermost domain around it that has any without a spare.
void SpareChoice::CountStaying(const PlacementTree& tree, std::span<const NodeId> nodes,
                               uint32_t node) {
  Take(tree, node);
  if (alone_[tree.root_level()][0] == 0) {
    CountAlone(tree, nodes);
  }
  uint32_t domain = node;
  for (size_t level = 0; level < tree.root_level(); ++level) {
    domain = tree.Parent(level, domain);
    if (alone_[level + 1][domain] > 0) {
      Cover(tree, level + 1, domain);
      return;
    }
  }
}

void SpareChoice::Take(const PlacementTree& tree, uint32_t node) {
  ++taken_[node];
  if (room_[0][node] == 0) {
    return;  // it stays on a node that nobody else may be placed on
  }
  uint32_t domain = node;
  --room_[0][domain];
  for (size_t level = 0; level < tree.root_level(); ++level) {
    domain = tree.Parent(level, domain);
    --room_[level + 1][domain];
  }
}

uint32_t SpareChoice::NodeIn(const PlacementTree& tree, size_t level, uint32_t domain) const {
  uint32_t begin = domain;
  uint32_t end = domain + 1;
  for (; level > 0; --level) {
    begin = tree.FirstChild(level, begin);
    end = tree.FirstChild(level, end);
  }
  uint32_t best = end;
  for (uint32_t node = begin; node < end; ++node) {
    const auto rank = [&](uint32_t of) { return std::tuple(taken_[of], room_[0][of]); };
    if (room_[0][node] > 0 && (best == end || rank(node) < rank(best))) {
      best = node;
    }
  }
  return best;
}

void SpareChoice::Cover(const PlacementTree& tree, size_t level, uint32_t domain) {
  const int64_t covered = alone_[level][domain];
  uint32_t above = domain;
  for (size_t at = level; at < tree.root_level(); ++at) {
    above = tree.Parent(at, above);
    alone_[at + 1][above] -= covered;
  }
  std::pair<uint32_t, uint32_t> range = {domain, domain + 1};
  for (size_t at = level;; --at) {
    std::fill(alone_[at].begin() + range.first, alone_[at].begin() + range.second, 0);
    if (at == 0) {
      return;
    }
    range = {tree.FirstChild(at, range.first), tree.FirstChild(at, range.second)};
  }
}

}  // namespace asterism::scheduler
