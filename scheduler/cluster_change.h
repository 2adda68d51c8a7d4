// File: scheduler/cluster_change.h
//
// Changes that somebody wonders about ("and if four more nodes came?"), applied to an image of the
// ledger.
//
//   LedgerImage image(ledger);
//   RETURN_IF_ERROR(ApplyChange({.kind = ClusterChangeKind::kAddNodes, .count = 4,
//                                .like_node = "gpu-0007"}, image));
//
// An added node is free, and in all else like one that is there; it stands in that node's domains,
// or in another domain of the innermost level above the node. A removed node takes its room with
// it, and what ran there is not placed anew. A cordoned node keeps what it holds and gets nothing
// new; an uncordoned one is usable whatever its state is, as if it were repaired.
//
// Thread-safety: pure. Cost: O(named nodes); adding nodes builds the model anew, about 2 us a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/ledger_image.h"

namespace asterism::scheduler {

enum class ClusterChangeKind { kAddNodes, kRemoveNodes, kCordonNodes, kUncordonNodes };

struct ClusterChange {
  ClusterChangeKind kind = ClusterChangeKind::kAddNodes;
  std::vector<std::string> nodes;  // which ones; not of kAddNodes
  // Of kAddNodes:
  int64_t count = 0;      // 1 to kAddedNodesMax
  std::string like_node;  // empty: the first node of the cluster that is known
  std::string domain;     // empty: that of like_node; a name that is new makes a new domain
  // Where it was asked for, for errors: "changes[3]". May be empty.
  std::string field;
};

inline constexpr int64_t kAddedNodesMax = 4096;
// No image grows beyond it.
inline constexpr size_t kImageNodesMax = 200'000;

// kInvalidArgument names the field of the change and the remedy; the image is unchanged then.
absl::Status ApplyChange(const ClusterChange& change, LedgerImage& image);

}  // namespace asterism::scheduler
