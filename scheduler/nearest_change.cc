#include "scheduler/nearest_change.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "scheduler/amount_text.h"

namespace asterism::scheduler {
namespace {

constexpr int64_t kSplitsMax = 16;  // smaller pods are tried down to a sixteenth

int64_t GpusOfPod(const PlacementRequest& request) {
  return request.gpu_slot < kResourceSlots ? std::max<int64_t>(request.request[request.gpu_slot], 0)
                                           : 0;
}

bool FitsWith(const PlacementRequest& request, const Ledger& ledger, PlacementEngine& engine,
              Capacity capacity) {
  engine.Prepare(request, ledger, capacity);
  return engine.FitsRequired(request.pods);
}

// The outermost rule whose requirement stands in the way.
std::string RelaxedRule(const PlacementRequest& request, const Ledger& ledger,
                        PlacementEngine& engine) {
  std::vector<size_t> order;
  for (size_t i = 0; i < request.rules.size(); ++i) {
    if (request.rules[i].required && request.rules[i].level < ledger.cluster().level_count()) {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return request.rules[left].level > request.rules[right].level;
  });
  for (const size_t index : order) {
    PlacementRequest relaxed = request;
    relaxed.rules[index].required = false;
    if (FitsWith(relaxed, ledger, engine, Capacity::kFree)) {
      return fmt::format("would start now with level {} Preferred instead of Required",
                         ledger.cluster().level_name(request.rules[index].level));
    }
  }
  return "";
}

// The same GPUs in more and smaller pods.
std::string SmallerPods(const PlacementRequest& request, const Ledger& ledger,
                        PlacementEngine& engine) {
  const int64_t gpus = GpusOfPod(request);
  for (int64_t parts = 2; parts <= std::min(gpus, kSplitsMax); ++parts) {
    if (gpus % parts != 0) {
      continue;
    }
    PlacementRequest smaller = request;
    smaller.pods *= parts;
    for (size_t slot = 0; slot < kResourceSlots; ++slot) {
      if (slot != kPodsSlot && smaller.request[slot] > 0) {
        smaller.request[slot] = (smaller.request[slot] - 1) / parts + 1;
      }
    }
    for (LevelRule& rule : smaller.rules) {
      if (rule.block_pods <= request.pods) {
        rule.block_pods *= parts;
      }
    }
    for (ApartRule& rule : smaller.apart) {
      rule.pods_max = std::min(rule.pods_max, request.pods) * parts;
    }
    if (FitsWith(smaller, ledger, engine, Capacity::kFree)) {
      return fmt::format("{} of {} would start now", Counted(smaller.pods, "pod"),
                         Counted(gpus / parts, "GPU"));
    }
  }
  return "";
}

// The largest gang of such pods that is a multiple of the blocks of its rules.
std::string SmallerGang(const PlacementRequest& request, const Ledger& ledger,
                        PlacementEngine& engine) {
  engine.Prepare(request, ledger, Capacity::kFree);
  const GangShape shape = ShapeOf(request.pods, engine.required_rules(), engine.tree().levels());
  int64_t step = 1;
  for (size_t level = 0; level < shape.levels; ++level) {
    if (shape.block[level] < request.pods) {
      step = std::max(step, shape.block[level]);
    }
  }
  int64_t fits = 0;
  int64_t too_many = (request.pods + step - 1) / step;
  while (fits + 1 < too_many) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (engine.FitsRequired(middle * step) ? fits : too_many) = middle;
  }
  if (fits == 0) {
    return "";
  }
  const int64_t gpus = GpusOfPod(request);
  return fmt::format("a gang of {} would start now",
                     gpus > 0 ? Counted(fits * step * gpus, "GPU") : Counted(fits * step, "pod"));
}

std::string ReturnedNodes(const PlacementRequest& request, const Ledger& ledger,
                          PlacementEngine& engine) {
  if (!FitsWith(request, ledger, engine, Capacity::kRepaired)) {
    return "";
  }
  int64_t away = 0;
  for (const uint8_t placeable : ledger.PlaceableColumn()) {
    away += placeable == 0 ? 1 : 0;
  }
  return fmt::format("would start when nodes return ({} cordoned, not Ready or tainted)",
                     Counted(away, "node") + (away == 1 ? " is" : " are"));
}

}  // namespace

std::string NearestChange(const PlacementRequest& request, const Ledger& ledger,
                          PlacementEngine& engine) {
  std::vector<std::string> changes;
  const bool moves_all = engine.free_pods() == request.pods;
  changes.push_back(RelaxedRule(request, ledger, engine));
  if (moves_all) {
    changes.push_back(SmallerPods(request, ledger, engine));
    changes.push_back(SmallerGang(request, ledger, engine));
  }
  changes.push_back(ReturnedNodes(request, ledger, engine));
  std::string text;
  for (const std::string& change : changes) {
    if (!change.empty()) {
      text += (text.empty() ? "" : "; ") + change;
    }
  }
  return text;
}

}  // namespace asterism::scheduler
