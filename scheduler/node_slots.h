// File: scheduler/node_slots.h
//
// How many pods of a gang each node has room for. Internal to placement.
//
//   NodeSlots slots;
//   slots.ScanFree(request, ledger, {});      // now
//   slots.ScanEmpty(request, ledger);         // as if nobody held anything: for Never
//   slots.Select(ledger, product, rules);
//
// Scan is done once a call, Select once for each product and rule set that is tried: it leaves
// room only on nodes of the product and in named domains of the levels that rules ask for.
//
// Thread-safety: none; buffers are kept between scans. Cost: O(nodes x requested resources).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/ledger.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {

class NodeSlots {
 public:
  // An amount that stands for "more than any gang asks for"; sums over all nodes stay in 64 bits.
  static constexpr int64_t kManySlots = int64_t{1} << 32;

  // Free, or held by the gang itself, on nodes that may take a new pod of it; without the nodes
  // named in `excluded`, and less what its kept pods use.
  // `ended`: gangs that count as gone.
  void ScanFree(const PlacementRequest& request, const Ledger& ledger,
                std::span<const ExpectedEnd> ended);
  // All allocatable of all nodes, usable or not.
  void ScanEmpty(const PlacementRequest& request, const Ledger& ledger);
  // As ScanFree, nodes that are not usable included: to tell what a repair would change.
  void ScanRepaired(const PlacementRequest& request, const Ledger& ledger);

  // Of the degraded nodes with room, in their order, only the first `count` may be used from now
  // on. A scan leaves all of them open.
  void OpenDegraded(size_t count);
  size_t degraded_count() const { return degraded_; }
  // From now on only pods that find room inside one island of GPUs each (gpu_islands.h) count, or
  // again all. A scan counts all.
  void KeepIslandsWhole(bool whole);
  // Somewhere it makes a difference.
  bool islands_matter() const { return islands_matter_; }

  // `product` is an index into ledger.product_names().
  void Select(const Ledger& ledger, uint32_t product, std::span<const LevelRule> rules);

  // Takes a node out of the selection.
  void Drop(size_t node);

  // By node, of the selected ones.
  std::span<const int64_t> slots() const { return narrowed_ ? slots_ : all_slots_; }
  // Free GPUs, or slots where the gang asks for no GPU. What best fit compares.
  std::span<const int64_t> room() const { return narrowed_ ? room_ : all_room_; }

 private:
  void ScanAmounts(const PlacementRequest& request, const Ledger& ledger);
  void ScanRoom(const PlacementRequest& request, const Ledger& ledger);
  void AddHeld(const PlacementRequest& request, const Ledger& ledger,
               std::span<const ExpectedEnd> ended);
  void DropNodes(const PlacementRequest& request, const Ledger& ledger, bool unusable_too);
  void FindSpecial(const PlacementRequest& request, const Ledger& ledger);
  void ForgetSpecial();
  void ApplySpecial();
  void SubtractKept(const PlacementRequest& request, const Ledger& ledger);

  std::vector<int64_t> all_slots_;
  std::vector<int64_t> all_room_;
  // A copy with some nodes taken out, or not in use.
  bool narrowed_ = false;
  std::vector<int64_t> slots_;
  std::vector<int64_t> room_;

  // A node with room that is degraded, or where fewer pods find room inside islands.
  struct Special {
    uint32_t node = 0;
    int64_t slots = 0;
    int64_t whole = 0;
    int64_t room = 0;
    size_t degraded = 0;  // the how manieth of them it is, from 1; 0: none
  };
  std::vector<Special> special_;
  size_t degraded_ = 0;
  bool islands_matter_ = false;
  size_t open_degraded_ = 0;
  bool whole_ = false;

  struct Held {
    uint32_t node = 0;
    ResourceVector free;  // as if the gang had let go
  };
  std::vector<Held> held_;
  std::vector<uint32_t> held_index_;  // by node: 1 + index into held_, 0 between scans
};

}  // namespace asterism::scheduler
