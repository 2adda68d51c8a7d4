#include "scheduler/ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/ledger_impl.h"

namespace asterism::scheduler {
namespace {

bool HoldsOrMayHold(const PodState& pod) {
  if (pod.uid.empty() || pod.ended) {
    return false;
  }
  const bool may_be_present = !pod.gang_uid.empty() && !pod.pinned_node.empty() && !pod.deleting;
  return !pod.node.empty() || may_be_present;
}

bool SamePod(const PodState& left, const PodState& right) {
  return left.name == right.name && left.node == right.node &&
         left.pinned_node == right.pinned_node && left.requests == right.requests &&
         left.gang_uid == right.gang_uid && left.first_rank == right.first_rank &&
         left.epoch == right.epoch && left.ended == right.ended && left.deleting == right.deleting;
}

// In rank order; a rank lives once, at its newest home.
std::vector<RankBlock> InRankOrder(std::vector<RankBlock> blocks) {
  std::sort(blocks.begin(), blocks.end(), [](const RankBlock& left, const RankBlock& right) {
    if (left.first_rank != right.first_rank) {
      return left.first_rank < right.first_rank;
    }
    return left.epoch != right.epoch ? left.epoch > right.epoch : left.node < right.node;
  });
  const auto same_rank = [](const RankBlock& left, const RankBlock& right) {
    return left.first_rank == right.first_rank;
  };
  blocks.erase(std::unique(blocks.begin(), blocks.end(), same_rank), blocks.end());
  return blocks;
}

}  // namespace

BlockRecord* GangEntry::FindBlock(int64_t first_rank) {
  const auto it = std::lower_bound(
      blocks.begin(), blocks.end(), first_rank,
      [](const BlockRecord& block, int64_t rank) { return block.first_rank < rank; });
  return it == blocks.end() || it->first_rank != first_rank ? nullptr : &*it;
}

ResourceVector Ledger::Impl::Held(const GangEntry& entry, const BlockRecord& block) {
  ResourceVector held = entry.gang.request;
  if (block.pod != nullptr) {
    for (size_t slot = 0; slot < kResourceSlots; ++slot) {
      held[slot] = std::max(held[slot], block.pod->state.requests[slot]);
    }
  }
  return held;
}

bool SameNamespace(std::string_view pod, std::string_view gang) {
  return pod.substr(0, pod.find('/')) == gang.substr(0, gang.find('/'));
}

PodRecord* Ledger::Impl::PresentPod(const GangEntry& entry, const BlockRecord& block) {
  const auto it = entry.pods.find(block.first_rank);
  if (it == entry.pods.end()) {
    return nullptr;
  }
  for (PodRecord* pod : it->second) {
    if (pod->state.epoch == block.epoch && pod->place == block.place && !pod->state.deleting &&
        SameNamespace(pod->state.name, entry.gang.name)) {
      return pod;
    }
  }
  return nullptr;
}

const GangEntry* Ledger::Impl::FindEntry(std::string_view uid) const {
  const auto it = gangs.find(uid);
  return it == gangs.end() ? nullptr : it->second.get();
}

GangEntry& Ledger::Impl::EntryFor(const std::string& uid) {
  std::unique_ptr<GangEntry>& entry = gangs[uid];
  if (entry == nullptr) {
    entry = std::make_unique<GangEntry>();
  }
  return *entry;
}

void Ledger::Impl::DropEntryIfEmpty(const std::string& uid) {
  const auto it = gangs.find(uid);
  if (it != gangs.end() && !it->second->decided && it->second->pods.empty()) {
    gangs.erase(it);
  }
}

void Ledger::Impl::SetForeign(PodRecord& pod, bool foreign) {
  if (pod.foreign == foreign) {
    return;
  }
  pod.foreign = foreign;
  if (foreign) {
    rows.Add(pod.place, pod.state.requests);
  } else {
    rows.Subtract(pod.place, pod.state.requests);
  }
}

PodRecord* Ledger::Impl::SwapPresentPod(GangEntry& entry, BlockRecord& block, PodRecord* pod) {
  const ResourceVector held_before = Held(entry, block);
  PodRecord* const before = std::exchange(block.pod, pod);
  rows.Replace(block.place, held_before, Held(entry, block));
  entry.view = nullptr;
  return before;
}

void Ledger::Impl::SetPresentPod(GangEntry& entry, BlockRecord& block, PodRecord* pod) {
  if (block.pod == pod) {
    return;
  }
  PodRecord* const before = SwapPresentPod(entry, block, pod);
  if (before != nullptr) {
    SetForeign(*before, before->bound());
  }
  if (pod != nullptr) {
    SetForeign(*pod, false);
  }
}

void Ledger::Impl::ChoosePod(GangEntry& entry, BlockRecord& block) {
  SetPresentPod(entry, block, PresentPod(entry, block));
}

void Ledger::Impl::AddPod(const PodState& pod) {
  auto record = std::make_unique<PodRecord>();
  record->state = pod;
  record->state.requests = WithoutNegatives(pod.requests);
  record->place = rows.Acquire(pod.node.empty() ? pod.pinned_node : pod.node);
  bool present = false;
  if (!pod.gang_uid.empty()) {
    GangEntry& entry = EntryFor(pod.gang_uid);
    auto& same_rank = entry.pods[pod.first_rank];
    const auto behind = std::find_if(same_rank.begin(), same_rank.end(),
                                     [&](PodRecord* other) { return other->state.uid > pod.uid; });
    same_rank.insert(behind, record.get());
    if (BlockRecord* block = entry.FindBlock(pod.first_rank); block != nullptr) {
      ChoosePod(entry, *block);
      present = block->pod == record.get();
    }
  }
  SetForeign(*record, !present && record->bound());
  pods.emplace(pod.uid, std::move(record));
}

bool Ledger::Impl::ErasePod(std::string_view uid) {
  const auto it = pods.find(uid);
  if (it == pods.end()) {
    return false;
  }
  const std::unique_ptr<PodRecord> record = std::move(it->second);
  pods.erase(it);
  const std::string& gang_uid = record->state.gang_uid;
  if (!gang_uid.empty()) {
    GangEntry& entry = EntryFor(gang_uid);
    const auto same_rank = entry.pods.find(record->state.first_rank);
    auto& list = same_rank->second;
    list.erase(std::find(list.begin(), list.end(), record.get()));
    if (list.empty()) {
      entry.pods.erase(same_rank);
    }
    if (BlockRecord* block = entry.FindBlock(record->state.first_rank); block != nullptr) {
      if (block->pod == record.get()) {
        SwapPresentPod(entry, *block, nullptr);
      }
      ChoosePod(entry, *block);
    }
  }
  SetForeign(*record, false);
  rows.Release(record->place);
  DropEntryIfEmpty(gang_uid);
  return true;
}

void Ledger::Impl::AddBlocks(GangEntry& entry, const std::vector<RankBlock>& blocks) {
  entry.blocks.reserve(blocks.size());
  for (const RankBlock& block : blocks) {
    BlockRecord record;
    record.first_rank = block.first_rank;
    record.epoch = block.epoch;
    record.place = rows.Acquire(block.node);
    rows.Add(record.place, entry.gang.request);
    entry.blocks.push_back(record);
  }
  for (BlockRecord& block : entry.blocks) {
    ChoosePod(entry, block);
  }
  entry.view = nullptr;
}

void Ledger::Impl::AddSpares(GangEntry& entry, const std::vector<Spare>& spares) {
  entry.spares.reserve(spares.size());
  for (const Spare& spare : spares) {
    const PlaceId place = rows.Acquire(spare.node);
    rows.Add(place, entry.gang.request);
    entry.spares.push_back({place, spare.epoch});
  }
}

void Ledger::Impl::RemoveHomes(GangEntry& entry) {
  for (const SpareRecord& spare : entry.spares) {
    rows.Subtract(spare.place, entry.gang.request);
    rows.Release(spare.place);
  }
  entry.spares.clear();
  for (BlockRecord& block : entry.blocks) {
    SetPresentPod(entry, block, nullptr);
    rows.Subtract(block.place, entry.gang.request);
    rows.Release(block.place);
  }
  entry.blocks.clear();
  entry.view = nullptr;
}

Ledger::Ledger(ResourceTable& table) : impl_(std::make_unique<Impl>(table)) {}
Ledger::~Ledger() = default;

void Ledger::SetCluster(std::shared_ptr<const topology::Cluster> cluster) {
  impl_->rows.SetCluster(std::move(cluster));
  ++impl_->version;
}

void Ledger::SetNode(const NodeState& state) {
  impl_->version += impl_->rows.SetState(state) ? 1 : 0;
}

void Ledger::RemoveNode(std::string_view name) {
  impl_->version += impl_->rows.ClearState(name) ? 1 : 0;
}

void Ledger::SetGpuIslands(std::string_view name, const GpuIslands& islands) {
  impl_->version += impl_->rows.SetGpuIslands(name, islands) ? 1 : 0;
}

void Ledger::PutPod(const PodState& pod) {
  if (!HoldsOrMayHold(pod)) {
    RemovePod(pod.uid);
    return;
  }
  PodState clean = pod;
  clean.requests = WithoutNegatives(pod.requests);
  if (const auto it = impl_->pods.find(pod.uid); it != impl_->pods.end()) {
    if (SamePod(it->second->state, clean)) {
      return;
    }
    impl_->ErasePod(pod.uid);
  }
  impl_->AddPod(clean);
  ++impl_->version;
}

void Ledger::RemovePod(std::string_view uid) {
  if (impl_->ErasePod(uid)) {
    ++impl_->version;
  }
}

void Ledger::PutGang(const Gang& gang) {
  CHECK_THAT(!gang.uid.empty(), "a gang in the ledger has a uid");
  GangEntry& entry = impl_->EntryFor(gang.uid);
  impl_->RemoveHomes(entry);
  entry.decided = true;
  entry.gang = gang;
  entry.gang.blocks.clear();
  entry.gang.spares.clear();
  entry.gang.request = WithoutNegatives(gang.request);
  impl_->AddSpares(entry, gang.spares);
  impl_->AddBlocks(entry, InRankOrder(gang.blocks));
  ++impl_->version;
}

void Ledger::RemoveGang(std::string_view uid) {
  const auto it = impl_->gangs.find(uid);
  if (it == impl_->gangs.end() || !it->second->decided) {
    return;
  }
  GangEntry& entry = *it->second;
  impl_->RemoveHomes(entry);
  entry.decided = false;
  entry.gang = Gang();
  impl_->DropEntryIfEmpty(std::string(uid));
  ++impl_->version;
}

}  // namespace asterism::scheduler
