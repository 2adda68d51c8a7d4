// File: topology/export_text.h
//
// A cluster in the words of others: labels of nodes (ours and those of topograph), Slurm's
// topology.conf as tree or blocks, HyperNodes of Volcano, a Topology of Kueue. What is written
// reads back as the same domains; directions are converted here only.
//
//   const std::string conf = SlurmTree(cluster);
//   for (const NodeLabels& node : DomainLabels(cluster)) ...
//
// Unnamed domains are left out: they stand for "not known". Names that a format does not allow
// become 'x' and 16 hexadecimal digits of their FNV-1a hash, as topograph does.
//
// Thread-safety: pure. Cost: linear in nodes and levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/cluster.h"

namespace asterism::topology {

struct NodeLabels {
  std::string node;
  std::vector<std::pair<std::string, std::string>> labels;
};

// asterism.dev/domain-LEVEL, one for each level between the node and the cluster.
std::vector<NodeLabels> DomainLabels(const Cluster& cluster);
// fabric.topograph.run/tier-N, N = 0 the closest.
std::vector<NodeLabels> TopographLabels(const Cluster& cluster);

// SwitchName lines; a node without a leaf is on none.
std::string SlurmTree(const Cluster& cluster);
// BlockName lines of the domains of that level, 1 <= level < level_count - 1. Sizes: the smallest
// block times powers of two, up to the cluster.
std::string SlurmBlocks(const Cluster& cluster, size_t level);

// HyperNodes, tier 1 the closest, and one above all.
std::string HyperNodes(const Cluster& cluster);
// One Topology: the levels outermost first, the host name last.
std::string KueueTopology(const Cluster& cluster, std::string_view name);

// At most 63 of [A-Za-z0-9._-], beginning and ending with a letter or digit.
std::string LabelValue(std::string_view value);

}  // namespace asterism::topology
