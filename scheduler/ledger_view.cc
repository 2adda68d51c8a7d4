#include <algorithm>
#include <limits>
#include <utility>

#include "scheduler/ledger.h"
#include "scheduler/ledger_impl.h"

namespace asterism::scheduler {

const GangBlockView* GangView::FindBlock(int64_t first_rank) const {
  const auto it = std::lower_bound(
      blocks.begin(), blocks.end(), first_rank,
      [](const GangBlockView& block, int64_t rank) { return block.first_rank < rank; });
  return it == blocks.end() || it->first_rank != first_rank ? nullptr : &*it;
}

std::shared_ptr<const GangView> Ledger::Impl::ViewOf(const GangEntry& entry) const {
  if (entry.view != nullptr) {
    return entry.view;
  }
  auto built = std::make_shared<GangView>();
  built->uid = entry.gang.uid;
  built->name = entry.gang.name;
  built->queue = entry.gang.queue;
  built->product = entry.gang.product;
  built->epoch = entry.gang.epoch;
  built->gpus_per_block = entry.gang.gpus_per_block;
  built->blocks.reserve(entry.blocks.size());
  for (const BlockRecord& block : entry.blocks) {
    GangBlockView& target = built->blocks.emplace_back();
    target.first_rank = block.first_rank;
    target.node = rows.row(block.place).state.name;
    target.epoch = block.epoch;
    if (block.pod != nullptr) {
      target.state = block.pod->bound() ? BlockState::kBound : BlockState::kPinned;
      target.pod_uid = block.pod->state.uid;
    }
  }
  for (const SpareRecord& spare : entry.spares) {
    built->spares.push_back({rows.row(spare.place).state.name, spare.epoch});
  }
  entry.view = std::move(built);
  return entry.view;
}

std::shared_ptr<const GangView> Ledger::FindGang(std::string_view uid) const {
  const GangEntry* entry = impl_->FindEntry(uid);
  return entry == nullptr || !entry->decided ? nullptr : impl_->ViewOf(*entry);
}

std::vector<std::shared_ptr<const GangView>> Ledger::Gangs() const {
  std::vector<std::shared_ptr<const GangView>> gangs;
  for (const auto& [uid, entry] : impl_->gangs) {
    if (entry->decided) {
      gangs.push_back(impl_->ViewOf(*entry));
    }
  }
  return gangs;
}

const topology::Cluster& Ledger::cluster() const {
  return *impl_->rows.cluster();
}

std::shared_ptr<const topology::Cluster> Ledger::shared_cluster() const {
  return impl_->rows.cluster();
}

size_t Ledger::node_count() const {
  return impl_->rows.node_count();
}

const NodeState& Ledger::node_state(NodeId node) const {
  return impl_->rows.row(node).state;
}

const GpuIslands& Ledger::gpu_islands(NodeId node) const {
  return impl_->rows.row(node).gpu_islands;
}

const ResourceVector& Ledger::used(NodeId node) const {
  return impl_->rows.row(node).used;
}

ResourceVector Ledger::Free(NodeId node) const {
  ResourceVector free = impl_->rows.row(node).state.allocatable;
  free.Subtract(impl_->rows.row(node).used);
  return free;
}

void Ledger::ForEachHeld(std::string_view gang_uid,
                         absl::FunctionRef<void(NodeId, const ResourceVector&)> visit) const {
  const GangEntry* entry = impl_->FindEntry(gang_uid);
  if (entry == nullptr) {
    return;
  }
  for (const BlockRecord& block : entry->blocks) {
    if (const NodeId node = impl_->rows.row(block.place).node; node.valid()) {
      visit(node, Impl::Held(*entry, block));
    }
  }
  for (const SpareRecord& spare : entry->spares) {
    if (const NodeId node = impl_->rows.row(spare.place).node; node.valid()) {
      visit(node, entry->gang.request);
    }
  }
  for (const auto& [first_rank, pods] : entry->pods) {
    for (const PodRecord* pod : pods) {
      if (const NodeId node = impl_->rows.row(pod->place).node; pod->foreign && node.valid()) {
        visit(node, pod->state.requests);
      }
    }
  }
}

ResourceVector Ledger::HeldBy(std::string_view gang_uid, NodeId node) const {
  ResourceVector held;
  ForEachHeld(gang_uid, [&](NodeId holder, const ResourceVector& amounts) {
    if (holder == node) {
      held.Add(amounts);
    }
  });
  return held;
}

std::vector<ExpectedEnd> Ledger::ExpectedEnds() const {
  std::vector<ExpectedEnd> ends;
  for (const auto& [uid, entry] : impl_->gangs) {
    if (entry->decided && entry->gang.expected_end.has_value()) {
      ends.push_back({*entry->gang.expected_end, uid});
    }
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

int64_t Ledger::GpusOfQueue(std::string_view queue) const {
  ResourceVector sum;  // saturates
  for (const auto& [uid, held_by] : impl_->gangs) {
    const auto& entry = *held_by;
    if (!entry.decided || entry.gang.queue != queue) {
      continue;
    }
    const size_t slot = entry.gang.gpu_slot;
    const auto add = [&](const ResourceVector& held) {
      ResourceVector gpus;
      gpus[0] =
          slot < kResourceSlots ? held[slot] : std::max<int64_t>(entry.gang.gpus_per_block, 0);
      sum.Add(gpus);
    };
    for (const BlockRecord& block : entry.blocks) {
      add(Impl::Held(entry, block));
    }
    for (size_t i = 0; i < entry.spares.size(); ++i) {
      add(entry.gang.request);
    }
  }
  return sum[0];
}

std::shared_ptr<const LedgerView> Ledger::View() const {
  if (impl_->view != nullptr && impl_->view->version == impl_->version) {
    return impl_->view;
  }
  auto view = std::make_shared<LedgerView>();
  view->cluster = impl_->rows.cluster();
  view->version = impl_->version;
  view->nodes.resize(impl_->rows.node_count());
  for (size_t index = 0; index < view->nodes.size(); ++index) {
    const LedgerRows::Row& row = impl_->rows.row(NodeId(index));
    NodeView& target = view->nodes[index];
    target.name = row.state.name;
    target.allocatable = row.state.allocatable;
    target.used = row.used;
    target.usable = row.known && row.state.usable;
  }
  if (!impl_->rows.split().empty()) {
    for (size_t index = 0; index < view->nodes.size(); ++index) {
      view->gpu_islands.push_back(impl_->rows.row(NodeId(index)).gpu_islands);
    }
  }
  for (size_t slot = 0; slot < impl_->table.size(); ++slot) {
    view->resource_names.push_back(impl_->table.name(slot));
  }
  for (const auto& [uid, entry] : impl_->gangs) {
    if (entry->decided) {
      view->gangs.emplace(uid, impl_->ViewOf(*entry));
    }
  }
  impl_->view = std::move(view);
  return impl_->view;
}

uint64_t Ledger::version() const {
  return impl_->version;
}

uint64_t Ledger::node_version() const {
  return impl_->rows.node_version();
}

uint64_t Ledger::room_version() const {
  return impl_->rows.room_version();
}

std::span<const int64_t> Ledger::FreeColumn(size_t slot) const {
  return impl_->rows.free(slot);
}

std::span<const uint8_t> Ledger::PlaceableColumn() const {
  return impl_->rows.placeable();
}

std::span<const uint8_t> Ledger::SplitColumn() const {
  return impl_->rows.split();
}

std::span<const uint8_t> Ledger::DegradedColumn() const {
  return impl_->rows.degraded();
}

std::span<const uint32_t> Ledger::NodeClassColumn() const {
  return impl_->rows.node_class();
}

std::span<const uint32_t> Ledger::ProductColumn() const {
  return impl_->rows.product();
}

const std::vector<std::string>& Ledger::product_names() const {
  return impl_->rows.product_names();
}

std::string Ledger::resource_name(size_t slot) const {
  return slot < impl_->table.size() ? impl_->table.name(slot) : "slot " + std::to_string(slot);
}

size_t Ledger::resource_count() const {
  return impl_->table.size();
}

}  // namespace asterism::scheduler
