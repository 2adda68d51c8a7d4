#include "base/ids.h"

#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

using ApplePosition = Id<struct AppleTag>;
using PearPosition = Id<struct PearTag>;

static_assert(!std::is_convertible_v<ApplePosition, PearPosition>);
static_assert(!std::is_convertible_v<size_t, ApplePosition>, "an id is made on purpose");
static_assert(sizeof(ApplePosition) == 4);

TEST(Id, IsInvalidUntilItGetsAnIndex) {
  EXPECT_FALSE(ApplePosition().valid());
  EXPECT_TRUE(ApplePosition(0).valid());
  EXPECT_EQ(ApplePosition(17).index(), 17u);
}

TEST(Id, OrdersByIndexAndPutsInvalidLast) {
  EXPECT_LT(ApplePosition(1), ApplePosition(2));
  EXPECT_LT(ApplePosition(0xfffffffe), ApplePosition());
  EXPECT_EQ(ApplePosition(3), ApplePosition(3));
}

TEST(Id, WorksAsAHashKey) {
  const absl::flat_hash_set<ApplePosition> ids = {ApplePosition(1), ApplePosition(2),
                                                  ApplePosition(1)};
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_TRUE(ids.contains(ApplePosition(2)));
}

}  // namespace
}  // namespace asterism::base
