#include "launch/pending_callers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::launch {
namespace {

using ::testing::Optional;

TEST(PendingCallers, AFloodOfOneAddressPushesOutItself) {
  PendingCallers pending;
  EXPECT_EQ(pending.Add(1, "rank 0"), std::nullopt);
  for (pid_t handler = 100; handler < 1'300; ++handler) {
    const auto given_up = pending.Add(handler, "flood");
    const bool room = handler < 100 + static_cast<pid_t>(kPendingOfPeerMax);
    EXPECT_EQ(given_up,
              room ? std::nullopt : std::optional(handler - static_cast<pid_t>(kPendingOfPeerMax)));
  }
  EXPECT_EQ(pending.size(), kPendingOfPeerMax + 1);
  pending.Remove(1);
  EXPECT_EQ(pending.size(), kPendingOfPeerMax);
}

TEST(PendingCallers, AFloodOfManyAddressesPushesOutItsOldest) {
  PendingCallers pending;
  for (size_t i = 0; i < kPendingMax; ++i) {
    EXPECT_EQ(pending.Add(static_cast<pid_t>(100 + i), "flood " + std::to_string(i)), std::nullopt);
  }
  EXPECT_THAT(pending.Add(1, "rank 0"), Optional(100));
  EXPECT_THAT(pending.Add(500, "flood 7"), Optional(107)) << "of the address that has the most";
  EXPECT_THAT(pending.Add(501, "new"), Optional(101));
  EXPECT_EQ(pending.size(), kPendingMax);
}

TEST(PendingCallers, ForgetsOnlyWhoIsThere) {
  PendingCallers pending;
  pending.Remove(5);
  pending.Add(5, "a");
  pending.Remove(6);
  EXPECT_EQ(pending.size(), 1U);
}

}  // namespace
}  // namespace asterism::launch
