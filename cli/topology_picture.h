// File: cli/topology_picture.h
//
// The tree of the cluster as a picture: SVG for a browser, DOT for Graphviz. Domains that are equal
// in all that is shown are drawn once, as a pile with their number, so 10,240 GPUs fit one page.
//
//   std::cout << TopologySvg(tree);
//
// Foreign names are escaped. The same tree gives the same bytes.
//
// Thread-safety: pure. Cost: one pass over the domains.
#pragma once

#include <string>

#include "cli/topology_tree.h"

namespace asterism::cli {

std::string TopologySvg(const TopologyTree& tree);
std::string TopologyDot(const TopologyTree& tree);

}  // namespace asterism::cli
