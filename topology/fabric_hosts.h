// File: topology/fabric_hosts.h
//
// First half of the analysis of a fabric: adapters become hosts, ports become compute ports, and
// switches become leafs. fabric_analysis.h calls it and explains the rules.
//
//   FindFabricHosts(fabric, ports, owners, analysis);
//
// Thread-safety: pure. Cost: linear in the links.
#pragma once

#include "topology/fabric_analysis.h"

namespace asterism::topology {

// Fills hosts (without groups), nameless adapters, leafs (with compute ports) and the modal values.
void FindFabricHosts(const Fabric& fabric, const PortTable& ports, const GuidOwners& owners,
                     FabricAnalysis& analysis);

// The value that occurs most often; the larger one on a tie; 0 for none.
uint32_t ModeOf(const std::vector<uint32_t>& values);

}  // namespace asterism::topology
