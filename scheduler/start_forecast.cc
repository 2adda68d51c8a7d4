#include "scheduler/start_forecast.h"

#include <algorithm>
#include <span>
#include <vector>

namespace asterism::scheduler {

std::optional<absl::Time> PredictStart(const PlacementRequest& request, const Ledger& ledger,
                                       PlacementEngine& engine) {
  std::vector<ExpectedEnd> ends = ledger.ExpectedEnds();
  std::erase_if(ends, [&](const ExpectedEnd& end) { return end.gang_uid == request.gang_uid; });
  const auto fits_after = [&](size_t count) {
    engine.Prepare(request, ledger, Capacity::kFree, std::span(ends).first(count));
    return engine.FitsRequired(request.pods);
  };
  if (ends.empty() || !fits_after(ends.size())) {
    return std::nullopt;
  }
  // More room never hurts: the first count of ends that suffices is found by halving.
  size_t too_few = 0;
  size_t enough = ends.size();
  while (too_few + 1 < enough) {
    const size_t middle = too_few + (enough - too_few) / 2;
    (fits_after(middle) ? enough : too_few) = middle;
  }
  return ends[enough - 1].at;
}

}  // namespace asterism::scheduler
