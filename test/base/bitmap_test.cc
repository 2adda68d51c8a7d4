#include "base/bitmap.h"

#include <rapidcheck.h>

#include <cstddef>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace asterism::base {
namespace {

std::vector<size_t> MembersOf(const Bitmap& bitmap, size_t begin, size_t end) {
  std::vector<size_t> members;
  bitmap.ForEach(begin, end, [&](size_t index) { members.push_back(index); });
  return members;
}

Bitmap BitmapOf(size_t size, const std::set<size_t>& members) {
  Bitmap bitmap(size);
  for (const size_t member : members) {
    bitmap.Set(member);
  }
  return bitmap;
}

// A size with the edges of words in it, and any members below it.
struct BitmapSample {
  size_t size = 0;
  std::set<size_t> members;
};

BitmapSample DrawSample(size_t size) {
  BitmapSample sample{size, {}};
  for (const size_t draw : *rc::gen::arbitrary<std::vector<size_t>>()) {
    sample.members.insert(draw % size);
  }
  return sample;
}

size_t DrawSize() {
  return *rc::gen::oneOf(rc::gen::element<size_t>(1, 63, 64, 65, 127, 128, 129),
                         rc::gen::inRange<size_t>(1, 400));
}

TEST(Bitmap, EqualsASetInEveryOperation) {
  EXPECT_TRUE(rc::check("test, count and visit", [] {
    const BitmapSample sample = DrawSample(DrawSize());
    const Bitmap bitmap = BitmapOf(sample.size, sample.members);
    RC_ASSERT(bitmap.Count() == sample.members.size());
    for (size_t i = 0; i < sample.size; ++i) {
      RC_ASSERT(bitmap.Test(i) == sample.members.contains(i));
    }
    const size_t begin = *rc::gen::inRange<size_t>(0, sample.size + 1);
    const size_t end = *rc::gen::inRange<size_t>(begin, sample.size + 100);
    const std::vector<size_t> expected(sample.members.lower_bound(begin),
                                       sample.members.lower_bound(end));
    RC_ASSERT(MembersOf(bitmap, begin, end) == expected);
  }));
}

TEST(Bitmap, AndKeepsWhatBothHave) {
  EXPECT_TRUE(rc::check("intersection", [] {
    const size_t size = DrawSize();
    const BitmapSample left = DrawSample(size);
    const BitmapSample right = DrawSample(size);
    std::set<size_t> both;
    for (const size_t member : left.members) {
      if (right.members.contains(member)) {
        both.insert(member);
      }
    }
    Bitmap bitmap = BitmapOf(size, left.members);
    bitmap.And(BitmapOf(size, right.members));
    RC_ASSERT(bitmap == BitmapOf(size, both));
  }));
}

TEST(Bitmap, SetAndClearAreOpposites) {
  EXPECT_TRUE(rc::check("clearing leaves the empty map", [] {
    const BitmapSample sample = DrawSample(DrawSize());
    Bitmap bitmap = BitmapOf(sample.size, sample.members);
    for (const size_t member : sample.members) {
      bitmap.Set(member, false);
    }
    RC_ASSERT(bitmap == Bitmap(sample.size));
    RC_ASSERT(bitmap.Count() == 0u);
  }));
}

TEST(Bitmap, AFullMapHasNoBitsPastItsEnd) {
  for (const size_t size : {0u, 1u, 63u, 64u, 65u, 128u, 130u}) {
    const Bitmap full(size, true);
    EXPECT_EQ(full.Count(), size);
    EXPECT_EQ(MembersOf(full, 0, size + 64).size(), size);
  }
}

TEST(Bitmap, AnEmptyRangeVisitsNothing) {
  const Bitmap full(100, true);
  EXPECT_TRUE(MembersOf(full, 40, 40).empty());
  EXPECT_TRUE(MembersOf(full, 60, 40).empty());
  EXPECT_TRUE(MembersOf(full, 100, 200).empty());
}

}  // namespace
}  // namespace asterism::base
