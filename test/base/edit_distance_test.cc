#include "base/edit_distance.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

namespace asterism::base {
namespace {

constexpr LetterSwap kBoth[] = {LetterSwap::kTwoSteps, LetterSwap::kOneStep};

TEST(EditDistance, CountsInsertedRemovedAndReplacedLetters) {
  for (const LetterSwap swap : kBoth) {
    EXPECT_EQ(EditDistance("", "", swap), 0u);
    EXPECT_EQ(EditDistance("port", "ports", swap), 1u);
    EXPECT_EQ(EditDistance("ports", "port", swap), 1u);
    EXPECT_EQ(EditDistance("kitten", "sitting", swap), 3u);
    EXPECT_EQ(EditDistance("abc", "", swap), 3u);
  }
}

TEST(EditDistance, IsAMetric) {
  EXPECT_TRUE(rc::check("symmetric, zero only for equal, bounded by the longer", [] {
    const auto word = rc::gen::container<std::string>(rc::gen::inRange('a', 'd'));
    const std::string left = *word;
    const std::string right = *word;
    RC_PRE(left.size() <= 64 && right.size() <= 64);
    for (const LetterSwap swap : kBoth) {
      const size_t distance = EditDistance(left, right, swap);
      RC_ASSERT(distance == EditDistance(right, left, swap));
      RC_ASSERT((distance == 0) == (left == right));
      RC_ASSERT(distance <= std::max(left.size(), right.size()));
    }
  }));
}

TEST(EditDistance, ASwapIsOneStepOnlyWhereItIsAskedFor) {
  EXPECT_EQ(EditDistance("topolgoy", "topology", LetterSwap::kOneStep), 1u);
  EXPECT_EQ(EditDistance("topolgoy", "topology", LetterSwap::kTwoSteps), 2u);
}

}  // namespace
}  // namespace asterism::base
