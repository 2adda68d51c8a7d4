// File: scheduler/level_use.h
//
// Counts how an order of nodes uses the levels, with buffers that are used again. Internal to
// placement; everybody else calls MeasureLevels of placement.h.
//
//   LevelMeter meter;
//   meter.Measure(cluster, placed.nodes, placed.levels);
//
// Thread-safety: none; buffers are kept. Cost: O(pods + domains), and for each level the runs of
// ranks that share a domain of the level below.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/placement.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

class LevelMeter {
 public:
  // `nodes`: by rank block, in rank order; may be empty.
  void Measure(const topology::Cluster& cluster, std::span<const NodeId> nodes,
               std::vector<LevelUse>& levels);

 private:
  // Of the level that is counted now.
  std::vector<uint32_t> runs_;  // its domains in rank order, none twice in a row
  std::vector<uint8_t> seen_;   // by domain
};

}  // namespace asterism::scheduler
