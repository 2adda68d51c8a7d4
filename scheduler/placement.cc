#include "scheduler/placement.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "scheduler/amount_text.h"
#include "scheduler/placement_engine.h"
#include "scheduler/placement_reason.h"

namespace asterism::scheduler {
namespace {

constexpr int64_t kPodsMax = int64_t{1} << 20;  // as many as a job may have GPUs

std::string LevelNames(const topology::Cluster& cluster) {
  std::string names;
  for (size_t level = 0; level < cluster.level_count(); ++level) {
    names += (level == 0 ? "" : ", ") + cluster.level_name(level);
  }
  return names;
}

// What no search needs to look at. Nothing: the request is valid.
std::optional<PlacementOutcome> CheckRequest(const PlacementRequest& request,
                                             const Ledger& ledger) {
  if (request.pods < 1 || request.pods > kPodsMax) {
    return Never{fmt::format("has {}: a gang has 1 to {}", Counted(request.pods, "pod"),
                             Thousands(kPodsMax))};
  }
  const topology::Cluster& cluster = ledger.cluster();
  for (const LevelRule& rule : request.rules) {
    if (rule.block_pods < 1) {
      return Never{fmt::format("a rule of level {} has blocks of {}: a block has at least 1",
                               rule.level < cluster.level_count() ? cluster.level_name(rule.level)
                                                                  : std::to_string(rule.level),
                               Counted(rule.block_pods, "pod"))};
    }
    if (rule.required && rule.level >= cluster.level_count()) {
      return Never{fmt::format("level {} is not a level of this cluster ({})", rule.level,
                               LevelNames(cluster))};
    }
  }
  for (size_t pod = 0; pod < request.kept.size(); ++pod) {
    const std::string& name = request.kept[pod];
    if (!name.empty() && !cluster.FindNode(name).valid()) {
      return NotNow{WaitReason::kNoCapacity,
                    fmt::format("pod {} is to stay on node {}, which is not in the cluster: "
                                "let it move",
                                pod, name),
                    "", std::nullopt};
    }
  }
  for (const ApartRule& rule : request.apart) {
    if (rule.level >= cluster.level_count()) {
      return Never{fmt::format("level {} is not a level of this cluster ({})", rule.level,
                               LevelNames(cluster))};
    }
    if (rule.pods_max < 1) {
      return Never{fmt::format("may have at most {} in one {}: a domain takes at least 1",
                               Counted(rule.pods_max, "pod"), cluster.level_name(rule.level))};
    }
  }
  if (request.spares < 0 || request.spares > kPodsMax) {
    return Never{fmt::format("has {}: a gang has 0 to {}", Counted(request.spares, "spare"),
                             Thousands(kPodsMax))};
  }
  if (static_cast<int64_t>(request.spares_kept.size()) > request.spares) {
    return Never{fmt::format("{} are to stay, of {} that it has",
                             Counted(static_cast<int64_t>(request.spares_kept.size()), "spare"),
                             Thousands(request.spares))};
  }
  for (const std::string& name : request.spares_kept) {
    if (!cluster.FindNode(name).valid()) {
      return NotNow{WaitReason::kNoCapacity,
                    fmt::format("a spare is to stay on node {}, which is not in the cluster: let "
                                "it move",
                                name),
                    "", std::nullopt};
    }
  }
  return std::nullopt;
}

}  // namespace

void Place(const PlacementRequest& request, const Ledger& ledger, PlacementOutcome& outcome) {
  if (std::optional<PlacementOutcome> refused = CheckRequest(request, ledger);
      refused.has_value()) {
    outcome = *std::move(refused);
    return;
  }
  // Buffers only: nothing of one call is seen by the next.
  thread_local PlacementEngine engine;
  engine.Prepare(request, ledger, Capacity::kFree);
  if (!engine.Choose()) {
    outcome = ExplainFailure(request, ledger, engine);
    return;
  }
  auto* placed = std::get_if<Placed>(&outcome);
  if (BUG_IF(!engine.Assign(placed != nullptr ? *placed : outcome.emplace<Placed>()),
             "a gang that fits could not be split over the domains")) {
    outcome =
        NotNow{WaitReason::kFragmented, "no way was found to share the gang out", "", std::nullopt};
    return;
  }
  const auto spares = static_cast<int64_t>(std::get<Placed>(outcome).spares.size());
  if (request.spares_required && spares < request.spares) {
    outcome = ExplainSpares(request, ledger, engine, spares);
  }
}

PlacementOutcome Place(const PlacementRequest& request, const Ledger& ledger) {
  PlacementOutcome outcome;
  Place(request, ledger, outcome);
  return outcome;
}

}  // namespace asterism::scheduler
