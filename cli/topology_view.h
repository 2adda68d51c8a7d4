// File: cli/topology_view.h
//
// The tree of levels as lines for people. Equal domains share a line, so that 10,240 GPUs fit a
// screen:
//
//   cluster, 1280 nodes: 8184 of 10240 GPUs free, 2048 held, 8 faulty
//     255 supernodes, each 4 nodes: 32 of 32 GPUs free  s[000-254]
//     64 supernodes, each 4 nodes: 0 of 32 GPUs free, 32 held  s[255-318]
//     supernode s319, 4 nodes: 24 of 32 GPUs free, 8 faulty
//
//   std::vector<Line> lines = TopologyLines(tree, {.level = tree.FindLevel("node")});
//
// Without a level the tree ends above the nodes, if there is a level between them and the last.
// With one it lists every domain down to it.
//
// Thread-safety: pure. Cost: O(domains log domains).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cli/styled_text.h"
#include "cli/topology_tree.h"

namespace asterism::cli {

struct TopologyViewOptions {
  std::optional<size_t> level;  // unfold down to here
  bool wide = false;            // unfold all, with jobs
};

std::vector<Line> TopologyLines(const TopologyTree& tree, const TopologyViewOptions& options);

}  // namespace asterism::cli
