// File: topology/import/kubernetes_documents.h
//
// Objects of clusters as YAML or JSON: Nodes with their labels, HyperNodes of Volcano, Topologies
// of Kueue, ClusterNetworkTopologies of Koordinator, discovery configurations of Volcano, models of
// topograph; and the text of `kubectl get nodes --show-labels`.
//
//   ASSIGN_OR_RETURN(std::optional<Imported> imported, ImportKubernetes(name, documents));
//
// Nothing: none of the documents is of these kinds.
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

absl::StatusOr<std::optional<Imported>> ImportKubernetes(
    std::string_view name, const std::vector<DocumentNode>& documents);

bool LooksLikeShowLabels(std::string_view head);
absl::StatusOr<Imported> ImportShowLabels(std::string_view name, std::string_view text);

// Counts and levels of labelled nodes, as a summary.
void SummariseNodes(Imported& imported);

}  // namespace asterism::topology
