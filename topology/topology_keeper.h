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
//   keeper.PutNode(node);  keeper.DropNode(name);   // of a watch: many, then
//   keeper.Settle();                                // one new snapshot
//
// Rules, each with a property test: agents before subnet managers before labels before what people
// declare; of equal ranks the newer one, with a finding; GUIDs before names; a node that is not
// listed any more leaves after kListingsToForget good listings; of an update that would move more
// than `moves_max` of the nodes the moves are held until they are seen again, or confirmed.
//
// A level whose source is a label that the site names follows that label at once: people write it.
//
// Domains that a former leader has measured and written on nodes (LabelledNode.former) hold until
// they are measured again: a new leader starts with the same domains. Who takes the label off a
// node takes that memory.
//
// Thread-safety: none; snapshots are immutable. Cost: a report that changes no domain copies the
// conditions (microseconds); everything else rebuilds (12,800 nodes: tens of milliseconds).
#pragma once

#include <array>
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
// Reports of nodes that are not listed yet.
inline constexpr size_t kEarlyReportsMax = 16'384;
// One node that moves is no mass change, however small the cluster is.
inline constexpr size_t kMassNodesMin = 2;

// What a level between the node and the cluster is made of.
struct LevelSource {
  enum class Kind : uint8_t {
    kAuto,       // for each node the first of the others that says something
    kNvlink,     // NVLink domains
    kLeafGroup,  // leaf groups of the fabric
    kSlice,      // slices of `slice_nodes` within a leaf group
    kTier,       // leaf groups that share switches of the first tier above
    kLabel,      // the value of `label`
    kDeclared,   // what people declare: asterism.dev/declared-LEVEL
  };
  std::string name;
  Kind kind = Kind::kAuto;
  std::string label;
  size_t slice_nodes = 4;
};

struct KeeperOptions {
  std::string innermost = "node";
  std::vector<LevelSource> levels = {{.name = "supernode"}};  // inner to outer
  std::string outermost = "cluster";                          // empty: the node is the only level
  absl::Duration report_ttl = absl::Seconds(90);              // three beats of an agent
  absl::Duration fabric_ttl = absl::Hours(24);
  double moves_max = 0.05;  // share of the nodes that one update may move
  // What is held is seen again when it is still so after this long.
  absl::Duration hold = absl::ZeroDuration();
  // More GPUs than one NVLink domain can have: such an id is a placeholder, and no domain.
  uint32_t nvlink_gpus_max = 72;
};

struct NodeCondition {
  NodeHealth health = NodeHealth::kUnknown;
  bool stale = false;      // the agent was heard, and is silent now
  uint32_t rail_mask = 0;  // bit r: rail r has a link; 0: not known
  uint32_t gpu_count = 0;  // 0: not known
  uint32_t bad_links = 0;  // NVLinks that are down and are up at peers of the product

  friend bool operator==(const NodeCondition&, const NodeCondition&) = default;
};

// Who says in which domain a node is.
enum class PlaceOrigin : uint8_t {
  kNobody,
  kNvlink,      // its agent, or the label of a tool that has asked the driver
  kFabric,      // a dump of a fabric
  kLabel,       // a label of a cloud, a tool, or the site's choice
  kDeclared,    // people: asterism.dev/declared-LEVEL
  kRemembered,  // a former leader, who had measured it
  kByName,      // nobody: slices in the order of names
};
inline constexpr size_t kPlaceOrigins = 7;
// "nvlink", "fabric", "label", "declared", "remembered", "by-name"; "" for kNobody.
std::string_view PlaceOriginName(PlaceOrigin origin);

struct TopologySnapshot {
  uint64_t generation = 0;  // rises with each change
  std::shared_ptr<const Cluster> cluster;
  // By NodeId of `cluster`.
  std::shared_ptr<const std::vector<NodeCondition>> conditions;
  // Of the levels between the node and the cluster: origins[level - 1][node].
  std::shared_ptr<const std::vector<std::vector<PlaceOrigin>>> origins;
  std::shared_ptr<const std::vector<Finding>> findings;
  bool change_held = false;
};

struct SourceState {
  enum class State : uint8_t { kReady, kPartial, kStale };
  std::string name;  // "agents", "fabric/ibnetdiscover.txt", "labels", "declared"
  State state = State::kReady;
  size_t nodes = 0;                             // that it speaks of; 0 for a fabric: not counted
  absl::Time last_seen = absl::InfinitePast();  // when it spoke last; labels have no such time
};

class TopologyKeeper {
 public:
  explicit TopologyKeeper(KeeperOptions options);

  // All nodes that there are, with what their labels say. A listing without any node is no listing.
  void PutNodes(std::vector<LabelledNode> nodes, absl::Time now);
  // One node of a watch, which tells for certain; visible after Settle. True: there is something to
  // settle.
  bool PutNode(LabelledNode node);
  bool DropNode(std::string_view node);
  void Settle();
  // Reports of an older generation of the same boot are ignored; one of a node that is not listed
  // yet waits for it.
  void PutReport(NodeReport report, absl::Time now);
  // Many at once, with one new snapshot: after a start all agents speak.
  void PutReports(std::vector<NodeReport> reports, absl::Time now);
  // Its agent is there, and nothing has changed.
  void Hear(std::string_view node, absl::Time now);
  // A fabric without a switch is no answer, and changes nothing but the age.
  void PutFabric(std::string source, Fabric fabric, absl::Time now);
  // Takes a node out at once: an operator said so.
  void RemoveNode(std::string_view node);
  // Publishes what is held.
  void Confirm();
  // Marks what became stale, looks again at what is held, and brings the findings up to date.
  void Tick(absl::Time now);

  std::shared_ptr<const TopologySnapshot> snapshot() const { return snapshot_; }
  // What the label asterism.dev/domain-LEVEL of the node is to say, by level between the node and
  // the cluster. Null: no such node.
  struct DomainLabel {
    std::string value;      // empty: nothing
    bool measured = false;  // the next leader is to hold on to it
  };
  std::optional<std::vector<DomainLabel>> DomainLabels(std::string_view node) const;
  std::vector<SourceState> Sources(absl::Time now) const;
  // Nodes by who says where they are in a level between the node and the cluster.
  std::array<size_t, kPlaceOrigins> CountOrigins(size_t index) const;
  // Names the change that is held; empty: none is. The same moves have the same id.
  std::string HeldChange() const;
  const KeeperOptions& options() const { return options_; }

 private:
  // A domain as a number of `values_`; 0 is none.
  struct Place {
    uint32_t value = 0;
    PlaceOrigin origin = PlaceOrigin::kNobody;

    friend bool operator==(const Place&, const Place&) = default;
  };
  using Path = std::vector<Place>;  // by level between the node and the cluster
  struct Member {
    LabelledNode labels;
    int absences = 0;  // good listings in a row without it
    std::optional<NodeReport> report;
    absl::Time heard;
    std::string last_domain;           // NVLink, last known
    std::vector<uint32_t> remembered;  // by level; 0: nothing
    Path published;                    // empty: not yet
    Path proposed;
    NodeId node;                         // in the snapshot; invalid: not yet there
    const std::string* group = nullptr;  // leaf group, worked out for a proposal
  };
  using Members = std::map<std::string, Member, std::less<>>;
  struct Move {
    std::string node;
    Path target;
    friend bool operator==(const Move&, const Move&) = default;
  };
  // How many links are down, or up, at the nodes of one product.
  struct ProductLinks {
    std::map<uint32_t, size_t> nodes_by_down;
    std::map<uint32_t, size_t> nodes_by_up;
  };

  enum class Effect : uint8_t { kNone, kCondition, kConditions, kRebuild };

  // topology_keeper.cc
  std::vector<std::string> LevelNames() const;
  uint32_t Intern(std::string_view value);
  bool TakeNode(LabelledNode node);
  void Remember(Member& member);
  bool ForgetRemoved(Member& member, const std::vector<LabelLevel>& former);
  Effect TakeReport(NodeReport report, absl::Time now);
  bool CountLinks(const NodeReport& report, int step);
  void PublishCondition(std::string_view name);
  void CollectOwners();
  void AnalyzeFabrics();
  std::vector<Move> FindMoves() const;
  void Rebuild(bool confirmed);
  void Publish();
  void PublishConditions();

  // topology_levels.cc
  static bool IsOfFabric(std::string_view domain);  // by its name
  void Propose();
  void FillNvlink(size_t index, bool several_nodes);
  void FillLeafGroups(size_t index);
  void FillSlices(const LevelSource& level, size_t index);
  void FillTiers(size_t index);
  void FillLabels(const LevelSource& level, size_t index);
  void FillDeclared(size_t index);
  void FillRemembered(size_t index);
  void FillByName(const LevelSource& level, size_t index);
  void SeatNewcomers(const LevelSource& level);
  void CountNvlinkDomains();

  // topology_findings.cc
  NodeCondition ConditionOf(const Member& member, std::string_view name) const;
  std::vector<NodeCondition> Conditions(const Cluster& cluster) const;
  uint32_t UsualLinks(const NodeReport& report, bool up) const;
  std::vector<Finding> Findings() const;
  void FindOfReport(const std::string& name, const Member& member,
                    std::vector<Finding>& findings) const;
  void FindOfDomains(std::vector<Finding>& findings) const;
  Finding HeldFinding() const;

  const KeeperOptions options_;
  absl::Time now_ = absl::InfinitePast();  // as last told
  Members members_;
  std::map<std::string, NodeReport, std::less<>> early_reports_;
  std::map<std::string, ProductLinks, std::less<>> links_;
  FabricMerge fabrics_;
  GuidOwners owners_;                // of the cards that agents reported
  std::vector<std::string> values_;  // the first one is empty: no domain
  base::StringMap<uint32_t> value_ids_;
  // NVLink domains: their nodes and GPUs, worked out for a proposal.
  struct NvlinkDomain {
    size_t nodes = 0;
    uint64_t gpus = 0;
  };
  base::StringMap<NvlinkDomain> nvlink_domains_;
  // Places in slices: nodes by leaf group, and the place of each node.
  struct Seat {
    std::string group;
    size_t number = 0;
  };
  std::map<std::string, std::vector<std::string>, std::less<>> slots_;
  base::StringMap<Seat> seats_;

  bool unsettled_ = false;
  std::vector<Move> held_;
  absl::Time held_since_;
  std::shared_ptr<const TopologySnapshot> snapshot_;
};

}  // namespace asterism::topology
