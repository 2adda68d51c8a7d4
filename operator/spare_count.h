// File: operator/spare_count.h
//
// How many spares a gang gets that asks for `spares: Auto`: so many that they last for 99.9 % of
// the hours, if what is used up is replaced within an hour.
//
//   AutoSpares({.pods = 1280, .pods_per_node = 1})   // 3
//
// Nodes of a gang fail independently, 3.79 times in 1,000 node-days (419 unexpected interruptions
// of 16,384 GPUs in 54 days: "The Llama 3 Herd of Models", 2024, section 3.3.4): the failures of an
// hour are a Poisson number. The failures of this cluster are not looked at.
//
// Thread-safety: pure. Cost: O(answer).
#pragma once

#include <cstdint>

namespace asterism::operators {

struct SpareDemand {
  int64_t pods = 1;
  int64_t pods_per_node = 1;  // lost together
};

// 0 for gangs of so few nodes that they hardly ever need one.
int64_t AutoSpares(const SpareDemand& demand);

}  // namespace asterism::operators
