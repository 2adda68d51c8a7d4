#include "scheduler/domain_search.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

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

void DomainSearch::Distribute(PlacementPolicy policy) {
  const bool whole_cluster = policy == PlacementPolicy::kSpread;
  const size_t top = whole_cluster ? tree_->root_level() : tightest_level_;
  const uint32_t domain = whole_cluster ? 0 : tightest_;
  GiveAllTo(top, domain);
  if (top > 0) {
    Split(top, domain, policy);
  }
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
    Child child;
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

void DomainSearch::Split(size_t level, uint32_t domain, PlacementPolicy policy) {
  const Share share = LoadOf(level, domain);
  if (share.units > 0 || share.tail) {
    LoadChildren(level, domain, share.tail);
    if (policy == PlacementPolicy::kSpread) {
      FillEvenly(level, share.units, share.tail);
    } else if (!TakeAll(level, share.units, share.tail)) {
      exact_.Load(*tree_, *shape_, *capacity_, room_);
      exact_.SetOrder({}, level);
      if (exact_.Solve(level, domain, share.units, share.tail, quota_)) {
        return;
      }
      FillFewest(level, share.units, share.tail);
    }
  }
  if (level == 1) {
    return;
  }
  const uint32_t end = tree_->FirstChild(level, domain + 1);
  for (uint32_t child = tree_->FirstChild(level, domain); child < end; ++child) {
    if (quota_.blocks(level - 1, child) > 0 || quota_.tail(level - 1, child) ||
        capacity_->kept_in(level - 1, child) > 0) {
      Split(level - 1, child, policy);
    }
  }
}

// True when the children have just enough room together.
bool DomainSearch::TakeAll(size_t level, int64_t units, bool with_tail) {
  int64_t sum = 0;
  for (const Child& child : children_) {
    sum += child.full;
  }
  if (with_tail || sum != units) {
    return false;
  }
  for (const Child& child : children_) {
    quota_.Set(level - 1, child.domain, child.full, false);
  }
  return true;
}

// Takes the largest children whole until one child can take the rest; that one is chosen by best
// fit. The tail goes to the child among them that loses least by it.
void DomainSearch::FillFewest(size_t level, int64_t units, bool with_tail) {
  std::sort(children_.begin(), children_.end(), [](const Child& left, const Child& right) {
    if (left.open != right.open) {
      return left.open;
    }
    if (left.full != right.full) {
      return left.full > right.full;
    }
    return left.room != right.room ? left.room < right.room : left.domain < right.domain;
  });
  const Child* host = nullptr;  // of the tail, among the children taken so far
  const auto loss = [](const Child& child) { return child.full - child.tail; };
  int64_t rest = units;
  for (size_t taken = 0; taken < children_.size(); ++taken) {
    // Which of the others ends it, alone or with the tail on a child taken before?
    const Child* last = nullptr;
    bool last_hosts = false;
    for (size_t i = taken; i < children_.size(); ++i) {
      const Child& child = children_[i];
      const bool beside = !with_tail || host != nullptr;
      if (children_[taken].open && !child.open) {
        break;  // no new domain while an open one has room
      }
      const bool ends_plain = beside && child.full >= rest + (with_tail ? loss(*host) : 0);
      const bool ends_as_host = with_tail && child.tail >= rest;
      if (!ends_plain && !ends_as_host) {
        if (!child.open && child.full < rest) {
          break;  // those behind are no larger
        }
        continue;
      }
      const bool better = last == nullptr || (child.open && !last->open) ||
                          (child.open == last->open && child.room < last->room);
      if (better) {
        last = &child;
        last_hosts = ends_as_host;
      }
    }
    if (last != nullptr) {
      if (with_tail && !last_hosts) {
        quota_.Set(level - 1, host->domain, quota_.blocks(level - 1, host->domain) - loss(*host),
                   true);
        rest += loss(*host);
      }
      quota_.Set(level - 1, last->domain, rest, with_tail && last_hosts);
      return;
    }
    const Child& child = children_[taken];
    const int64_t part = std::min(child.full, rest);
    quota_.Set(level - 1, child.domain, part, false);
    rest -= part;
    if (with_tail && child.tail >= 0 && (host == nullptr || loss(child) < loss(*host))) {
      host = &child;
    }
  }
  CHECK_THAT(false, "a domain was chosen that cannot hold its part of the gang");
}

// Levels the parts like water: each child gets the same, or all it has room for. The tail counts as
// one part more: on a child that can take nothing else, or on the one that loses least by it.
void DomainSearch::FillEvenly(size_t level, int64_t units, bool with_tail) {
  uint32_t host = UnitCapacity::kFree;
  if (with_tail) {
    const Child* best = nullptr;
    for (const Child& child : children_) {
      const auto rank = [](const Child& of) {
        return std::tuple(of.full == 0, of.tail - of.full, of.room);
      };
      if (child.tail >= 0 && (best == nullptr || rank(child) > rank(*best))) {
        best = &child;
      }
    }
    CHECK_THAT(best != nullptr, "no child can take the last block of the gang");
    host = best->domain;
  }
  for (Child& child : children_) {
    child.full = child.domain == host ? child.tail + 1 : child.full;
  }
  // Those behind get what does not divide: the roomiest.
  std::sort(children_.begin(), children_.end(), [](const Child& left, const Child& right) {
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
    const Child& child = children_[i];
    const bool hosts = child.domain == host;
    const int64_t share = rest / static_cast<int64_t>(children_.size() - i);
    const int64_t part = std::min(child.full, std::max<int64_t>(share, hosts ? 1 : 0));
    quota_.Set(level - 1, child.domain, part - (hosts ? 1 : 0), hosts);
    rest -= part;
  }
  CHECK_THAT(rest == 0, "a domain was chosen that cannot hold its part of the gang");
}

}  // namespace asterism::scheduler
