#include "controller/topology_state.h"

#include <algorithm>
#include <utility>

#include "nlohmann/json.hpp"
#include "topology/import/doctor.h"

namespace asterism::controller {

using nlohmann::ordered_json;

std::string_view SourceStateName(topology::SourceState::State state) {
  switch (state) {
    case topology::SourceState::State::kReady:
      return "ready";
    case topology::SourceState::State::kPartial:
      return "partial";
    case topology::SourceState::State::kStale:
      break;
  }
  return "stale";
}

std::array<size_t, topology::kPlaceOrigins> CountOrigins(const topology::TopologySnapshot& snapshot,
                                                         size_t level) {
  std::array<size_t, topology::kPlaceOrigins> counts = {};
  if (level >= 1 && level <= snapshot.origins->size()) {
    for (const topology::PlaceOrigin origin : (*snapshot.origins)[level - 1]) {
      ++counts[static_cast<size_t>(origin)];
    }
  }
  return counts;
}

std::string DoctorPage(const TopologyState& state, bool leading) {
  topology::Diagnosis diagnosis;
  for (const topology::SourceState& source : state.sources) {
    ordered_json summary = ordered_json::object();
    summary["format"] = SourceStateName(source.state);
    if (source.nodes > 0) {
      summary["nodes"] = source.nodes;
    }
    diagnosis.texts.push_back({.name = source.name, .error = "", .summary = std::move(summary)});
  }
  for (const topology::Finding& finding : *state.snapshot->findings) {
    diagnosis.findings.push_back({finding, "live"});
  }
  ordered_json page = ordered_json::object();
  page["leading"] = leading;
  page["generation"] = state.snapshot->generation;
  page.update(topology::DiagnosisJson(diagnosis));
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace asterism::controller
