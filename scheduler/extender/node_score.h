// File: scheduler/extender/node_score.h
//
// Whether a single pod fits a node beside everything that the ledger holds, and how good a home the
// node is: single pods fill what is broken already, so that whole supernodes stay whole for gangs.
//
//   PodDemand demand = DemandOf(pod.requests, view, gpu_resources);
//   NodeScores scores(view, demand);
//   if (scores.fits(id)) use(scores.score(id));
//
// Score, 0 to 10, of a node that fits; `left` = GPUs that stay free beside the pod:
//   7..10  the node has GPU holders already: 10 - min(3, ceil(3 * left / allocatable)); the fullest
//          node after the pod is best
//   4..6   the node is free, its supernode (domain of level 1) is not whole: 4 + floor(3 * gone /
//   all),
//          `gone` = GPUs of the supernode that are held or stand on unusable nodes, `all` = its
//          GPUs
//   1      there is room, and no island of GPUs (gpu_islands.h) that holds the pod
//   0      the whole supernode is free
// Without level 1 a node is its own supernode. Nodes that do not fit get 0.
//
// Thread-safety: pure. Cost: Fits some nanoseconds; NodeScores about 5 ns a node of the ledger.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kube/pod.h"
#include "scheduler/ledger.h"

namespace asterism::scheduler::extender {

struct SlotAmount {
  size_t slot = 0;
  int64_t amount = 0;

  bool operator==(const SlotAmount&) const = default;
};

// What a pod asks for, in slots of one view.
class PodDemand {
 public:
  // A slot once only; amount > 0.
  void Add(size_t slot, int64_t amount);
  std::span<const SlotAmount> amounts() const { return {amounts_.data(), size_}; }
  bool operator==(const PodDemand&) const = default;

  // Whether that much is left of `allocatable`. Slots go four at a time without a branch, which
  // compilers turn into vector instructions.
  bool FitsInto(const ResourceVector& allocatable, const ResourceVector& used) const {
    for (size_t group = 0; group < groups_; ++group) {
      int64_t over = 0;
      for (size_t i = 0; i < kGroup; ++i) {
        const size_t slot = group * kGroup + i;
        over |= used[slot] > allocatable[slot] - wanted_[slot] ? asked_[slot] : 0;
      }
      if (over != 0) {
        return false;
      }
    }
    return true;
  }

  // The tracked GPU resource that it asks for; absent: no GPUs that the ledger counts.
  std::optional<SlotAmount> gpus;

 private:
  static constexpr size_t kGroup = 4;
  static_assert(kResourceSlots % kGroup == 0);

  std::array<SlotAmount, kResourceSlots> amounts_{};
  size_t size_ = 0;
  std::array<int64_t, kResourceSlots> wanted_{};
  std::array<int64_t, kResourceSlots> asked_{};  // -1 for slots with an amount
  size_t groups_ = 0;                            // of kGroup slots that hold all of them
};

// `gpu_resources`: names that count GPUs, most important first.
PodDemand DemandOf(const kube::ResourceAmounts& requests, const LedgerView& view,
                   std::span<const std::string> gpu_resources);

inline bool Fits(const NodeView& node, const PodDemand& demand) {
  return node.usable && demand.FitsInto(node.allocatable, node.used);
}

// The first resource that is short, for a message; absent when everything fits.
std::optional<SlotAmount> FirstShortage(const NodeView& node, const PodDemand& demand);

// Fit and score of every node of one version of the ledger for one demand, which asks for GPUs.
class NodeScores {
 public:
  NodeScores(const LedgerView& view, const PodDemand& demand);

  // True when these are the scores of that demand in that version.
  bool AreOf(const LedgerView& view, const PodDemand& demand) const {
    return version_ == view.version && cluster_ == view.cluster &&
           scores_.size() == view.nodes.size() && demand_ == demand;
  }
  bool fits(uint32_t id) const { return scores_[id] != kUnfit; }
  uint8_t score(uint32_t id) const { return fits(id) ? scores_[id] : uint8_t{0}; }

 private:
  static constexpr uint8_t kBrokenIsland = 1;
  static constexpr uint8_t kUnfit = 255;
  static constexpr uint8_t kFreeNode = 254;  // until its supernode is known

  // Nodes [begin, end) are one supernode.
  void ScoreSupernode(const LedgerView& view, size_t begin, size_t end);

  uint64_t version_;
  std::shared_ptr<const topology::Cluster> cluster_;
  PodDemand demand_;
  std::vector<uint8_t> scores_;
};

}  // namespace asterism::scheduler::extender
