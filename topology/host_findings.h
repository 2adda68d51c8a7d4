// File: topology/host_findings.h
//
// What is wrong inside one machine: a GPU outside the links of its board, links fewer than between
// its peers, GPUs that cannot reach each other, a reader that sees a part of the machine only, a
// PCI tree that a hypervisor made up.
//
//   for (const Finding& finding : HostFindings("node-7", host)) ...
//
// Links are compared with the GPU's peers on the same machine, never with a product's data sheet:
// boards with fewer links exist.
//
// Thread-safety: pure. Cost: quadratic in the devices of a machine.
#pragma once

#include <string_view>
#include <vector>

#include "topology/finding.h"
#include "topology/host_topology.h"

namespace asterism::topology {

std::vector<Finding> HostFindings(std::string_view name, const HostTopology& host);

}  // namespace asterism::topology
