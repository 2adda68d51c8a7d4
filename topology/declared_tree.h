// File: topology/declared_tree.h
//
// A topology that somebody declared by names: switches with children and nodes, as Slurm, Volcano
// and topograph write them, and flat blocks. Checked here: children that are there, one leaf for a
// node, no cycle, no empty leaf.
//
//   DeclaredTree tree;
//   tree.Add("spine", {"leaf1", "leaf2"}, {}, 1);
//   const TreeCheck check = CheckTree(tree);
//   check.reasons;   // empty: it is a forest
//
// Thread-safety: values; functions are pure. Cost: linear in names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "topology/cluster.h"

namespace asterism::topology {

struct DeclaredSwitch {
  std::string name;
  std::vector<std::string> children;
  std::vector<std::string> nodes;
  uint32_t line = 0;
};

struct DeclaredBlock {
  std::string name;
  std::vector<std::string> nodes;
  uint32_t line = 0;
};

struct DeclaredTree {
  std::vector<DeclaredSwitch> switches;
  std::vector<DeclaredBlock> blocks;
  std::vector<uint32_t> block_sizes;
};

struct TreeProblem {
  uint32_t line = 0;
  std::string text;  // "undefined child l9"
};

struct TreeCheck {
  std::vector<TreeProblem> reasons;  // why it is no forest
  std::vector<std::string> roots;
  size_t leaf_count = 0;  // switches with nodes
  size_t levels = 0;      // of switches on the longest way; 0 with a cycle
  size_t multi_parent = 0;
  size_t node_count = 0;  // distinct
  bool cycle = false;
};

TreeCheck CheckTree(const DeclaredTree& tree);

// Why blocks cannot be used: a size that is not the smallest times a power of two, a node twice.
std::vector<TreeProblem> CheckBlocks(const DeclaredTree& tree);

// The tree as facts of nodes, for BuildCluster: level names inner to outer ("node", "leaf",
// "tier-2", ..., "cluster"). Leafs are aligned at level 1; a shorter branch has no value at the
// levels it lacks. The tree passed CheckTree.
struct DeclaredFacts {
  std::vector<std::string> levels;
  std::vector<NodeFacts> nodes;
};
DeclaredFacts FactsOfTree(const DeclaredTree& tree);
DeclaredFacts FactsOfBlocks(const DeclaredTree& tree);

}  // namespace asterism::topology
