// File: topology/import/slurm_yaml.h
//
// topology.yaml of Slurm: several named topologies, each a tree, blocks, a ring, a torus or flat.
//
//   ASSIGN_OR_RETURN(std::optional<Imported> imported, ImportSlurmYaml(name, documents));
//
// Format: topology.yaml(5), Slurm 26.05. Nothing: the documents are no such file. Refused with
// every reason, as in slurm_conf.h; shapes that do not fit their torus too.
//
// Thread-safety: pure. Cost: linear in the names.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/import/document_tree.h"
#include "topology/import/imported.h"

namespace asterism::topology {

absl::StatusOr<std::optional<Imported>> ImportSlurmYaml(std::string_view name,
                                                        const std::vector<DocumentNode>& documents);

}  // namespace asterism::topology
