#include "scheduler/rank_order.h"

#include "base/check.h"

namespace asterism::scheduler {

void RankOrder::Assign(const PlacementTree& tree, const GangShape& shape,
                       const UnitCapacity& capacity, DomainQuota& quota,
                       std::vector<NodeId>& nodes) {
  if (!capacity.has_kept()) {
    nodes.clear();
    AssignDomain(tree, shape, quota, tree.root_level(), 0, nodes);
    CHECK_THAT(nodes.size() == static_cast<size_t>(shape.pods),
               "as many homes were chosen as the gang has pods");
    return;
  }
  home_[tree.root_level()].assign(static_cast<size_t>(shape.blocks(tree.root_level())), 0);
  for (size_t level = tree.root_level(); level > 0; --level) {
    AssignLevel(tree, shape, capacity, quota, level);
  }
  nodes.resize(static_cast<size_t>(shape.pods));
  size_t pod = 0;
  for (int64_t block = 0; block < shape.blocks(0); ++block) {
    const NodeId node(home_[0][static_cast<size_t>(block)]);
    for (int64_t i = 0; i < shape.PodsOf(0, block); ++i) {
      nodes[pod++] = node;
    }
  }
}

void RankOrder::AssignDomain(const PlacementTree& tree, const GangShape& shape,
                             const DomainQuota& quota, size_t level, uint32_t domain,
                             std::vector<NodeId>& nodes) {
  if (level == 0) {
    const int64_t pods =
        quota.blocks(0, domain) * shape.block[0] + (quota.tail(0, domain) ? shape.tail_pods[0] : 0);
    nodes.insert(nodes.end(), static_cast<size_t>(pods), NodeId(domain));
    return;
  }
  const uint32_t end = tree.FirstChild(level, domain + 1);
  uint32_t tail = end;
  for (uint32_t child = tree.FirstChild(level, domain); child < end; ++child) {
    if (quota.tail(level - 1, child)) {
      tail = child;  // the end of the gang
    } else if (quota.blocks(level - 1, child) > 0) {
      AssignDomain(tree, shape, quota, level - 1, child, nodes);
    }
  }
  if (tail < end) {
    AssignDomain(tree, shape, quota, level - 1, tail, nodes);
  }
}

// The first child with something left; the one that takes the tail comes last.
uint32_t RankOrder::NextChild(const PlacementTree& tree, DomainQuota& quota, size_t level,
                              uint32_t domain) {
  const uint32_t end = tree.FirstChild(level, domain + 1);
  uint32_t& cursor = cursor_[domain];
  while (cursor < end && (quota.blocks(level - 1, cursor) == 0 || quota.tail(level - 1, cursor))) {
    ++cursor;
  }
  if (cursor < end) {
    return cursor;
  }
  for (uint32_t child = tree.FirstChild(level, domain); child < end; ++child) {
    if (quota.blocks(level - 1, child) > 0) {
      return child;
    }
  }
  CHECK_THAT(false, "fewer homes were chosen than the gang has blocks");
  return 0;
}

// Homes of the blocks of `level` - 1, given those of `level`.
void RankOrder::AssignLevel(const PlacementTree& tree, const GangShape& shape,
                            const UnitCapacity& capacity, DomainQuota& quota, size_t level) {
  const size_t inner = level - 1;
  const int64_t blocks = shape.blocks(inner);
  std::vector<uint32_t>& home = home_[inner];
  home.assign(static_cast<size_t>(blocks), UnitCapacity::kFree);
  cursor_.resize(tree.domain_count(level));
  for (uint32_t domain = 0; domain < cursor_.size(); ++domain) {
    cursor_[domain] = tree.FirstChild(level, domain);
  }
  upcoming_.clear();
  if (capacity.has_kept()) {
    upcoming_.assign(static_cast<size_t>(blocks) + 1, UnitCapacity::kFree);
    for (int64_t block = blocks; block-- > 0;) {
      const size_t index = static_cast<size_t>(block);
      const uint32_t anchor = capacity.anchor(inner, block);
      upcoming_[index] = anchor == UnitCapacity::kFree ? upcoming_[index + 1] : anchor;
    }
  }
  uint32_t previous = UnitCapacity::kFree;
  for (int64_t block = 0; block < blocks; ++block) {
    const size_t index = static_cast<size_t>(block);
    const uint32_t domain = home_[level][static_cast<size_t>(shape.Parent(level, block))];
    const auto usable = [&](uint32_t child) {
      return child != UnitCapacity::kFree && tree.Parent(inner, child) == domain &&
             quota.blocks(inner, child) > 0;
    };
    uint32_t chosen = capacity.anchor(inner, block);
    if (chosen != UnitCapacity::kFree) {
      home[index] = chosen;
      previous = chosen;
      continue;
    }
    if (block >= shape.full[inner]) {
      chosen = tree.FirstChild(level, domain);
      const uint32_t end = tree.FirstChild(level, domain + 1);
      while (chosen < end && !quota.tail(inner, chosen)) {
        ++chosen;
      }
      CHECK_THAT(chosen < end, "no home was chosen for the last block of the gang");
    } else {
      const uint32_t upcoming = upcoming_.empty() ? UnitCapacity::kFree : upcoming_[index];
      if (usable(previous)) {
        chosen = previous;
      } else if (usable(upcoming)) {
        chosen = upcoming;
      } else {
        chosen = NextChild(tree, quota, level, domain);
      }
      quota.TakeOne(inner, chosen);
    }
    home[index] = chosen;
    previous = chosen;
  }
}

}  // namespace asterism::scheduler
