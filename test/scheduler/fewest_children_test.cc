#include "scheduler/fewest_children.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace asterism::scheduler {
namespace {

// Of each child: full, tail.
std::vector<ChildShare> Children(const std::vector<std::pair<int64_t, int64_t>>& sizes) {
  std::vector<ChildShare> children;
  for (const auto& [full, tail] : sizes) {
    children.push_back({.domain = static_cast<uint32_t>(children.size()),
                        .full = full,
                        .tail = tail,
                        .room = full});
  }
  return children;
}

// By brute force: is there a child for the tail, so that the others and it have room for the rest?
bool IsSolvable(const std::vector<ChildShare>& children, int64_t units, bool with_tail) {
  int64_t sum = 0;
  for (const ChildShare& child : children) {
    sum += child.full;
  }
  if (!with_tail) {
    return sum >= units;
  }
  return std::any_of(children.begin(), children.end(), [&](const ChildShare& host) {
    return host.tail >= 0 && sum - host.full + host.tail >= units;
  });
}

std::string Describe(const std::vector<ChildShare>& children) {
  std::string text;
  for (const ChildShare& child : children) {
    text += " (full " + std::to_string(child.full) + ", tail " + std::to_string(child.tail) +
            ", takes " + std::to_string(child.taken) + (child.takes_tail ? " + tail)" : ")");
  }
  return text;
}

void ExpectSplit(const std::vector<ChildShare>& children, int64_t units, bool with_tail) {
  int64_t sum = 0;
  int64_t hosts = 0;
  for (const ChildShare& child : children) {
    sum += child.taken;
    hosts += child.takes_tail ? 1 : 0;
    EXPECT_GE(child.taken, 0) << Describe(children);
    EXPECT_LE(child.taken, child.takes_tail ? child.tail : child.full) << Describe(children);
  }
  EXPECT_EQ(sum, units) << Describe(children);
  EXPECT_EQ(hosts, with_tail ? 1 : 0) << Describe(children);
}

TEST(FewestChildren, TheHostLosesOnlyWhatItHadTaken) {
  std::vector<ChildShare> children = Children({{10, 7}, {2, -1}});
  ASSERT_TRUE(ShareOverFewest(children, 9, true));
  ExpectSplit(children, 9, true);
  EXPECT_EQ(children[0].taken, 7);
  EXPECT_TRUE(children[0].takes_tail);
  EXPECT_EQ(children[1].taken, 2);
}

TEST(FewestChildren, SeveralChildrenMakeUpForTheLossOfTheHost) {
  std::vector<ChildShare> children = Children({{10, 4}, {2, -1}, {2, -1}});
  ASSERT_TRUE(ShareOverFewest(children, 8, true));
  ExpectSplit(children, 8, true);
}

TEST(FewestChildren, ATailAloneGoesToWhoeverCanTakeIt) {
  std::vector<ChildShare> children = Children({{5, -1}, {0, 0}});
  ASSERT_TRUE(ShareOverFewest(children, 0, true));
  ExpectSplit(children, 0, true);
  children = Children({{5, -1}});
  EXPECT_FALSE(ShareOverFewest(children, 0, true));
}

TEST(FewestChildren, NothingToShareNeedsNobody) {
  std::vector<ChildShare> nobody;
  EXPECT_TRUE(ShareOverFewest(nobody, 0, false));
  EXPECT_FALSE(ShareOverFewest(nobody, 1, false));
  EXPECT_FALSE(ShareOverFewest(nobody, 0, true));
}

TEST(FewestChildrenProperty, FindsASplitWheneverThereIsOne) {
  int solvable = 0;
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    std::vector<ChildShare> children;
    const size_t count = rng.Below(6);
    for (size_t i = 0; i < count; ++i) {
      const auto full = static_cast<int64_t>(rng.Below(8));
      children.push_back(
          {.domain = static_cast<uint32_t>(i),
           .open = rng.Chance(0.2),
           .full = full,
           .tail = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(full) + 2)) - 1,
           .room = static_cast<int64_t>(rng.Below(10))});
    }
    const auto units = static_cast<int64_t>(rng.Below(20));
    const bool with_tail = rng.Chance(0.7);
    const bool expected = IsSolvable(children, units, with_tail);
    ASSERT_EQ(ShareOverFewest(children, units, with_tail), expected) << Describe(children);
    if (expected) {
      ++solvable;
      ExpectSplit(children, units, with_tail);
    }
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(solvable, 2'000);
}

}  // namespace
}  // namespace asterism::scheduler
