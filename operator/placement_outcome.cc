#include "operator/placement_outcome.h"

#include <variant>

#include "operator/conditions.h"

namespace asterism::operators {
namespace {

std::string_view ReasonOf(scheduler::WaitReason reason) {
  switch (reason) {
    case scheduler::WaitReason::kNoCapacity:
      return wait_reason::kNoCapacity;
    case scheduler::WaitReason::kFragmented:
      return wait_reason::kFragmented;
    case scheduler::WaitReason::kLevelUnavailable:
      return wait_reason::kLevelUnavailable;
    case scheduler::WaitReason::kProductUnavailable:
      return wait_reason::kProductUnavailable;
  }
  return wait_reason::kNoCapacity;
}

}  // namespace

NoPlace NoPlaceOf(const scheduler::PlacementOutcome& outcome) {
  if (const auto* later = std::get_if<scheduler::NotNow>(&outcome)) {
    return {std::string(ReasonOf(later->reason)), later->message, later->nearest_change,
            later->predicted_start};
  }
  if (const auto* never = std::get_if<scheduler::Never>(&outcome)) {
    return {std::string(wait_reason::kNeverFits), never->message, "", std::nullopt};
  }
  return {};
}

std::vector<PlacementLevelStatus> LevelsOf(const scheduler::Placed& placed,
                                           const topology::Cluster& cluster) {
  std::vector<PlacementLevelStatus> levels;
  for (const scheduler::LevelUse& use : placed.levels) {
    levels.push_back(
        {cluster.level_name(use.level), use.domains, use.ring_cuts, use.ring_cuts_minimum});
  }
  return levels;
}

std::string DomainOf(std::string_view node, const topology::Cluster& cluster) {
  const topology::NodeId id = cluster.FindNode(node);
  const size_t level = cluster.level_count() > 1 ? 1 : 0;
  return id.valid() ? cluster.domain_name(level, cluster.DomainOf(level, id)) : "";
}

}  // namespace asterism::operators
