#include "scheduler/domain_search.h"

#include <algorithm>
#include <tuple>

namespace asterism::scheduler {

void DomainSearch::Load(const PlacementTree& tree, const GangShape& shape,
                        const UnitCapacity& capacity, std::span<const int64_t> room) {
  tree_ = &tree;
  shape_ = &shape;
  capacity_ = &capacity;
  room_[0].assign(room.begin(), room.end());
  for (size_t level = 1; level < tree.levels(); ++level) {
    room_[level].assign(tree.domain_count(level), 0);
    for (uint32_t child = 0; child < tree.domain_count(level - 1); ++child) {
      room_[level][tree.Parent(level - 1, child)] += room_[level - 1][child];
    }
  }
}

bool DomainSearch::RoomIsLess(size_t level, uint32_t left, uint32_t right) const {
  for (; level < tree_->levels() && left != right; ++level) {
    if (room_[level][left] != room_[level][right]) {
      return room_[level][left] < room_[level][right];
    }
    if (level == tree_->root_level()) {
      break;
    }
    left = tree_->Parent(level, left);
    right = tree_->Parent(level, right);
  }
  return false;  // the lower id, which is the one found first
}

bool DomainSearch::FindTightest() {
  if (!capacity_->FitsCluster()) {
    return false;
  }
  for (size_t level = 0; level < tree_->levels(); ++level) {
    bool found = false;
    for (uint32_t domain = 0; domain < tree_->domain_count(level); ++domain) {
      if (capacity_->Fits(level, domain) && (!found || RoomIsLess(level, domain, tightest_))) {
        found = true;
        tightest_ = domain;
      }
    }
    if (found) {
      tightest_level_ = level;
      return true;
    }
  }
  return false;
}

// The domains around `domain` give all they have to it.
void DomainSearch::GiveAllTo(size_t level, uint32_t domain) {
  quota_.Clear(*tree_);
  for (;; ++level) {
    quota_.Set(level, domain, capacity_->free_full(level), capacity_->free_tail(level));
    if (level == tree_->root_level()) {
      return;
    }
    domain = tree_->Parent(level, domain);
  }
}

bool DomainSearch::Distribute(PlacementPolicy policy) {
  const bool whole_cluster = policy == PlacementPolicy::kSpread;
  const size_t top = whole_cluster ? tree_->root_level() : tightest_level_;
  const uint32_t domain = whole_cluster ? 0 : tightest_;
  GiveAllTo(top, domain);
  return top == 0 || Split(top, domain, policy);
}

bool DomainSearch::DistributeBy(std::span<const size_t> first) {
  const size_t top = tree_->root_level();
  GiveAllTo(top, 0);
  const Share share = LoadOf(top, 0);
  exact_.Load(*tree_, *shape_, *capacity_, room_);
  exact_.SetOrder(first, top);
  return exact_.Solve(top, 0, share.units, share.tail, quota_);
}

void DomainSearch::LoadChildren(size_t level, uint32_t domain, bool with_tail) {
  children_.clear();
  const uint32_t end = tree_->FirstChild(level, domain + 1);
  for (uint32_t index = tree_->FirstChild(level, domain); index < end; ++index) {
    ChildShare child;
    child.domain = index;
    child.full = capacity_->full(level - 1, index);
    child.tail = with_tail ? capacity_->tail(level - 1, index) : -1;
    if (child.full == 0 && child.tail < 0) {
      continue;
    }
    child.room = room_[level - 1][index];
    child.open = capacity_->kept_in(level - 1, index) > 0;
    children_.push_back(child);
  }
}

DomainSearch::Share DomainSearch::LoadOf(size_t level, uint32_t domain) const {
  const bool tail_here = quota_.tail(level, domain);
  Share share;
  share.units = quota_.blocks(level, domain) * shape_->ratio[level] +
                capacity_->demand(level, domain) + (tail_here ? shape_->tail_blocks[level] : 0);
  share.tail = (tail_here && shape_->has_tail(level - 1)) || capacity_->demands_tail(level, domain);
  return share;
}

bool DomainSearch::Split(size_t level, uint32_t domain, PlacementPolicy policy) {
  const Share share = LoadOf(level, domain);
  if (share.units > 0 || share.tail) {
    LoadChildren(level, domain, share.tail);
    if (policy == PlacementPolicy::kSpread) {
      if (!FillEvenly(level, share.units, share.tail)) {
        return false;
      }
    } else if (!TakeAll(level, share.units, share.tail)) {
      exact_.Load(*tree_, *shape_, *capacity_, room_);
      exact_.SetOrder({}, level);
      if (exact_.Solve(level, domain, share.units, share.tail, quota_)) {
        return true;
      }
      if (!FillFewest(level, share.units, share.tail)) {
        return false;
      }
    }
  }
  if (level == 1) {
    return true;
  }
  const uint32_t end = tree_->FirstChild(level, domain + 1);
  for (uint32_t child = tree_->FirstChild(level, domain); child < end; ++child) {
    const bool used = quota_.blocks(level - 1, child) > 0 || quota_.tail(level - 1, child) ||
                      capacity_->kept_in(level - 1, child) > 0;
    if (used && !Split(level - 1, child, policy)) {
      return false;
    }
  }
  return true;
}

// True when the children have just enough room together.
bool DomainSearch::TakeAll(size_t level, int64_t units, bool with_tail) {
  int64_t sum = 0;
  for (const ChildShare& child : children_) {
    sum += child.full;
  }
  if (with_tail || sum != units) {
    return false;
  }
  for (const ChildShare& child : children_) {
    quota_.Set(level - 1, child.domain, child.full, false);
  }
  return true;
}

bool DomainSearch::FillFewest(size_t level, int64_t units, bool with_tail) {
  if (!ShareOverFewest(children_, units, with_tail)) {
    return false;
  }
  for (const ChildShare& child : children_) {
    if (child.taken > 0 || child.takes_tail) {
      quota_.Set(level - 1, child.domain, child.taken, child.takes_tail);
    }
  }
  return true;
}

// Levels the parts like water: each child gets the same, or all it has room for. The tail counts as
// one part more: on a child that can take nothing else, or on the one that loses least by it.
bool DomainSearch::FillEvenly(size_t level, int64_t units, bool with_tail) {
  uint32_t host = UnitCapacity::kFree;
  if (with_tail) {
    const ChildShare* best = nullptr;
    for (const ChildShare& child : children_) {
      const auto rank = [](const ChildShare& of) {
        return std::tuple(of.full == 0, of.tail - of.full, of.room);
      };
      if (child.tail >= 0 && (best == nullptr || rank(child) > rank(*best))) {
        best = &child;
      }
    }
    if (best == nullptr) {
      return false;
    }
    host = best->domain;
  }
  for (ChildShare& child : children_) {
    child.full = child.domain == host ? child.tail + 1 : child.full;
  }
  // Those behind get what does not divide: the roomiest.
  std::sort(children_.begin(), children_.end(),
            [](const ChildShare& left, const ChildShare& right) {
              if (left.full != right.full) {
                return left.full < right.full;
              }
              if (left.open != right.open) {
                return left.open;
              }
              return left.room != right.room ? left.room < right.room : left.domain > right.domain;
            });
  int64_t rest = units + (with_tail ? 1 : 0);
  for (size_t i = 0; i < children_.size(); ++i) {
    const ChildShare& child = children_[i];
    const bool hosts = child.domain == host;
    const int64_t share = rest / static_cast<int64_t>(children_.size() - i);
    const int64_t part = std::min(child.full, std::max<int64_t>(share, hosts ? 1 : 0));
    quota_.Set(level - 1, child.domain, part - (hosts ? 1 : 0), hosts);
    rest -= part;
  }
  return rest == 0;
}

}  // namespace asterism::scheduler
