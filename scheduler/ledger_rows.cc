#include "scheduler/ledger_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace asterism::scheduler {
namespace {

int64_t Saturate(ExactAmount amount) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return amount > kMax ? kMax : static_cast<int64_t>(amount);
}

}  // namespace

ResourceVector WithoutNegatives(ResourceVector amounts) {
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    amounts[slot] = std::max<int64_t>(amounts[slot], 0);
  }
  return amounts;
}

LedgerRows::LedgerRows() : cluster_(std::make_shared<const topology::Cluster>()) {}

void LedgerRows::SetCluster(std::shared_ptr<const topology::Cluster> cluster) {
  CHECK_THAT(cluster != nullptr, "Ledger::SetCluster needs a cluster");
  const std::vector<PlaceId> old_places = std::move(place_of_node_);
  for (const PlaceId place : old_places) {
    rows_[place].node = NodeId();
  }
  cluster_ = std::move(cluster);
  const size_t count = cluster_->node_count();
  place_of_node_.clear();
  place_of_node_.reserve(count);
  for (std::vector<int64_t>& column : free_) {
    column.assign(count, 0);
  }
  placeable_.assign(count, 0);
  degraded_.assign(count, 0);
  degraded_nodes_ = 0;
  split_.assign(count, 0);
  split_nodes_ = 0;
  node_class_.assign(count, 0);
  product_.assign(count, kNoProduct);
  product_names_.clear();
  product_nodes_.clear();
  for (size_t index = 0; index < count; ++index) {
    const NodeId node(index);
    const PlaceId place = FindOrAdd(cluster_->node_name(node));
    rows_[place].node = node;
    place_of_node_.push_back(place);
    RefreshColumns(rows_[place]);
  }
  for (const PlaceId place : old_places) {
    FreeIfUnused(place);
  }
  ++node_version_;
  ++room_version_;
}

bool LedgerRows::SetState(const NodeState& state) {
  Row& row = rows_[FindOrAdd(state.name)];
  NodeState clean = state;
  clean.allocatable = WithoutNegatives(state.allocatable);
  if (row.known && row.state == clean) {
    return false;
  }
  row.state = std::move(clean);
  row.known = true;
  RefreshColumns(row);
  ++node_version_;
  ++room_version_;
  return true;
}

bool LedgerRows::SetGpuIslands(std::string_view name, const GpuIslands& islands) {
  const auto it = place_by_name_.find(name);
  if (it == place_by_name_.end() || !rows_[it->second].known ||
      rows_[it->second].gpu_islands == islands) {
    return false;
  }
  rows_[it->second].gpu_islands = islands;
  RefreshColumns(rows_[it->second]);
  return true;
}

bool LedgerRows::ClearState(std::string_view name) {
  const auto it = place_by_name_.find(name);
  if (it == place_by_name_.end() || !rows_[it->second].known) {
    return false;
  }
  const PlaceId place = it->second;
  Row& row = rows_[place];
  NodeState unknown;
  unknown.name = std::string(name);
  unknown.usable = false;
  row.state = std::move(unknown);
  row.known = false;
  row.gpu_islands = {};
  RefreshColumns(row);
  FreeIfUnused(place);
  ++node_version_;
  ++room_version_;
  return true;
}

PlaceId LedgerRows::Acquire(std::string_view name) {
  const PlaceId place = FindOrAdd(name);
  ++rows_[place].references;
  return place;
}

void LedgerRows::Release(PlaceId place) {
  CHECK_THAT(rows_[place].references > 0, "a place is released more often than acquired");
  --rows_[place].references;
  FreeIfUnused(place);
}

PlaceId LedgerRows::FindOrAdd(std::string_view name) {
  if (const auto it = place_by_name_.find(name); it != place_by_name_.end()) {
    return it->second;
  }
  PlaceId place = static_cast<PlaceId>(rows_.size());
  if (free_places_.empty()) {
    rows_.emplace_back();
  } else {
    place = free_places_.back();
    free_places_.pop_back();
    rows_[place] = Row();
  }
  rows_[place].state.name = std::string(name);
  rows_[place].state.usable = false;
  place_by_name_.emplace(std::string(name), place);
  return place;
}

inline void LedgerRows::ChangeSlot(Row& row, size_t slot, ExactAmount change) {
  row.sum[slot] += change;
  CHECK_THAT(row.sum[slot] >= 0, "a node's holders sum up to less than nothing");
  row.used[slot] = Saturate(row.sum[slot]);
  if (row.node.valid()) {
    // Both are >= 0, so the difference cannot overflow.
    free_[slot][row.node.index()] = row.state.allocatable[slot] - row.used[slot];
    room_version_ += change < 0 ? 1 : 0;
  }
}

void LedgerRows::Change(PlaceId place, const ResourceVector& amounts, int sign) {
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    if (amounts[slot] != 0) {
      ChangeSlot(rows_[place], slot, sign * static_cast<ExactAmount>(amounts[slot]));
    }
  }
}

void LedgerRows::Replace(PlaceId place, const ResourceVector& before, const ResourceVector& after) {
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    if (before[slot] != after[slot]) {
      ChangeSlot(rows_[place], slot, static_cast<ExactAmount>(after[slot]) - before[slot]);
    }
  }
}

void LedgerRows::RefreshColumns(const Row& row) {
  if (!row.node.valid()) {
    return;
  }
  const size_t index = row.node.index();
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    free_[slot][index] = row.state.allocatable[slot] - row.used[slot];
  }
  placeable_[index] = row.known && row.state.usable ? 1 : 0;
  const uint8_t degraded = row.known && row.state.degraded ? 1 : 0;
  degraded_nodes_ = degraded_nodes_ + degraded - degraded_[index];
  degraded_[index] = degraded;
  const uint8_t split = row.known && row.gpu_islands.split() ? 1 : 0;
  split_nodes_ = split_nodes_ + split - split_[index];
  split_[index] = split;
  node_class_[index] = row.state.node_class;
  SetProduct(index, row.known ? &row.state.product : nullptr);
}

void LedgerRows::FreeIfUnused(PlaceId place) {
  Row& row = rows_[place];
  if (row.known || row.node.valid() || row.references > 0) {
    return;
  }
  const auto it = place_by_name_.find(row.state.name);
  if (it == place_by_name_.end() || it->second != place) {
    return;  // already free
  }
  place_by_name_.erase(it);
  row = Row();
  free_places_.push_back(place);
}

void LedgerRows::SetProduct(size_t node, const std::string* product) {
  const uint32_t before = product_[node];
  if (product != nullptr) {
    const auto it = std::find(product_names_.begin(), product_names_.end(), *product);
    product_[node] = static_cast<uint32_t>(it - product_names_.begin());
    if (it == product_names_.end()) {
      product_names_.push_back(*product);
      product_nodes_.push_back(0);
    }
    ++product_nodes_[product_[node]];
  } else {
    product_[node] = kNoProduct;
  }
  if (before != kNoProduct) {
    ReleaseProduct(before);
  }
}

// A product that no node has any more would cost every placement a pass of its own: the last one
// takes its index.
void LedgerRows::ReleaseProduct(uint32_t product) {
  if (--product_nodes_[product] > 0) {
    return;
  }
  const auto last = static_cast<uint32_t>(product_names_.size() - 1);
  if (product != last) {
    product_names_[product] = std::move(product_names_[last]);
    product_nodes_[product] = product_nodes_[last];
    std::replace(product_.begin(), product_.end(), last, product);
  }
  product_names_.pop_back();
  product_nodes_.pop_back();
}

std::vector<const LedgerRows::Row*> LedgerRows::SortedRows() const {
  std::vector<const Row*> sorted;
  sorted.reserve(place_by_name_.size());
  for (const auto& [name, place] : place_by_name_) {
    sorted.push_back(&rows_[place]);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Row* left, const Row* right) { return left->state.name < right->state.name; });
  return sorted;
}

}  // namespace asterism::scheduler
