#include "scheduler/cluster_change.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace asterism::scheduler {
namespace {

using topology::Cluster;
using topology::NodeFacts;

constexpr size_t kShownNameMax = 64;

absl::Status NoSuchNode(std::string_view field, std::string_view name) {
  return absl::InvalidArgumentError(
      fmt::format("{}: \"{}\" is no GPU node of this cluster: see `kubectl asterism topology`",
                  field, name.substr(0, kShownNameMax)));
}

// What a source would have said about a node of the model.
std::vector<std::string> DomainsOf(const Cluster& cluster, NodeId node) {
  std::vector<std::string> domains;
  for (size_t level = 1; level + 1 < cluster.level_count(); ++level) {
    const topology::DomainId domain = cluster.DomainOf(level, node);
    domains.push_back(cluster.named(level, domain) ? cluster.domain_name(level, domain) : "");
  }
  return domains;
}

// The domains of a node in the named domain of the innermost level above the node; a new one lies
// where the node to be copied lies.
std::vector<std::string> DomainsIn(const Cluster& cluster, const std::string& domain,
                                   std::vector<std::string> of_like_node) {
  for (size_t index = 0; index < cluster.domain_count(1); ++index) {
    const topology::DomainId id(index);
    if (cluster.named(1, id) && cluster.domain_name(1, id) == domain) {
      return DomainsOf(cluster, cluster.NodesOf(1, id).begin);
    }
  }
  of_like_node.front() = domain;
  return of_like_node;
}

NodeId FindLikeNode(const ClusterChange& change, const LedgerImage& image) {
  if (!change.like_node.empty()) {
    const NodeId node = image.cluster->FindNode(change.like_node);
    return node.valid() && image.nodes[node.index()].known ? node : NodeId();
  }
  const auto known = std::find_if(image.nodes.begin(), image.nodes.end(),
                                  [](const ImageNode& node) { return node.known; });
  return known == image.nodes.end() ? NodeId()
                                    : NodeId(static_cast<size_t>(known - image.nodes.begin()));
}

absl::Status CheckAdded(const ClusterChange& change, const LedgerImage& image) {
  if (change.count < 1 || change.count > kAddedNodesMax) {
    return absl::InvalidArgumentError(
        fmt::format("add_nodes.count: {} is not from 1 to {}: say how many nodes come",
                    change.count, kAddedNodesMax));
  }
  if (image.nodes.size() + static_cast<size_t>(change.count) > kImageNodesMax) {
    return absl::InvalidArgumentError(fmt::format(
        "add_nodes.count: the cluster would have more than {} nodes: add fewer", kImageNodesMax));
  }
  if (!change.domain.empty() && image.cluster->level_count() < 3) {
    return absl::InvalidArgumentError(
        "add_nodes.domain: this cluster has no level between the node and the whole: leave it out");
  }
  return absl::OkStatus();
}

absl::Status AddNodes(const ClusterChange& change, LedgerImage& image) {
  RETURN_IF_ERROR(CheckAdded(change, image));
  const Cluster& before = *image.cluster;
  const NodeId like = FindLikeNode(change, image);
  if (!like.valid()) {
    return NoSuchNode("add_nodes.like_node", change.like_node);
  }
  std::vector<std::string> levels;
  for (size_t level = 0; level < before.level_count(); ++level) {
    levels.push_back(before.level_name(level));
  }
  std::vector<NodeFacts> facts;
  for (size_t index = 0; index < before.node_count(); ++index) {
    facts.push_back({before.node_name(NodeId(index)), DomainsOf(before, NodeId(index))});
  }
  std::vector<std::string> domains = DomainsOf(before, like);
  if (!change.domain.empty()) {
    domains = DomainsIn(before, change.domain, std::move(domains));
  }
  ImageNode added = image.nodes[like.index()];
  added.used = ResourceVector();
  added.usable = true;
  int64_t number = 0;
  for (int64_t left = change.count; left > 0;) {
    std::string name = fmt::format("added-{:04}", ++number);
    if (!before.FindNode(name).valid()) {
      facts.push_back({std::move(name), domains});
      --left;
    }
  }
  ASSIGN_OR_RETURN(Cluster after, topology::BuildCluster(std::move(levels), std::move(facts)));
  std::vector<ImageNode> nodes(after.node_count());
  for (size_t index = 0; index < nodes.size(); ++index) {
    const NodeId old = before.FindNode(after.node_name(NodeId(index)));
    nodes[index] = old.valid() ? image.nodes[old.index()] : added;
  }
  image.nodes = std::move(nodes);
  image.cluster = std::make_shared<const Cluster>(std::move(after));
  return absl::OkStatus();
}

std::string_view FieldOf(ClusterChangeKind kind) {
  switch (kind) {
    case ClusterChangeKind::kRemoveNodes:
      return "remove_nodes";
    case ClusterChangeKind::kCordonNodes:
      return "cordon_nodes";
    case ClusterChangeKind::kUncordonNodes:
      return "uncordon_nodes";
    case ClusterChangeKind::kAddNodes:
      break;
  }
  return "add_nodes";
}

absl::Status Apply(const ClusterChange& change, LedgerImage& image) {
  if (change.kind == ClusterChangeKind::kAddNodes) {
    return AddNodes(change, image);
  }
  std::vector<size_t> indices;
  for (const std::string& name : change.nodes) {
    const NodeId node = image.cluster->FindNode(name);
    if (!node.valid() || !image.nodes[node.index()].known) {
      return NoSuchNode(FieldOf(change.kind), name);
    }
    indices.push_back(node.index());
  }
  for (const size_t index : indices) {
    if (change.kind == ClusterChangeKind::kRemoveNodes) {
      image.nodes[index] = ImageNode();
    } else {
      image.nodes[index].usable = change.kind == ClusterChangeKind::kUncordonNodes;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyChange(const ClusterChange& change, LedgerImage& image) {
  const absl::Status status = Apply(change, image);
  if (status.ok() || change.field.empty()) {
    return status;
  }
  return absl::Status(status.code(),
                      fmt::format("{}.{}", change.field, base::ToStd(status.message())));
}

}  // namespace asterism::scheduler
