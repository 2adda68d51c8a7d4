// File: topology/topology_keeper.h
//
// Merges what all sources say about a cluster into immutable snapshots: nodes of Kubernetes,
// agents, dumps of subnet managers, labels. It never loses capacity because a source is silent,
// empty or wrong: what was known stays until it is contradicted, and a change of many nodes at once
// waits.
//
//   TopologyKeeper keeper(options);
//   keeper.PutNodes(labelled_nodes, now);
//   keeper.PutReport(report, now);
//   keeper.PutFabric("ibnetdiscover", std::move(fabric), now);
//   std::shared_ptr<const TopologySnapshot> snapshot = keeper.snapshot();
//
// Rules, each with a property test: agents before subnet managers before labels; of equal ranks the
// newer one, with a finding; GUIDs before names; a node that is not listed any more leaves after
// kListingsToForget good listings; an update that would move more than `moves_max` of the nodes is
// held until it is seen again or confirmed.
//
// Thread-safety: none; snapshots are immutable. Cost: a report that changes no domain copies the
// conditions (microseconds); everything else rebuilds (12,800 nodes: tens of milliseconds).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "base/strings.h"
#include "topology/cluster.h"
#include "topology/fabric.h"
#include "topology/fabric_merge.h"
#include "topology/finding.h"
#include "topology/node_labels.h"
#include "topology/node_report.h"

namespace asterism::topology {

inline constexpr int kListingsToForget = 3;

// What a level between the node and the cluster is made of.
struct LevelSource {
  enum class Kind : uint8_t {
    kAuto,       // the first of the others that yields something
    kNvlink,     // NVLink domains
    kLeafGroup,  // leaf groups of the fabric
    kSlice,      // slices of `slice_nodes` within a leaf group
    kTier,       // leaf groups that share switches of the first tier above
    kLabel,      // the value of `label`
  };
  std::string name;
  Kind kind = Kind::kAuto;
  std::string label;
  size_t slice_nodes = 4;
};

struct KeeperOptions {
  std::vector<LevelSource> levels = {{.name = "supernode"}};  // inner to outer
  absl::Duration report_ttl = absl::Seconds(90);              // three beats of an agent
  absl::Duration fabric_ttl = absl::Hours(24);
  double moves_max = 0.05;  // share of the nodes that one update may move
};

struct NodeCondition {
  NodeHealth health = NodeHealth::kUnknown;
  bool stale = false;      // the agent was heard, and is silent now
  uint32_t rail_mask = 0;  // bit r: rail r has a link; 0: not known
  uint32_t gpu_count = 0;  // 0: not known
  uint32_t bad_links = 0;
};

struct TopologySnapshot {
  uint64_t generation = 0;
  std::shared_ptr<const Cluster> cluster;
  // By NodeId of `cluster`.
  std::shared_ptr<const std::vector<NodeCondition>> conditions;
  std::shared_ptr<const std::vector<Finding>> findings;
  bool change_held = false;
};

class TopologyKeeper {
 public:
  explicit TopologyKeeper(KeeperOptions options);

  // All nodes that there are, with what their labels say. A listing without any node is no listing.
  void PutNodes(std::vector<LabelledNode> nodes, absl::Time now);
  // Reports of an older generation of the same boot are ignored.
  void PutReport(NodeReport report, absl::Time now);
  // Many at once, with one new snapshot: after a start all agents speak.
  void PutReports(std::vector<NodeReport> reports, absl::Time now);
  // A fabric without a switch is no answer, and changes nothing but the age.
  void PutFabric(std::string source, Fabric fabric, absl::Time now);
  // Takes a node out at once: an operator said so.
  void RemoveNode(std::string_view node);
  // Publishes what is held.
  void Confirm();
  // Marks what became stale.
  void Tick(absl::Time now);

  std::shared_ptr<const TopologySnapshot> snapshot() const { return snapshot_; }

 private:
  struct Member {
    LabelledNode labels;
    int absences = 0;  // good listings in a row without it
    std::optional<NodeReport> report;
    absl::Time heard;
    std::string last_domain;  // NVLink, last known
  };
  using Paths = std::map<std::string, std::vector<std::string>, std::less<>>;

  enum class Effect : uint8_t { kNone, kCondition, kRebuild };

  Effect TakeReport(NodeReport report, absl::Time now);
  void PublishCondition(std::string_view name, absl::Time now);
  void Rebuild(absl::Time now);
  void CollectOwners();
  void AnalyzeFabrics();
  Paths ProposePaths();
  bool AddLevel(const LevelSource& level, size_t index, Paths& paths);
  bool AddDeclared(size_t index, Paths& paths) const;
  bool AddNvlink(size_t index, Paths& paths) const;
  bool AddLeafGroups(size_t index, Paths& paths) const;
  bool AddSlices(const LevelSource& level, size_t index, Paths& paths);
  bool AddTiers(size_t index, Paths& paths) const;
  bool AddLabels(const LevelSource& level, size_t index, Paths& paths) const;
  void AddByName(const LevelSource& level, size_t index, Paths& paths);
  bool IsMassChange(const Paths& paths) const;
  void Publish(Paths paths, absl::Time now);
  void PublishConditions(absl::Time now);
  std::vector<NodeCondition> Conditions(const Cluster& cluster, absl::Time now) const;
  std::vector<Finding> Findings(absl::Time now) const;
  NodeCondition ConditionOf(const Member& member, std::string_view name, absl::Time now) const;

  const KeeperOptions options_;
  std::map<std::string, Member, std::less<>> members_;
  FabricMerge fabrics_;
  GuidOwners owners_;  // of the cards that agents reported
  // Places in slices: nodes by leaf group, and the place of each node.
  struct Seat {
    std::string group;
    size_t number = 0;
  };
  std::map<std::string, std::vector<std::string>, std::less<>> slots_;
  base::StringMap<Seat> seats_;

  Paths published_;
  std::optional<Paths> held_;
  std::shared_ptr<const TopologySnapshot> snapshot_;
};

}  // namespace asterism::topology
