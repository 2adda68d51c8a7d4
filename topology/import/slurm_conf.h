// File: topology/import/slurm_conf.h
//
// topology.conf of Slurm: switches as a tree, blocks, and the SHARP form of cloud scripts, where
// nodes are port GUIDs and every switch lists its parent among its children.
//
//   ASSIGN_OR_RETURN(Imported imported, ImportSlurmConf(name, text));
//
// Grammar (slurm.conf(5), topology.conf(5)): SwitchName= Switches=|Nodes=, BlockName= Nodes=,
// BlockSizes=; LinkSpeed has no meaning; # begins a comment. Refused with every reason: an
// undefined child, a node on two leafs, an empty leaf, a cycle of two switches, sizes that are no
// powers. A generated file whose switches have several parents is taken in part: its leafs are
// right.
//
// Thread-safety: pure. Cost: linear in the names.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/imported.h"

namespace asterism::topology {

bool LooksLikeSlurmConf(std::string_view head);
absl::StatusOr<Imported> ImportSlurmConf(std::string_view name, std::string_view text);

// `node: 0xGUID`, `H-<guid> node` or `node: UUID`, one a line, as operators keep beside dumps.
bool LooksLikeGuidList(std::string_view head);
absl::StatusOr<Imported> ImportGuidList(std::string_view name, std::string_view text);

// The leaf groups of a SHARP tree once its port GUIDs are joined with their owners: leafs with
// equal sets of hosts are one.
DeclaredTree JoinSharp(const DeclaredTree& sharp, const GuidOwners& owners);

}  // namespace asterism::topology
