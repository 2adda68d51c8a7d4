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
// Where nodes are comes from a TopologyKeeper: labels of the nodes, and what agents and dumps of
// fabrics say (PutReport, PutFabric). A rebuilt model is made once for a batch of events, not once
// an event. Running gangs keep their nodes whatever the topology becomes.
//
// A node that its agent measures as unhealthy takes no new gang, until the agent says otherwise or
// is silent for longer than its time.
//
// Only what GPU nodes offer gets a resource slot. Whatever else pods ask for is left to
// kube-scheduler, until a node brings it: then the pods that were seen before are counted again.
//
// Thread-safety: none; lives on the core executor. Views may be read anywhere.
// Cost: OnPod O(resources); OnNode O(labels) when the node changed; Refresh O(nodes log nodes) when
// nodes came, went or moved, else nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/snapshot.h"
#include "base/strings.h"
#include "kube/informer.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "operator/gang_shape.h"
#include "operator/node_class_table.h"
#include "operator/node_gpu_counts.h"
#include "operator/template_fit.h"
#include "scheduler/ledger.h"
#include "scheduler/resources.h"
#include "topology/node_labels.h"
#include "topology/node_report.h"
#include "topology/topology_keeper.h"

namespace asterism::operators {

struct LevelSource {
  std::string name;
  std::string label;  // of kLabel; empty for the first level (the node) and the last (the cluster)
  topology::LevelSource::Kind kind = topology::LevelSource::Kind::kLabel;
  size_t slice_nodes = 4;
};

// A pod of a gang. Its owner and its name say so, which cannot be changed; its labels and
// annotations are for others to read, and anybody with the right to patch pods may change them.
struct GangPodMark {
  std::string job_uid;
  int64_t first_rank = 0;
  int64_t epoch = 0;
};
// False for a pod that no TrainingJob owns, or that has not the name of a gang's pod.
bool ReadGangPodMark(const kube::Pod& pod, GangPodMark& mark);

class ClusterFeed {
 public:
  struct Options {
    std::vector<LevelSource> levels;          // inner to outer
    std::vector<std::string> resource_names;  // extended resources that count GPUs
    std::vector<NodeRequirement>
        node_selector;  // of GPU nodes; empty: all that have such a resource
    // Its levels are those above.
    topology::KeeperOptions topology;
  };

  ClusterFeed(Options options, base::SnapshotCell<scheduler::LedgerView>& cell);

  void OnNode(const kube::Change<kube::Node>& change);
  void OnPod(const kube::Change<kube::Pod>& change);

  // What the agent of a node measured, and that it is still there. Visible after Refresh.
  void PutReport(topology::NodeReport report, absl::Time now);
  void Hear(std::string_view node, absl::Time now) { topology_.Hear(node, now); }
  // Which of its GPUs are near each other, and which are taken. None: they are alike.
  void PutGpuIslands(const std::string& node, scheduler::GpuIslands islands);
  void PutFabric(std::string source, topology::Fabric fabric, absl::Time now);
  // Each few seconds: what became stale, and what was held long enough.
  void Tick(absl::Time now);
  // Lets a change of many nodes pass that is held.
  void ConfirmTopology() { topology_.Confirm(); }
  const topology::TopologyKeeper& topology() const { return topology_; }

  // Rebuilds the model after events.
  void Refresh();
  // Refresh, then a new view for the extender.
  void Publish();

  scheduler::Ledger& ledger() { return ledger_; }
  const scheduler::Ledger& ledger() const { return ledger_; }
  scheduler::ResourceTable& resources() { return resources_; }
  const scheduler::ResourceTable& resources() const { return resources_; }
  // Asking it which nodes a template accepts may put nodes of the ledger into other classes.
  NodeClassTable& node_classes() { return node_classes_; }
  // A bitmap over the classes is valid until this changes.
  uint64_t class_version() const { return node_classes_.version(); }

  // Known to the API server at this moment.
  bool HasNode(std::string_view name) const { return nodes_.find(name) != nodes_.end(); }
  bool NodeReady(std::string_view name) const;
  // Belongs to the model: it has GPUs and matches the selector.
  bool IsGpuNode(std::string_view name) const;
  // Measured as unfit for a new gang.
  bool IsUnhealthy(std::string_view name) const {
    return HealthOf(name) == topology::NodeHealth::kUnhealthy;
  }
  size_t unhealthy_count() const;
  // Closed to other schedulers by the taint kManagedTaint.
  bool IsClosed(std::string_view name) const;
  // Closed, Ready and not cordoned, and neither its labels nor its taints are against the template:
  // a pod that is created with its name will start there.
  bool TakesBoundPods(std::string_view name, const TemplateFit& fit) const;
  // Its holders together want more than it has: somebody came first.
  bool IsOverbooked(std::string_view name) const;
  // Its agent offers the way to it (kPortResource), and has some left: pods do without it rather
  // than wait for one.
  bool OffersPort(std::string_view name) const;
  // Over the nodes that have the resource, counted by capacity: an unhealthy GPU makes no node
  // smaller. Zeros for a name that is not one of `resource_names`. O(resource names).
  NodeGpus GpusOfNode(std::string_view resource_name) const;
  // GPUs of all nodes of the model, by capacity; "" stands for nodes without a product. O(nodes).
  std::map<std::string, int64_t> GpusByProduct() const;
  size_t gpu_node_count() const { return gpu_nodes_; }

 private:
  struct NodeEntry {
    std::vector<int64_t> gpus;  // by resource name, of its capacity
    std::string product;
    bool ready = false;
    bool gpu_node = false;
    bool closed = false;
    bool usable = false;
    // Offered, and no pod was refused for it since kubelet last told about the node.
    bool port = false;
  };

  bool HasGpus(const kube::Node& node) const;
  const NodeEntry* FindEntry(std::string_view name) const;
  void RemoveNode(const std::string& name);
  void CountGpus(const NodeEntry& before, const NodeEntry& after);
  void SetLedgerNode(const kube::Node& node, uint32_t node_class);
  // Slots for what the node offers, and the pods counted again that asked for it before.
  void GiveSlots(const kube::Node& node);
  void PutPod(const kube::Shared<kube::Pod>& pod);
  std::vector<int64_t> GpusOf(const kube::ResourceAmounts& amounts) const;
  topology::LabelledNode LabelledNodeOf(const kube::Node& node) const;
  void TakeHealth(const topology::TopologySnapshot& snapshot);
  // kHealthy where nobody says otherwise.
  topology::NodeHealth HealthOf(std::string_view name) const;

  const Options options_;
  base::SnapshotCell<scheduler::LedgerView>& cell_;
  scheduler::ResourceTable resources_;
  scheduler::Ledger ledger_;
  NodeClassTable node_classes_;
  base::StringMap<NodeEntry> nodes_;
  std::vector<NodeGpuCounts> gpu_counts_;  // by resource name
  // By uid: pods that ask for something that has no slot.
  std::map<std::string, kube::Shared<kube::Pod>> pods_without_slot_;
  size_t gpu_nodes_ = 0;
  topology::TopologyKeeper topology_;
  std::vector<topology::NodeReport> reports_;  // for the next Refresh
  absl::Time reports_time_;
  std::shared_ptr<const topology::TopologySnapshot> taken_;  // what the ledger knows
  base::StringMap<scheduler::GpuIslands> gpu_islands_;       // of split nodes
  base::StringMap<topology::NodeHealth> ailing_;             // nodes that are unhealthy or degraded
};

}  // namespace asterism::operators
