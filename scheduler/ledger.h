// File: scheduler/ledger.h
//
// Who holds what on which node. The one place that gives out GPUs: a gang's rank blocks are
// reserved here before its first pod exists, and every pod the watch shows is booked here.
//
//   ledger.SetNode(facts);  ledger.PutPod(pod);           // from the watch
//   ledger.PutGang(gang);                                  // a decision: all blocks or nothing
//   ledger.RemoveGang(uid);
//   std::shared_ptr<const LedgerView> view = ledger.View();   // for the extender, any thread
//
// Holders of a node's resources:
//   - a rank block of a gang, from PutGang to RemoveGang or its move, whether its pod exists or
//   not:
//     reserved (no pod yet) -> pinned (pod seen) -> bound (pod has a node name)
//   - a spare of a gang, as long as the gang is here: as much as one of its pods
//   - every other pod that has a node and has not ended: foreign pods, and pods of a gang that are
//     not the present pod of their block (older epoch, terminating)
// A block and its own present pod are counted once.
//
// Thread-safety: none; owned by one executor (views may be read anywhere). Cost: O(1) a change;
// View copies the node rows (about 100 ns a node) and shares the gangs.
// Invariant: used = sum over holders, on every node (checked by Verify in tests). Same content,
// same Digest, whatever the order of the calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/strings.h"
#include "scheduler/gpu_islands.h"
#include "scheduler/resources.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

using topology::NodeId;

// What the edge tells about a node.
struct NodeState {
  std::string name;
  ResourceVector allocatable;
  // False: cordoned, not Ready, or tainted for everybody. Holders stay, nothing new is placed.
  bool usable = true;
  // Its hardware works in part: it is placed on where there is nothing else.
  bool degraded = false;
  std::string product;  // GPU product, empty when not known
  // Nodes of equal class accept and refuse the same pod templates (labels and taints that selectors
  // and tolerations can see). The edge gives classes out; requests carry a bitmap over them.
  uint32_t node_class = 0;

  bool operator==(const NodeState&) const = default;
};

struct PodState {
  std::string uid;
  std::string name;  // "namespace/name"
  std::string node;  // empty until bound
  std::string pinned_node;
  ResourceVector requests;
  std::string gang_uid;  // empty: not a pod of a gang
  int64_t first_rank = 0;
  int64_t epoch = 0;
  bool ended = false;  // Succeeded or Failed: holds nothing
  bool deleting = false;
};

enum class BlockState { kReserved, kPinned, kBound };

// Consecutive ranks that live in one pod.
struct RankBlock {
  int64_t first_rank = 0;
  std::string node;
  int64_t epoch = 0;  // when this block got its present home
};

// Where a gang holds the amounts of one more pod, for the case that it loses one.
struct Spare {
  std::string node;
  int64_t epoch = 0;  // when it was decided

  bool operator==(const Spare&) const = default;
};

struct Gang {
  std::string uid;
  std::string name;  // "namespace/job"
  std::string queue;
  std::string product;
  int64_t epoch = 0;
  int64_t ranks_per_block = 1;
  int64_t gpus_per_block = 0;
  size_t gpu_slot = 0;
  ResourceVector request;         // of one pod
  std::vector<RankBlock> blocks;  // in rank order
  std::vector<Spare> spares;      // in the order in which they would be used
  // When somebody expects it to have ended. An estimate: the digest leaves it out.
  std::optional<absl::Time> expected_end;
};

struct ExpectedEnd {
  absl::Time at;
  std::string gang_uid;

  bool operator==(const ExpectedEnd&) const = default;
  bool operator<(const ExpectedEnd& other) const {
    return at != other.at ? at < other.at : gang_uid < other.gang_uid;
  }
};

struct GangBlockView {
  int64_t first_rank = 0;
  std::string node;
  int64_t epoch = 0;
  BlockState state = BlockState::kReserved;
  std::string pod_uid;  // the present pod, empty while reserved
};

struct GangView {
  std::string uid;
  std::string name;
  std::string queue;
  std::string product;
  int64_t epoch = 0;
  int64_t gpus_per_block = 0;
  std::vector<GangBlockView> blocks;
  std::vector<Spare> spares;

  int64_t gpus_held() const {
    return gpus_per_block * static_cast<int64_t>(blocks.size() + spares.size());
  }
  // The block that starts with this rank, or null. O(log blocks).
  const GangBlockView* FindBlock(int64_t first_rank) const;
};

struct NodeView {
  std::string name;
  ResourceVector allocatable;
  ResourceVector used;  // by all holders; may exceed allocatable when a foreign pod came first
  bool usable = true;
};

// An immutable picture. `nodes` are in topology order.
struct LedgerView {
  std::shared_ptr<const topology::Cluster> cluster;
  std::vector<NodeView> nodes;                             // by NodeId
  std::vector<GpuIslands> gpu_islands;                     // by NodeId; empty: no node is split
  std::vector<std::string> resource_names;                 // by slot
  base::StringMap<std::shared_ptr<const GangView>> gangs;  // by job uid
  uint64_t version = 0;
};

class Ledger {
 public:
  explicit Ledger(ResourceTable& table);
  ~Ledger();

  // Replaces the model; rows follow their node names. Nodes that left the model keep their holders
  // until pods and gangs let go, and are never placed on.
  void SetCluster(std::shared_ptr<const topology::Cluster> cluster);
  void SetNode(const NodeState& state);
  void RemoveNode(std::string_view name);
  // As the agent of a known node told last. A preference only: the digest leaves it out.
  void SetGpuIslands(std::string_view name, const GpuIslands& islands);

  void PutPod(const PodState& pod);
  void RemovePod(std::string_view uid);

  // Adds or replaces the gang of that uid, all blocks at once. Does not check room: Placer did, and
  // a restart books what exists even where it overlaps.
  void PutGang(const Gang& gang);
  void RemoveGang(std::string_view uid);
  std::shared_ptr<const GangView> FindGang(std::string_view uid) const;
  // Sorted by uid.
  std::vector<std::shared_ptr<const GangView>> Gangs() const;

  const topology::Cluster& cluster() const;
  std::shared_ptr<const topology::Cluster> shared_cluster() const;
  // Rows by NodeId; free may be negative in a slot when over-committed.
  size_t node_count() const;
  const NodeState& node_state(NodeId node) const;
  const GpuIslands& gpu_islands(NodeId node) const;
  const ResourceVector& used(NodeId node) const;
  ResourceVector Free(NodeId node) const;
  // What the gang itself holds on the node, for planning a move as if it had let go: its blocks and
  // spares, and its own pods that are on their way out.
  ResourceVector HeldBy(std::string_view gang_uid, NodeId node) const;
  // The same for all nodes of the model: once a block, in rank order, once a spare, then once a
  // leaving pod.
  void ForEachHeld(std::string_view gang_uid,
                   absl::FunctionRef<void(NodeId, const ResourceVector&)> visit) const;

  // Columns by NodeId for scans over all nodes; valid until the next change.
  std::span<const int64_t> FreeColumn(size_t slot) const;  // as Free(node)[slot]
  std::span<const uint8_t> PlaceableColumn() const;        // 1: known and usable
  // 1: degraded. Empty where no node of the model is.
  std::span<const uint8_t> DegradedColumn() const;
  // 1: its GPUs are not alike, see gpu_islands.h. Empty where no node of the model is so.
  std::span<const uint8_t> SplitColumn() const;
  std::span<const uint32_t> NodeClassColumn() const;
  static constexpr uint32_t kNoProduct = 0xffffffff;  // of a node that SetNode did not tell about
  std::span<const uint32_t> ProductColumn() const;    // index into product_names(), or kNoProduct
  // Of the nodes of the model that are known; indices are valid until the next change.
  const std::vector<std::string>& product_names() const;
  std::string resource_name(size_t slot) const;  // "slot 9" where it has no name
  size_t resource_count() const;                 // slots that have a name

  // Of the gangs for which an end is expected: by time, then by uid.
  std::vector<ExpectedEnd> ExpectedEnds() const;

  // GPUs (in `gpu_slot`) held by gangs of a queue, spares included; the present sum, never stored.
  int64_t GpusOfQueue(std::string_view queue) const;

  // The same object until something changes.
  std::shared_ptr<const LedgerView> View() const;
  // Rises with each change; telling what is known already is none.
  uint64_t version() const;
  // Rises when nodes changed: the model, or what SetNode and RemoveNode tell.
  uint64_t node_version() const;
  // Rises with each change after which something may fit that did not fit before. It stays the same
  // as long as amounts are only taken: gangs booked anew, pods bound. (It may rise without need.)
  uint64_t room_version() const;
  // FNV-1a over the whole content in a fixed order.
  uint64_t Digest() const;
  // Recounts everything; returns an error that names the first node that does not add up.
  absl::Status Verify() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace asterism::scheduler
