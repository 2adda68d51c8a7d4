#include "scheduler/unit_capacity.h"

#include <algorithm>

namespace asterism::scheduler {

void UnitCapacity::Load(const PlacementTree& tree, const GangShape& shape,
                        std::span<const int64_t> slots, std::span<const uint32_t> kept,
                        std::span<const int64_t> caps) {
  tree_ = &tree;
  shape_ = &shape;
  feasible_ = true;
  kept_pods_ = static_cast<int64_t>(
      std::count_if(kept.begin(), kept.end(), [](uint32_t node) { return node != kFree; }));
  for (size_t level = 0; level < shape.levels; ++level) {
    free_full_[level] = shape.full[level];
    free_tail_[level] = shape.has_tail(level);
  }
  if (has_kept()) {
    AnchorBlocks(kept);
    if (feasible_) {
      CountDemands();
      if (!caps.empty()) {
        CountCommitted(kept);
      }
    }
  }
  CountNodes(slots);
  ApplyCap(0, caps);
  for (size_t level = 1; level < shape.levels; ++level) {
    CountLevel(level);
    ApplyCap(level, caps);
  }
}

void UnitCapacity::CountCommitted(std::span<const uint32_t> kept) {
  for (size_t level = 0; level < shape_->levels; ++level) {
    committed_[level] = kept_count_[level];
    for (size_t pod = 0; pod < kept.size(); ++pod) {
      const uint32_t here = anchor(level, shape_->BlockOfPod(level, static_cast<int64_t>(pod)));
      if (kept[pod] == kFree && here != kFree) {
        ++committed_[level][here];
      }
    }
  }
}

void UnitCapacity::ApplyCap(size_t level, std::span<const int64_t> caps) {
  if (level >= caps.size() || caps[level] >= shape_->pods) {
    return;
  }
  const size_t domains = tree_->domain_count(level);
  if (full_view_[level].data() != full_[level].data()) {
    full_[level].assign(full_view_[level].begin(), full_view_[level].end());
    full_view_[level] = full_[level];
    tail_[level].assign(domains, -1);
  }
  const int64_t block = std::max<int64_t>(shape_->block[level], 1);
  for (uint32_t domain = 0; domain < domains; ++domain) {
    const int64_t left = caps[level] - (has_kept() && feasible_ ? committed_[level][domain] : 0);
    feasible_ = feasible_ && left >= 0;
    int64_t& full = full_[level][domain];
    full = std::min(full, std::max<int64_t>(left, 0) / block);
    int64_t& tail = tail_[level][domain];
    const int64_t beside = left - shape_->tail_pods[level];
    tail = beside < 0 ? -1 : std::min(tail, beside / block);
  }
}

void UnitCapacity::AnchorBlocks(std::span<const uint32_t> kept) {
  for (size_t level = 0; level < shape_->levels; ++level) {
    anchor_[level].assign(static_cast<size_t>(shape_->blocks(level)), kFree);
    demand_[level].assign(tree_->domain_count(level), 0);
    demands_tail_[level].assign(tree_->domain_count(level), 0);
    kept_count_[level].assign(tree_->domain_count(level), 0);
  }
  kept_in_block_.assign(static_cast<size_t>(shape_->blocks(0)), 0);
  for (size_t pod = 0; pod < kept.size(); ++pod) {
    if (kept[pod] == kFree) {
      continue;
    }
    uint32_t domain = kept[pod];
    ++kept_in_block_[static_cast<size_t>(shape_->BlockOfPod(0, static_cast<int64_t>(pod)))];
    for (size_t level = 0; level < shape_->levels; ++level) {
      if (level > 0) {
        domain = tree_->Parent(level - 1, domain);
      }
      ++kept_count_[level][domain];
      const int64_t block = shape_->BlockOfPod(level, static_cast<int64_t>(pod));
      uint32_t& anchor = anchor_[level][static_cast<size_t>(block)];
      if (anchor != kFree && anchor != domain) {
        feasible_ = false;
        return;
      }
      anchor = domain;
    }
  }
}

void UnitCapacity::CountDemands() {
  for (size_t level = 0; level < shape_->levels; ++level) {
    for (int64_t block = 0; block < shape_->blocks(level); ++block) {
      const uint32_t here = anchor(level, block);
      const bool is_tail = block >= shape_->full[level];
      if (here != kFree) {
        if (level == 0) {
          demand_[0][here] += shape_->PodsOf(0, block) - kept_in_block_[static_cast<size_t>(block)];
        }
        if (is_tail) {
          free_tail_[level] = false;
        } else {
          --free_full_[level];
        }
        continue;
      }
      if (level + 1 == shape_->levels) {
        continue;
      }
      const uint32_t above = anchor(level + 1, shape_->Parent(level + 1, block));
      if (above == kFree) {
        continue;
      }
      if (is_tail) {
        demands_tail_[level + 1][above] = 1;
      } else {
        ++demand_[level + 1][above];
      }
    }
  }
}

void UnitCapacity::CountNodes(std::span<const int64_t> slots) {
  const int64_t block = shape_->block[0];
  const int64_t tail_pods = shape_->tail_pods[0];
  if (block == 1 && !has_kept()) {
    full_view_[0] = slots;
    return;
  }
  full_[0].resize(tree_->node_count());
  full_view_[0] = full_[0];
  tail_[0].resize(tree_->node_count());
  for (uint32_t node = 0; node < tree_->node_count(); ++node) {
    const int64_t room = slots[node] - demand(0, node);
    if (room < 0) {
      feasible_ = false;
      full_[0][node] = 0;
      tail_[0][node] = -1;
      continue;
    }
    full_[0][node] = block == GangShape::kWholeGang ? 0 : room / block;
    if (tail_pods == 0 || room < tail_pods) {
      tail_[0][node] = -1;
    } else {
      tail_[0][node] = block == GangShape::kWholeGang ? 0 : (room - tail_pods) / block;
    }
  }
}

void UnitCapacity::CountLevel(size_t level) {
  const bool inner_tail = shape_->has_tail(level - 1);
  const int64_t ratio = shape_->ratio[level];
  const int64_t tail_blocks = shape_->tail_blocks[level];
  const std::span<const int64_t> inner = full_view_[level - 1];
  full_[level].resize(tree_->domain_count(level));
  full_view_[level] = full_[level];
  tail_[level].resize(tree_->domain_count(level));
  uint32_t child = 0;
  for (uint32_t domain = 0; domain < full_[level].size(); ++domain) {
    const uint32_t begin = child;
    const uint32_t end = tree_->FirstChild(level, domain + 1);
    int64_t sum = 0;
    for (; child < end; ++child) {
      sum += inner[child];
    }
    // What hosting the inner tail adds to the sum: 0, -1, or -2 where no child can. Then the sum is
    // 0, because a child with room for a whole block has room for the tail: what follows is < 0.
    int64_t change = inner_tail ? -2 : 0;
    for (child = begin; inner_tail && child < end; ++child) {
      if (tail_[level - 1][child] >= 0) {
        change = std::max(change, tail_[level - 1][child] - inner[child]);
      }
    }
    child = end;
    sum -= demand(level, domain);
    if (demands_tail(level, domain)) {
      sum += change;
    }
    if (sum < 0) {
      feasible_ = false;
      sum = 0;
    }
    full_[level][domain] = ratio > 1 ? sum / ratio : sum * ratio;
    int64_t beside_tail = -1;
    if (const int64_t rest = sum - tail_blocks + change; shape_->has_tail(level) && rest >= 0) {
      beside_tail = ratio > 1 ? rest / ratio : rest * ratio;
    }
    tail_[level][domain] = beside_tail;
  }
}

}  // namespace asterism::scheduler
