#include "scheduler/fewest_children.h"

#include <algorithm>

namespace asterism::scheduler {
namespace {

// Blocks that a child cannot take because it takes the tail.
int64_t Loss(const ChildShare& child) {
  return child.full - child.tail;
}

void SortLargestFirst(std::vector<ChildShare>& children) {
  std::sort(children.begin(), children.end(), [](const ChildShare& left, const ChildShare& right) {
    if (left.open != right.open) {
      return left.open;
    }
    if (left.full != right.full) {
      return left.full > right.full;
    }
    return left.room != right.room ? left.room < right.room : left.domain < right.domain;
  });
}

// Who ends the split: takes the rest, alone or with the tail on a child taken before.
struct Last {
  ChildShare* child = nullptr;
  bool takes_tail = false;
};

// `rest`: what the first `taken` children leave. `host`: the child among them for the tail.
Last FindLast(std::vector<ChildShare>& children, size_t taken, int64_t rest, bool with_tail,
              const ChildShare* host) {
  Last last;
  for (size_t i = taken; i < children.size(); ++i) {
    ChildShare& child = children[i];
    const bool beside = !with_tail || host != nullptr;
    if (children[taken].open && !child.open) {
      break;  // no new domain while an open one has room
    }
    const bool ends_plain = beside && child.full >= rest + (with_tail ? Loss(*host) : 0);
    const bool ends_as_host = with_tail && child.tail >= std::max<int64_t>(rest, 0);
    if (!ends_plain && !ends_as_host) {
      if (!child.open && child.full < rest) {
        break;  // those behind are no larger
      }
      continue;
    }
    const bool better = last.child == nullptr || (child.open && !last.child->open) ||
                        (child.open == last.child->open && child.room < last.child->room);
    if (better) {
      last = {&child, ends_as_host};
    }
  }
  return last;
}

// Children taken whole may hold more than there is: the ones taken last give it back.
void GiveBack(std::vector<ChildShare>& children, size_t taken, int64_t excess) {
  while (excess > 0 && taken > 0) {
    ChildShare& child = children[--taken];
    const int64_t part = std::min(child.taken, excess);
    child.taken -= part;
    excess -= part;
  }
}

}  // namespace

bool ShareOverFewest(std::vector<ChildShare>& children, int64_t units, bool with_tail) {
  SortLargestFirst(children);
  ChildShare* host = nullptr;
  // Below zero where the children taken whole have more room than is asked for, but nobody has
  // taken the tail yet: what the host then loses is not all lost.
  int64_t rest = units;
  for (size_t taken = 0; taken < children.size(); ++taken) {
    const Last last = FindLast(children, taken, rest, with_tail, host);
    if (last.child != nullptr) {
      if (with_tail && !last.takes_tail) {
        host->taken = host->tail;
        host->takes_tail = true;
        rest += Loss(*host);
      }
      last.child->taken = std::max<int64_t>(rest, 0);
      last.child->takes_tail = last.takes_tail;
      GiveBack(children, taken, -rest);
      return true;
    }
    ChildShare& child = children[taken];
    child.taken = child.full;
    rest -= child.full;
    if (with_tail && child.tail >= 0 && (host == nullptr || Loss(child) < Loss(*host))) {
      host = &child;
    }
  }
  return units == 0 && !with_tail;
}

}  // namespace asterism::scheduler
