#include "gang_life.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace asterism::scheduler {
namespace {

constexpr uint64_t kStepsOfALife = 1000;
constexpr uint64_t kStepsBetweenRebuilds = 100;

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct LifeCounts {
  size_t placed = 0;
  size_t refused = 0;
  size_t moved = 0;
};

// Returns the hash of all decisions.
uint64_t Live(uint64_t seed, LifeCounts& counts) {
  SCOPED_TRACE("ASTERISM_SEED=" + std::to_string(seed));
  GangLife life(seed);
  for (uint64_t step = 1; step <= kStepsOfALife; ++step) {
    std::string wrong = life.Step();
    if (wrong.empty() && step % kStepsBetweenRebuilds == 0) {
      wrong = life.CheckRebuild();
    }
    if (!wrong.empty()) {
      ADD_FAILURE() << "step " << step << ": " << wrong;
      break;
    }
  }
  counts.placed += life.placed();
  counts.refused += life.refused();
  counts.moved += life.moved();
  return life.hash();
}

// ASTERISM_TRANSITIONS=10000000 takes as many steps; ASTERISM_SEED=17 takes those of one seed.
TEST(GangLife, KeepsEveryPromiseAfterEveryStep) {
  const uint64_t only = NumberFrom("ASTERISM_SEED", 0);
  const uint64_t lives =
      only > 0 ? 1 : NumberFrom("ASTERISM_TRANSITIONS", 100'000) / kStepsOfALife + 1;
  LifeCounts counts;
  for (uint64_t i = 0; i < lives && !HasFailure(); ++i) {
    const uint64_t seed = only > 0 ? only : i + 1;
    const uint64_t hash = Live(seed, counts);
    if (seed % 10 == 1 && !HasFailure()) {
      LifeCounts again;
      EXPECT_EQ(Live(seed, again), hash) << "seed " << seed << " decides otherwise the second time";
    }
  }
  // A life without these would prove nothing.
  EXPECT_GT(counts.placed, lives * 20);
  EXPECT_GT(counts.refused, lives * 5);
  EXPECT_GT(counts.moved, lives * 5);
}

}  // namespace
}  // namespace asterism::scheduler
