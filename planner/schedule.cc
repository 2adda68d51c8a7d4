#include "planner/schedule.h"

#include <algorithm>

namespace asterism::planner {

double InFlight(const ParallelPlan& plan, int64_t stage) {
  const int64_t p = plan.degrees.pipeline;
  const int64_t m = plan.MicroBatches();
  const int64_t v = plan.virtual_stages;
  if (p == 1) {
    return 1;
  }
  switch (plan.schedule) {
    case Schedule::kGPipe:
      return static_cast<double>(m);
    case Schedule::kOneForwardOneBackward:
    case Schedule::kZeroBubbleH1:
      return static_cast<double>(std::min(m, p - stage));
    case Schedule::kInterleaved: {
      const int64_t chunks = 2 * (p - stage - 1) + (v - 1) * plan.GroupSize() + 1;
      return static_cast<double>(std::min(m * v, chunks)) / static_cast<double>(v);
    }
    case Schedule::kZeroBubble2p:
      return static_cast<double>(std::min(m, 2 * (p - stage)));
    case Schedule::kZeroBubbleV:
      return static_cast<double>(std::min(m, p));
    case Schedule::kDualPipeV:
      return static_cast<double>(std::min(m, p + 1));
  }
  return 1;
}

int64_t WeightCopies(Schedule schedule) {
  return schedule == Schedule::kDualPipeV ? 2 : 1;
}

}  // namespace asterism::planner
