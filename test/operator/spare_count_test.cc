#include "operator/spare_count.h"

#include <gtest/gtest.h>

namespace asterism::operators {
namespace {

// The least k with P(X <= k) >= 0.999 for the mean of pods x 3.79 / 1,000 / 24.
TEST(SpareCount, IsTheQuantileOfAnHoursFailures) {
  EXPECT_EQ(AutoSpares({.pods = 0}), 0);
  EXPECT_EQ(AutoSpares({.pods = 1}), 0);
  EXPECT_EQ(AutoSpares({.pods = 6}), 0);
  EXPECT_EQ(AutoSpares({.pods = 7}), 1);
  EXPECT_EQ(AutoSpares({.pods = 64}), 1);
  EXPECT_EQ(AutoSpares({.pods = 512}), 2);
  EXPECT_EQ(AutoSpares({.pods = 1280}), 3);
  EXPECT_EQ(AutoSpares({.pods = 12800}), 8);
  EXPECT_EQ(AutoSpares({.pods = 1'048'576}), 207);
}

TEST(SpareCount, PodsOfANodeAreLostTogether) {
  EXPECT_EQ(AutoSpares({.pods = 1280 * 8, .pods_per_node = 8}), 24);
  EXPECT_EQ(AutoSpares({.pods = 48, .pods_per_node = 8}), 0);
  EXPECT_EQ(AutoSpares({.pods = 49, .pods_per_node = 8}), 8);
  EXPECT_EQ(AutoSpares({.pods = 1'048'576, .pods_per_node = 0}), 207);
  EXPECT_EQ(AutoSpares({.pods = 1'048'576, .pods_per_node = 16}), 352);
}

}  // namespace
}  // namespace asterism::operators
