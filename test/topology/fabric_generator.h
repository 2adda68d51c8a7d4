// File: test/topology/fabric_generator.h
//
// Makes fabrics with known groups, and breaks them in known numbers: for grouping, the doctor, and
// texts of any size.
//
//   GeneratedFabric made = MakeFabric({.groups = 640, .missing = 0.05}, 7);
//   made.group_of_host[3];
//   DumpText(made.fabric);   // as ibnetdiscover prints it
//
// Thread-safety: pure. Cost: linear in the links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "topology/fabric.h"

namespace asterism::topology {

struct FabricShape {
  size_t groups = 4;
  size_t hosts_per_group = 20;
  size_t rails = 8;
  size_t spines = 8;
  size_t uplinks = 0;  // of a leaf, to that many spines in turn; 0: one to each spine
  double missing = 0;  // share of host links that are not there
  double crossed = 0;  // share of host links that are swapped with another rail of their host
  size_t foreign = 0;  // host cables that end in another group
  bool adapter_records = true;  // false: only what switches say
};

struct GeneratedFabric {
  Fabric fabric;
  std::vector<std::string> hosts;  // "h00001"
  std::vector<uint32_t> group_of_host;
  std::vector<uint32_t> group_of_leaf;  // by device; kNoDevice for others
  size_t links_missing = 0;
  size_t links_crossed = 0;
};

GeneratedFabric MakeFabric(const FabricShape& shape, uint64_t seed);

std::string DumpText(const Fabric& fabric);

}  // namespace asterism::topology
