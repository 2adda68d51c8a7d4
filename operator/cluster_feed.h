// File: operator/cluster_feed.h
//
// The way from the watch to the ledger: turns nodes and pods of Kubernetes into the plain facts
// that topology and scheduler understand, and publishes the ledger for the extender.
//
//   ClusterFeed feed({.levels = ..., .resource_names = {"nvidia.com/gpu"}}, view_cell);
//   feed.OnNode(change);  feed.OnPod(change);
//   feed.Refresh();                 // before a decision: the model is up to date afterwards
//   feed.ledger().PutGang(...);  feed.Publish();
//
// Topology comes from the labels that the configuration names per level. A rebuilt model is made
// once for a batch of node events, not once an event.
//
// Thread-safety: none; lives on the core executor. Views may be read anywhere.
// Cost: OnPod O(resources); Refresh O(nodes log nodes) when nodes came, went or moved, else
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/snapshot.h"
#include "kube/informer.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "operator/gang_shape.h"
#include "operator/template_fit.h"
#include "scheduler/ledger.h"
#include "scheduler/resources.h"

namespace asterism::operators {

struct LevelSource {
  std::string name;
  std::string label;  // empty for the first level (the node) and the last (the cluster)
};

// A pod of a gang, as its labels and annotations say.
struct GangPodMark {
  std::string job_uid;
  int64_t first_rank = 0;
  int64_t last_rank = 0;
  int64_t epoch = 0;
};
// False when the pod carries no job-uid label or a malformed mark, or when owner and name do not
// bear it out: labels can be written by anybody.
bool ReadGangPodMark(const kube::Pod& pod, GangPodMark& mark);

class ClusterFeed {
 public:
  struct Options {
    std::vector<LevelSource> levels;          // inner to outer
    std::vector<std::string> resource_names;  // extended resources that count GPUs
    std::vector<NodeRequirement>
        node_selector;  // of GPU nodes; empty: all that have such a resource
  };

  ClusterFeed(Options options, base::SnapshotCell<scheduler::LedgerView>& cell);

  void OnNode(const kube::Change<kube::Node>& change);
  void OnPod(const kube::Change<kube::Pod>& change);

  // Rebuilds the model after node events.
  void Refresh();
  // Refresh, then a new view for the extender.
  void Publish();

  scheduler::Ledger& ledger() { return ledger_; }
  const scheduler::Ledger& ledger() const { return ledger_; }
  scheduler::ResourceTable& resources() { return resources_; }
  const NodeClassTable& node_classes() const { return node_classes_; }
  // Rises whenever a class was added: cached bitmaps over classes are then too short.
  size_t node_class_count() const { return node_classes_.size(); }

  // Known to the API server at this moment.
  bool HasNode(std::string_view name) const { return nodes_.contains(std::string(name)); }
  bool NodeReady(std::string_view name) const;
  // Over the nodes that have the resource, counted by capacity: an unhealthy GPU makes no node
  // smaller.
  NodeGpus GpusOfNode(std::string_view resource_name) const;
  // Whether the node belongs to the model (it has GPUs and matches the selector).
  size_t gpu_node_count() const { return gpu_nodes_; }

 private:
  struct NodeEntry {
    std::vector<std::string> domains;
    kube::ResourceAmounts capacity;
    bool ready = false;
    bool gpu_node = false;
  };

  bool IsGpuNode(const kube::Node& node) const;
  scheduler::ResourceVector ToVector(const kube::ResourceAmounts& amounts);

  const Options options_;
  base::SnapshotCell<scheduler::LedgerView>& cell_;
  scheduler::ResourceTable resources_;
  scheduler::Ledger ledger_;
  NodeClassTable node_classes_;
  std::map<std::string, NodeEntry> nodes_;
  size_t gpu_nodes_ = 0;
  bool model_stale_ = true;
};

}  // namespace asterism::operators
