// File: scheduler/ledger_impl.h
//
// The inside of the ledger: pods and gangs, and which pod is the present one of which block.
// Include it from the ledger's own sources only.
//
//   PodRecord* pod = impl.PresentPod(entry, block);   // by the rule, not by what is booked
//
// Thread-safety: none. Cost: a change touches the pod, its block, and the other pods of that block.
// Invariant: a block and a spare always hold on their places; a stored pod that is bound and is not
// the present pod of a block holds on its node too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "base/strings.h"
#include "scheduler/ledger.h"
#include "scheduler/ledger_rows.h"

namespace asterism::scheduler {

// Of two names "namespace/name": a pod of another namespace is none of the gang's, whatever it
// says.
bool SameNamespace(std::string_view pod, std::string_view gang);

struct PodRecord {
  PodState state;
  PlaceId place = 0;  // of its node, or of its pin while it has no node
  bool foreign = false;

  bool bound() const { return !state.node.empty(); }
};

struct BlockRecord {
  int64_t first_rank = 0;
  int64_t epoch = 0;
  PlaceId place = 0;
  PodRecord* pod = nullptr;  // the present pod
};

struct SpareRecord {
  PlaceId place = 0;
  int64_t epoch = 0;
};

// A gang, the pods that name it, or both.
struct GangEntry {
  bool decided = false;  // PutGang came
  Gang gang;             // without its blocks and spares
  std::vector<BlockRecord> blocks;
  std::vector<SpareRecord> spares;
  // Sorted by uid, by first rank.
  absl::flat_hash_map<int64_t, absl::InlinedVector<PodRecord*, 1>> pods;
  mutable std::shared_ptr<const GangView> view;  // null: to be built

  BlockRecord* FindBlock(int64_t first_rank);
};

struct Ledger::Impl {
  explicit Impl(ResourceTable& resource_table) : table(resource_table) {}

  // What the block holds: the gang's request, or more where its pod asks for more.
  static ResourceVector Held(const GangEntry& entry, const BlockRecord& block);
  static PodRecord* PresentPod(const GangEntry& entry, const BlockRecord& block);
  std::shared_ptr<const GangView> ViewOf(const GangEntry& entry) const;
  const GangEntry* FindEntry(std::string_view uid) const;

  GangEntry& EntryFor(const std::string& uid);
  void DropEntryIfEmpty(const std::string& uid);
  void AddPod(const PodState& pod);
  bool ErasePod(std::string_view uid);
  void AddBlocks(GangEntry& entry, const std::vector<RankBlock>& blocks);
  void AddSpares(GangEntry& entry, const std::vector<Spare>& spares);
  void RemoveHomes(GangEntry& entry);
  void ChoosePod(GangEntry& entry, BlockRecord& block);
  // Only the block: the pod that it had is left to the caller. Returns that one.
  PodRecord* SwapPresentPod(GangEntry& entry, BlockRecord& block, PodRecord* pod);
  void SetPresentPod(GangEntry& entry, BlockRecord& block, PodRecord* pod);
  void SetForeign(PodRecord& pod, bool foreign);

  ResourceTable& table;
  LedgerRows rows;
  std::map<std::string, std::unique_ptr<PodRecord>, std::less<>> pods;   // by uid
  std::map<std::string, std::unique_ptr<GangEntry>, std::less<>> gangs;  // by uid
  uint64_t version = 0;
  mutable std::shared_ptr<const LedgerView> view;  // of `version`, or null
};

}  // namespace asterism::scheduler
