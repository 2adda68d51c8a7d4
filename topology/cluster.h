// File: topology/cluster.h
//
// The cluster as a tree of levels: an immutable model with dense ids. Level 0 is the innermost
// (the node), the last level is the whole cluster. Node ids are given out in topology order, so the
// nodes of a domain of any level are one half-open range, and near ids are near nodes. Domains of
// one level may have any sizes; there are 1 to 16 levels.
//
//   Cluster cluster = BuildCluster(levels, nodes);
//   NodeRange range = cluster.NodesOf(1, cluster.DomainOf(1, node));
//
// A node without a value for a level is in a domain of its own there, marked `named = false`: it
// counts as capacity, but no gang that requires the level may use it.
//
// Thread-safety: immutable after construction. Cost: look-ups O(1); names O(1) by hash; building
// sorts the nodes: about 1 us a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/strings.h"

namespace asterism::topology {

using NodeId = base::Id<struct NodeTag>;
using DomainId = base::Id<struct DomainTag>;  // dense within its level

inline constexpr size_t kLevelsMax = 16;

// What a source said about one node.
struct NodeFacts {
  std::string name;
  // One value a level from 1 to the last but one; empty: not known. Level 0 is the node itself, the
  // last level is the cluster.
  std::vector<std::string> domains;
};

struct NodeRange {
  NodeId begin;
  NodeId end;
  size_t size() const { return end.index() - begin.index(); }
};

class Cluster {
 public:
  size_t level_count() const { return level_names_.size(); }
  size_t node_count() const { return node_names_.size(); }
  const std::string& level_name(size_t level) const { return level_names_[level]; }
  std::optional<size_t> FindLevel(std::string_view name) const;

  const std::string& node_name(NodeId node) const { return node_names_[node.index()]; }
  NodeId FindNode(std::string_view name) const;  // invalid when absent

  size_t domain_count(size_t level) const { return levels_[level].domains.size(); }
  DomainId DomainOf(size_t level, NodeId node) const {
    return DomainId(levels_[level].domain_of_node[node.index()]);
  }
  NodeRange NodesOf(size_t level, DomainId domain) const;
  // By domain of `level`, which is not the last: its parent, a domain of the level above.
  std::span<const uint32_t> Parents(size_t level) const { return levels_[level].parent; }
  // By domain of `level` >= 1, and one past the last: its first child, a domain of the level below.
  // Children of a domain are consecutive.
  std::span<const uint32_t> FirstChildren(size_t level) const { return levels_[level].first_child; }
  bool named(size_t level, DomainId domain) const;
  // Unique within its level: the source's value, with the parent's name before it where two parents
  // use the same value. "unnamed-<node>" for a domain without a value.
  const std::string& domain_name(size_t level, DomainId domain) const;

 private:
  friend class ClusterBuilder;
  struct Domain {
    std::string name;
    uint32_t begin = 0;
    uint32_t end = 0;
    bool named = true;
  };
  struct Level {
    std::vector<Domain> domains;
    std::vector<uint32_t> domain_of_node;
    std::vector<uint32_t> parent;       // by domain
    std::vector<uint32_t> first_child;  // by domain, and the end
  };

  std::vector<std::string> level_names_;
  std::vector<std::string> node_names_;
  base::StringMap<uint32_t> node_by_name_;
  std::vector<Level> levels_;
};

// `level_names`: inner to outer, 1 to kLevelsMax, unique, [a-z0-9-]{1,32}. Node names unique.
// The order of `nodes` does not matter: same set, same result.
absl::StatusOr<Cluster> BuildCluster(std::vector<std::string> level_names,
                                     std::vector<NodeFacts> nodes);

}  // namespace asterism::topology
