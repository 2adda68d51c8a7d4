#include "operator/spare_count.h"

#include <algorithm>
#include <cmath>

namespace asterism::operators {
namespace {

constexpr double kFailuresPerNodeDay = 3.79 / 1000;
constexpr double kRefillDays = 1.0 / 24;
constexpr double kShareOfTime = 0.999;
constexpr int64_t kAutoSparesMax = 1024;

}  // namespace

int64_t AutoSpares(const SpareDemand& demand) {
  const int64_t together = std::max<int64_t>(demand.pods_per_node, 1);
  const int64_t nodes = (std::max<int64_t>(demand.pods, 0) + together - 1) / together;
  const double mean = kFailuresPerNodeDay * kRefillDays * static_cast<double>(nodes);
  // P(X = k) of the Poisson distribution, and their sum.
  double term = std::exp(-mean);
  double sum = term;
  int64_t lost = 0;
  while (sum < kShareOfTime && lost * together < kAutoSparesMax) {
    ++lost;
    term *= mean / static_cast<double>(lost);
    sum += term;
  }
  return std::min(lost * together, kAutoSparesMax);
}

}  // namespace asterism::operators
