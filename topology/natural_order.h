// File: topology/natural_order.h
//
// Orders names the way people count: node-2 before node-10. Runs of digits compare as numbers of
// any length, everything else byte by byte.
//
//   std::sort(names.begin(), names.end(), NaturalLess);
//
// A total order: names that count alike ("node-02", "node-2") fall back to byte order.
// Thread-safety: pure. Cost: O(length), no allocation.
#pragma once

#include <string_view>

namespace asterism::topology {

// Negative, zero or positive; zero only for equal texts.
int NaturalCompare(std::string_view left, std::string_view right);

inline bool NaturalLess(std::string_view left, std::string_view right) {
  return NaturalCompare(left, right) < 0;
}

}  // namespace asterism::topology
