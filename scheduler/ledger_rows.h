// File: scheduler/ledger_rows.h
//
// The node rows of the ledger: what a node has, what its holders use, and the same numbers as flat
// columns by NodeId for scans. Internal to the ledger.
//
//   PlaceId place = rows.Acquire("node-7");   rows.Add(place, request);
//   rows.Subtract(place, request);            rows.Release(place);
//
// A place is a node name that somebody refers to; it may be in the cluster model or not, and its
// state may be known or not. The exact sum of the holders is kept in 128 bits, so that what was
// added can be subtracted again even where the shown 64-bit amount has saturated.
//
// Thread-safety: none. Cost: Acquire one hash; Add and Subtract kResourceSlots additions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "scheduler/ledger.h"
#include "scheduler/resources.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

using PlaceId = uint32_t;
__extension__ using ExactAmount = __int128;
using ExactVector = std::array<ExactAmount, kResourceSlots>;

// Every amount at least zero.
ResourceVector WithoutNegatives(ResourceVector amounts);

class LedgerRows {
 public:
  struct Row {
    NodeState state;
    bool known = false;  // SetState came, ClearState did not
    GpuIslands gpu_islands;
    NodeId node;  // invalid outside the model
    uint32_t references = 0;
    ExactVector sum{};
    ResourceVector used;  // `sum`, saturated
  };

  static constexpr uint32_t kNoProduct = Ledger::kNoProduct;

  LedgerRows();

  void SetCluster(std::shared_ptr<const topology::Cluster> cluster);
  const std::shared_ptr<const topology::Cluster>& cluster() const { return cluster_; }

  // False: nothing changed.
  bool SetState(const NodeState& state);
  bool ClearState(std::string_view name);
  bool SetGpuIslands(std::string_view name, const GpuIslands& islands);

  PlaceId Acquire(std::string_view name);
  void Release(PlaceId place);
  void Add(PlaceId place, const ResourceVector& amounts) { Change(place, amounts, 1); }
  void Subtract(PlaceId place, const ResourceVector& amounts) { Change(place, amounts, -1); }
  // Subtracts `before` and adds `after`; no room comes free where `after` is no smaller.
  void Replace(PlaceId place, const ResourceVector& before, const ResourceVector& after);

  const Row& row(PlaceId place) const { return rows_[place]; }
  const Row& row(NodeId node) const { return rows_[place_of_node_[node.index()]]; }
  // Every row that is known, in the model or referred to, sorted by name.
  std::vector<const Row*> SortedRows() const;

  size_t node_count() const { return place_of_node_.size(); }
  std::span<const int64_t> free(size_t slot) const { return free_[slot]; }
  std::span<const uint8_t> placeable() const { return placeable_; }
  std::span<const uint8_t> degraded() const {
    return degraded_nodes_ == 0 ? std::span<const uint8_t>() : degraded_;
  }
  std::span<const uint8_t> split() const {
    return split_nodes_ == 0 ? std::span<const uint8_t>() : split_;
  }
  std::span<const uint32_t> node_class() const { return node_class_; }
  std::span<const uint32_t> product() const { return product_; }
  const std::vector<std::string>& product_names() const { return product_names_; }
  uint64_t node_version() const { return node_version_; }
  uint64_t room_version() const { return room_version_; }

 private:
  PlaceId FindOrAdd(std::string_view name);
  void Change(PlaceId place, const ResourceVector& amounts, int sign);
  void ChangeSlot(Row& row, size_t slot, ExactAmount change);
  void RefreshColumns(const Row& row);
  void FreeIfUnused(PlaceId place);
  void SetProduct(size_t node, const std::string* product);  // null: kNoProduct
  void ReleaseProduct(uint32_t product);

  std::shared_ptr<const topology::Cluster> cluster_;
  std::vector<Row> rows_;
  std::vector<PlaceId> free_places_;
  base::StringMap<PlaceId> place_by_name_;
  std::vector<PlaceId> place_of_node_;

  // Columns by NodeId.
  std::array<std::vector<int64_t>, kResourceSlots> free_;
  std::vector<uint8_t> placeable_;
  std::vector<uint8_t> degraded_;
  size_t degraded_nodes_ = 0;
  std::vector<uint8_t> split_;
  size_t split_nodes_ = 0;
  std::vector<uint32_t> node_class_;
  std::vector<uint32_t> product_;
  std::vector<std::string> product_names_;  // of the nodes of the model, no others
  std::vector<size_t> product_nodes_;       // how many, by product

  uint64_t node_version_ = 0;
  uint64_t room_version_ = 0;
};

}  // namespace asterism::scheduler
