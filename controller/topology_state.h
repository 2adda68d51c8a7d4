// File: controller/topology_state.h
//
// The topology of this moment for readers on other threads: /doctorz, /topologyz, metrics.
//
//   std::shared_ptr<const TopologyState> state = plane.topology_state();
//   response.body = DoctorPage(*state);
//
// Thread-safety: immutable. Cost: the snapshot is shared, not copied.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "topology/topology_keeper.h"

namespace asterism::controller {

struct TopologyState {
  std::shared_ptr<const topology::TopologySnapshot> snapshot;
  std::vector<topology::SourceState> sources;
  absl::Time time;          // when it was taken
  std::string held_change;  // its id, where a change is held
};

// "ready", "partial", "stale".
std::string_view SourceStateName(topology::SourceState::State state);

// How many nodes each say-so places in a level between the node and the cluster; `level` counts
// from the node, which is 0.
std::array<size_t, topology::kPlaceOrigins> CountOrigins(const topology::TopologySnapshot& snapshot,
                                                         size_t level);

// The findings as topology/import/doctor.h writes a diagnosis, with each source as a text:
// {"leading": true, "generation": 7, "clean": false, "texts": [...], "findings": [...]}.
std::string DoctorPage(const TopologyState& state, bool leading);

}  // namespace asterism::controller
