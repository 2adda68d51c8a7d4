// File: scheduler/fewest_children.h
//
// Shares blocks out over the children of a domain, over few of them: the heuristic for when the
// exact search is too much work. Internal to placement.
//
//   if (!ShareOverFewest(children, units, /*with_tail=*/true)) ...   // they have no room for it
//   children[0].taken, children[0].takes_tail
//
// Takes the largest children whole until one child can take the rest; that one is chosen by best
// fit. The tail goes to the child among them that loses least by it. Open children come first.
// Finds a split whenever there is one, whatever the numbers are.
//
// Thread-safety: pure. Cost: O(n log n) to sort, then O(n) for each child that is taken whole.
#pragma once

#include <cstdint>
#include <vector>

namespace asterism::scheduler {

struct ChildShare {
  uint32_t domain = 0;
  bool open = false;        // pods of the gang are there already
  bool takes_tail = false;  // of the answer
  int64_t full = 0;         // most blocks without the tail
  int64_t tail = -1;        // most blocks beside the tail, at most `full`; -1: not the tail
  int64_t room = 0;
  int64_t taken = 0;  // of the answer
};

// Sorts `children`, whose answer is blank before. False: there is no room for `units` blocks (and
// the tail); the answer is meaningless then.
bool ShareOverFewest(std::vector<ChildShare>& children, int64_t units, bool with_tail);

}  // namespace asterism::scheduler
