// File: scheduler/extender/node_score.h
//
// Whether a single pod fits a node beside everything that the ledger holds, and how good a home the
// node is: single pods fill what is broken already, so that whole supernodes stay whole for gangs.
//
//   PodDemand demand = DemandOf(pod.requests, view, gpu_resources);
//   if (Fits(view.nodes[id], demand)) score = ScoreNode(view, demand, usage, id);
//
// Score, 0 to 10, of a node that fits; `left` = GPUs that stay free beside the pod:
//   7..10  the node has GPU holders already: 10 - min(3, ceil(3 * left / allocatable)); the fullest
//          node after the pod is best
//   4..6   the node is free, its supernode (domain of level 1) is not whole: 4 + floor(3 * gone /
//   all),
//          `gone` = GPUs of the supernode that are held or stand on unusable nodes, `all` = its
//          GPUs
//   0      the whole supernode is free
// Without level 1 a node is its own supernode. Nodes that do not fit get 0.
//
// Thread-safety: pure. Cost: Fits some nanoseconds; MeasureSupernodes about 3 ns a node, once for
// each version of the ledger.
#pragma once

#include <array>
#include <cstdint>
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
};

// What a pod asks for, in slots of one view.
class PodDemand {
 public:
  void Add(size_t slot, int64_t amount) { amounts_[size_++] = {slot, amount}; }
  std::span<const SlotAmount> amounts() const { return {amounts_.data(), size_}; }

  // The tracked GPU resource that it asks for; absent: no GPUs that the ledger counts.
  std::optional<SlotAmount> gpus;

 private:
  std::array<SlotAmount, kResourceSlots> amounts_{};
  size_t size_ = 0;
};

// `gpu_resources`: names that count GPUs, most important first.
PodDemand DemandOf(const kube::ResourceAmounts& requests, const LedgerView& view,
                   std::span<const std::string> gpu_resources);

inline bool Fits(const NodeView& node, const PodDemand& demand) {
  if (!node.usable) {
    return false;
  }
  for (const SlotAmount& wanted : demand.amounts()) {
    if (node.used[wanted.slot] > node.allocatable[wanted.slot] - wanted.amount) {
      return false;
    }
  }
  return true;
}

// The first resource that is short, for a message; absent when everything fits.
std::optional<SlotAmount> FirstShortage(const NodeView& node, const PodDemand& demand);

// How whole each domain of level 1 is, in one GPU slot of one version.
class SupernodeUse {
 public:
  struct Use {
    int64_t all = 0;
    int64_t gone = 0;
  };

  SupernodeUse(const LedgerView& view, size_t gpu_slot);
  bool IsOf(const LedgerView& view, size_t gpu_slot) const {
    return version_ == view.version && cluster_ == view.cluster && gpu_slot_ == gpu_slot &&
           supernode_of_node_.size() == view.nodes.size();
  }
  const Use& OfNode(size_t node) const { return uses_[supernode_of_node_[node]]; }

 private:
  uint64_t version_;
  std::shared_ptr<const topology::Cluster> cluster_;
  size_t gpu_slot_;
  std::vector<uint32_t> supernode_of_node_;
  std::vector<Use> uses_;
};

// `node` fits and `demand.gpus` is present.
int ScoreNode(const NodeView& node, const SlotAmount& gpus, const SupernodeUse::Use& supernode);

}  // namespace asterism::scheduler::extender
