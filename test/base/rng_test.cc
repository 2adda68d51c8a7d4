#include "base/rng.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

using testing::ElementsAre;

// The 10,000th draw of the standard's default seed is fixed by [rand.predef].
TEST(Rng, IsTheStandardsEngine) {
  Rng rng(5489);
  uint64_t draw = 0;
  for (int i = 0; i < 10'000; ++i) {
    draw = rng.Next();
  }
  EXPECT_EQ(draw, 9981545732273789042u);
}

TEST(Rng, ASeedGivesTheSameValuesOnEveryMachine) {
  Rng rng(42);
  std::vector<uint64_t> small;
  for (int i = 0; i < 6; ++i) {
    small.push_back(rng.Below(1000));
  }
  EXPECT_THAT(small, ElementsAre(406, 824, 450, 662, 381, 428));
  EXPECT_EQ(rng.Name(8), "eykbhsak");
  EXPECT_DOUBLE_EQ(rng.Uniform(), 0.8265497558024155);
  std::vector<int> order = {0, 1, 2, 3, 4, 5};
  rng.Shuffle(order);
  EXPECT_THAT(order, ElementsAre(0, 4, 1, 5, 3, 2));
}

TEST(Rng, BelowReachesEveryValueAndStaysBelow) {
  Rng rng(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7'000; ++i) {
    const uint64_t draw = rng.Below(seen.size());
    ASSERT_LT(draw, seen.size());
    ++seen[draw];
  }
  // 1,000 expected each; five standard deviations are about 146.
  EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 850);
  EXPECT_LT(*std::max_element(seen.begin(), seen.end()), 1'150);
}

TEST(Rng, BelowCopesWithTheLargestBound) {
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {
    EXPECT_LT(rng.Below(UINT64_MAX), UINT64_MAX);
    EXPECT_EQ(rng.Below(1), 0u);
  }
}

TEST(Rng, UniformStaysInItsRange) {
  Rng rng(9);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double draw = rng.Uniform();
    ASSERT_GE(draw, 0.0);
    ASSERT_LT(draw, 1.0);
    sum += draw;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(Rng, ChanceOfZeroAndOneAreCertain) {
  Rng rng(5);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_FALSE(rng.Chance(0.0));
    ASSERT_TRUE(rng.Chance(1.0));
  }
}

TEST(Rng, AForkDoesNotDependOnWhatWasDrawn) {
  Rng calm(7);
  Rng busy(7);
  for (int i = 0; i < 100; ++i) {
    busy.Next();
  }
  EXPECT_EQ(calm.Fork("watch-jitter").Next(), busy.Fork("watch-jitter").Next());
}

TEST(Rng, ForksOfDifferentNamesDiffer) {
  const Rng rng(7);
  std::set<uint64_t> first_draws;
  for (const char* name : {"", "a", "b", "watch", "lease", "events"}) {
    first_draws.insert(rng.Fork(name).Next());
  }
  EXPECT_GE(first_draws.size(), 6u);
}

TEST(Rng, ForksOfForksAreStreamsOfTheirOwn) {
  const Rng rng(7);
  const uint64_t ab = rng.Fork("a").Fork("b").Next();
  EXPECT_NE(ab, rng.Fork("b").Fork("a").Next());
  EXPECT_NE(rng.Fork("a").Fork("a").Next(), Rng(7).Next());
}

TEST(Rng, ShuffleKeepsTheItems) {
  Rng rng(11);
  std::vector<int> items(100);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i] = static_cast<int>(i);
  }
  const std::vector<int> sorted = items;
  rng.Shuffle(items);
  EXPECT_NE(items, sorted);
  EXPECT_THAT(items, testing::UnorderedElementsAreArray(sorted));
}

TEST(Rng, ANameHasOnlyLettersAndDigits) {
  Rng rng(13);
  const std::string name = rng.Name(200);
  EXPECT_EQ(name.size(), 200u);
  EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789"), std::string::npos);
  EXPECT_EQ(rng.Name(0), "");
}

TEST(Rng, SystemSeedsDiffer) {
  EXPECT_NE(Rng::SystemSeed(), Rng::SystemSeed());
}

}  // namespace
}  // namespace asterism::base
