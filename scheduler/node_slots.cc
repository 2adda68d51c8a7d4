#include "scheduler/node_slots.h"

#include <algorithm>
#include <limits>

#include "scheduler/gpu_islands.h"

namespace asterism::scheduler {
namespace {

bool ClassAllowed(const base::Bitmap& allowed, uint32_t node_class) {
  return allowed.size() == 0 || (node_class < allowed.size() && allowed.Test(node_class));
}

int64_t Room(const PlacementRequest& request, int64_t free_gpus, int64_t slots) {
  const bool by_gpus = request.gpu_slot < kResourceSlots && request.request[request.gpu_slot] > 0;
  return std::clamp<int64_t>(by_gpus ? free_gpus : slots, 0, NodeSlots::kManySlots);
}

int64_t FreeGpus(const PlacementRequest& request, const ResourceVector& amounts) {
  return request.gpu_slot < kResourceSlots ? amounts[request.gpu_slot] : 0;
}

// slots[i] = min(slots[i], free[i] / amount). Most nodes are settled by comparisons alone.
void LimitBy(std::span<const int64_t> free, int64_t amount, std::vector<int64_t>& slots) {
  const int64_t safe = std::numeric_limits<int64_t>::max() / amount;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (free[i] < amount) {
      slots[i] = 0;
    } else if (slots[i] > safe || free[i] < slots[i] * amount) {
      slots[i] = std::min(slots[i], free[i] / amount);
    }
  }
}

}  // namespace

void NodeSlots::ScanAmounts(const PlacementRequest& request, const Ledger& ledger) {
  all_slots_.assign(ledger.node_count(), kManySlots);
  // The GPUs first: they leave small numbers, so that the others need no division.
  if (request.gpu_slot < kResourceSlots && request.request[request.gpu_slot] > 0) {
    LimitBy(ledger.FreeColumn(request.gpu_slot), request.request[request.gpu_slot], all_slots_);
  }
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    if (slot != request.gpu_slot && request.request[slot] > 0) {
      LimitBy(ledger.FreeColumn(slot), request.request[slot], all_slots_);
    }
  }
}

void NodeSlots::ScanRoom(const PlacementRequest& request, const Ledger& ledger) {
  all_room_.resize(ledger.node_count());
  if (request.gpu_slot >= kResourceSlots || request.request[request.gpu_slot] <= 0) {
    all_room_ = all_slots_;
    return;
  }
  const std::span<const int64_t> free = ledger.FreeColumn(request.gpu_slot);
  for (size_t i = 0; i < all_room_.size(); ++i) {
    all_room_[i] = std::clamp<int64_t>(free[i], 0, kManySlots);
  }
}

void NodeSlots::AddHeld(const PlacementRequest& request, const Ledger& ledger,
                        std::span<const ExpectedEnd> ended) {
  held_.clear();
  held_index_.resize(ledger.node_count());
  const auto add = [&](NodeId node, const ResourceVector& amounts) {
    uint32_t& index = held_index_[node.index()];
    if (index == 0) {
      held_.push_back({static_cast<uint32_t>(node.index()), ledger.Free(node)});
      index = static_cast<uint32_t>(held_.size());
    }
    held_[index - 1].free.Add(amounts);
  };
  ledger.ForEachHeld(request.gang_uid, add);
  for (const ExpectedEnd& end : ended) {
    ledger.ForEachHeld(end.gang_uid, add);
  }
  for (const Held& held : held_) {
    all_slots_[held.node] = held.free.TimesFits(request.request, kManySlots);
    all_room_[held.node] = Room(request, FreeGpus(request, held.free), all_slots_[held.node]);
    held_index_[held.node] = 0;
  }
}

void NodeSlots::DropNodes(const PlacementRequest& request, const Ledger& ledger,
                          bool unusable_too) {
  const std::span<const uint8_t> placeable = ledger.PlaceableColumn();
  const std::span<const uint32_t> classes = ledger.NodeClassColumn();
  for (size_t i = 0; i < all_slots_.size(); ++i) {
    if ((placeable[i] == 0 && !unusable_too) || !ClassAllowed(request.node_classes, classes[i])) {
      all_slots_[i] = 0;
      all_room_[i] = 0;
    }
  }
  for (const std::string& name : request.excluded) {
    if (const NodeId node = ledger.cluster().FindNode(name); node.valid()) {
      all_slots_[node.index()] = 0;
      all_room_[node.index()] = 0;
    }
  }
}

void NodeSlots::SubtractKept(const PlacementRequest& request, const Ledger& ledger) {
  for (const std::string& name : request.kept) {
    if (name.empty()) {
      continue;
    }
    if (const NodeId node = ledger.cluster().FindNode(name); node.valid()) {
      int64_t& slots = all_slots_[node.index()];
      slots = std::max<int64_t>(slots - 1, 0);
      int64_t& room = all_room_[node.index()];
      room = std::max<int64_t>(room - std::max<int64_t>(FreeGpus(request, request.request), 1), 0);
    }
  }
}

void NodeSlots::FindSpecial(const PlacementRequest& request, const Ledger& ledger) {
  const std::span<const uint8_t> degraded = ledger.DegradedColumn();
  const std::span<const uint8_t> split = ledger.SplitColumn();
  const int64_t gpus = FreeGpus(request, request.request);
  for (uint32_t node = 0; node < std::max(degraded.size(), split.size()); ++node) {
    const bool is_degraded = !degraded.empty() && degraded[node] != 0;
    const bool is_split = !split.empty() && split[node] != 0;
    if (all_slots_[node] == 0 || (!is_degraded && !is_split)) {
      continue;
    }
    Special each{node, all_slots_[node], all_slots_[node], all_room_[node]};
    if (is_split) {
      const NodeId id(node);
      const int64_t whole =
          WholePods(ledger.gpu_islands(id), gpus, FreeGpus(request, ledger.Free(id)));
      each.whole = std::min(whole, each.slots);
      islands_matter_ = islands_matter_ || each.whole < each.slots;
    }
    if (is_degraded) {
      each.degraded = ++degraded_;
    }
    if (is_degraded || each.whole < each.slots) {
      special_.push_back(each);
    }
  }
  open_degraded_ = degraded_;
}

void NodeSlots::ForgetSpecial() {
  special_.clear();
  degraded_ = 0;
  islands_matter_ = false;
  open_degraded_ = 0;
  whole_ = false;
}

void NodeSlots::ApplySpecial() {
  for (const Special& each : special_) {
    const bool open = each.degraded <= open_degraded_;
    all_slots_[each.node] = !open ? 0 : whole_ ? each.whole : each.slots;
    all_room_[each.node] = open ? each.room : 0;
  }
}

void NodeSlots::OpenDegraded(size_t count) {
  open_degraded_ = count;
  ApplySpecial();
}

void NodeSlots::KeepIslandsWhole(bool whole) {
  whole_ = whole;
  ApplySpecial();
}

void NodeSlots::ScanFree(const PlacementRequest& request, const Ledger& ledger,
                         std::span<const ExpectedEnd> ended) {
  ScanAmounts(request, ledger);
  ScanRoom(request, ledger);
  AddHeld(request, ledger, ended);
  DropNodes(request, ledger, false);
  SubtractKept(request, ledger);
  ForgetSpecial();
  FindSpecial(request, ledger);
}

void NodeSlots::ScanRepaired(const PlacementRequest& request, const Ledger& ledger) {
  ScanAmounts(request, ledger);
  ScanRoom(request, ledger);
  ForgetSpecial();
  AddHeld(request, ledger, {});
  DropNodes(request, ledger, true);
  SubtractKept(request, ledger);
}

void NodeSlots::ScanEmpty(const PlacementRequest& request, const Ledger& ledger) {
  const std::span<const uint32_t> classes = ledger.NodeClassColumn();
  ForgetSpecial();
  all_slots_.assign(ledger.node_count(), 0);
  all_room_.assign(ledger.node_count(), 0);
  for (size_t i = 0; i < all_slots_.size(); ++i) {
    if (!ClassAllowed(request.node_classes, classes[i])) {
      continue;
    }
    const ResourceVector& allocatable = ledger.node_state(NodeId(i)).allocatable;
    all_slots_[i] = allocatable.TimesFits(request.request, kManySlots);
    all_room_[i] = Room(request, FreeGpus(request, allocatable), all_slots_[i]);
  }
}

void NodeSlots::Drop(size_t node) {
  if (!narrowed_) {
    narrowed_ = true;
    slots_ = all_slots_;
    room_ = all_room_;
  }
  slots_[node] = 0;
  room_[node] = 0;
}

void NodeSlots::Select(const Ledger& ledger, uint32_t product, std::span<const LevelRule> rules) {
  narrowed_ = false;
  const std::span<const uint32_t> products = ledger.ProductColumn();
  if (ledger.product_names().size() > 1) {
    for (size_t node = 0; node < products.size(); ++node) {
      if (products[node] != product) {
        Drop(node);
      }
    }
  }
  const topology::Cluster& cluster = ledger.cluster();
  for (const LevelRule& rule : rules) {
    if (rule.level == 0 || rule.level + 1 >= cluster.level_count()) {
      continue;  // nodes and the whole cluster always have a name
    }
    for (size_t index = 0; index < cluster.domain_count(rule.level); ++index) {
      const topology::DomainId domain(index);
      if (cluster.named(rule.level, domain)) {
        continue;
      }
      const topology::NodeRange range = cluster.NodesOf(rule.level, domain);
      for (size_t node = range.begin.index(); node < range.end.index(); ++node) {
        Drop(node);
      }
    }
  }
}

}  // namespace asterism::scheduler
