// File: topology/import/cloud_documents.h
//
// Answers of clouds and of managers of fabrics as JSON: AWS DescribeInstanceTopology, GCP
// instances, OCI compute hosts and instance metadata, Lambda, UFM ports, NetQ graphs and compute
// nodes, lldpd, ToR lists of Ascend.
//
//   ASSIGN_OR_RETURN(std::optional<Imported> imported, ImportCloud(name, documents));
//
// Nothing: none of these. Directions differ (AWS lists the outermost first, Lambda the innermost);
// here all levels come out from the inside outwards. Wrong types and empty values are "not known".
//
// Thread-safety: pure. Cost: linear in the documents.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/import/document_tree.h"
#include "topology/import/imported.h"

namespace asterism::topology {

absl::StatusOr<std::optional<Imported>> ImportCloud(std::string_view name,
                                                    const std::vector<DocumentNode>& documents);

}  // namespace asterism::topology
