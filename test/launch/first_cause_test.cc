#include "launch/first_cause.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace asterism::launch {
namespace {

constexpr int Exit(int code) {
  return code << 8;
}
RankEnd Ended(int64_t rank, std::optional<int> wait_status) {
  return {.rank = rank, .pid = static_cast<pid_t>(100 + rank), .wait_status = wait_status};
}

const absl::Time kTime = absl::FromUnixSeconds(1'000);

TEST(FirstCause, IsTheFirstThatEndedBadly) {
  FirstCause cause;
  EXPECT_FALSE(cause.Note({}, kTime));
  EXPECT_FALSE(cause.Note({Ended(3, Exit(0))}, kTime));
  EXPECT_TRUE(cause.Note({Ended(5, Exit(13))}, kTime + absl::Seconds(1)));
  EXPECT_FALSE(cause.Note({Ended(6, SIGSEGV)}, kTime + absl::Seconds(2)));
  EXPECT_EQ(cause.end()->rank(), 5);
  EXPECT_EQ(cause.end()->exit_code(), 13);
  EXPECT_EQ(cause.end()->time_unix_nanos(), 1'001'000'000'000);
  EXPECT_EQ(cause.unknown_ends(), 0);
}

TEST(FirstCause, OfOneLookIsTheOneThatWasNotToldToEnd) {
  FirstCause cause;
  EXPECT_TRUE(cause.Note(
      {Ended(1, SIGTERM), Ended(2, SIGKILL), Ended(3, Exit(1)), Ended(4, SIGINT)}, kTime));
  EXPECT_EQ(cause.end()->rank(), 3);
  FirstCause killed;
  EXPECT_TRUE(killed.Note({Ended(1, SIGTERM), Ended(2, SIGKILL)}, kTime));
  EXPECT_EQ(killed.end()->rank(), 2);
  EXPECT_EQ(killed.end()->signal(), SIGKILL);
}

// Before Linux 6.15 nobody knows how a rank ended whose parent was faster than the launcher.
TEST(FirstCause, NamesNobodyWhoWasToldToEndAfterAnUnknownEnd) {
  for (const int told : {SIGTERM, SIGINT, SIGKILL}) {
    FirstCause cause;
    EXPECT_FALSE(cause.Note({Ended(7, std::nullopt)}, kTime));
    EXPECT_TRUE(cause.Note({Ended(1, told)}, kTime));
    EXPECT_EQ(cause.end()->rank(), -1);
    EXPECT_EQ(cause.end()->exit_code(), -1);
    EXPECT_EQ(cause.end()->signal(), 0);
    EXPECT_EQ(cause.unknown_ends(), 1);
    EXPECT_FALSE(cause.Note({Ended(2, Exit(1))}, kTime)) << "this one followed";
    FirstCause together;
    EXPECT_TRUE(together.Note({Ended(1, told), Ended(7, std::nullopt)}, kTime));
    EXPECT_EQ(together.end()->rank(), -1);
  }
}

TEST(FirstCause, NamesAFailureOfItsOwnAndSaysWhatItDoesNotKnow) {
  FirstCause cause;
  EXPECT_FALSE(cause.Note({Ended(7, std::nullopt), Ended(8, std::nullopt)}, kTime));
  EXPECT_TRUE(cause.Note({Ended(1, Exit(3))}, kTime));
  EXPECT_EQ(cause.end()->rank(), 1);
  EXPECT_EQ(cause.unknown_ends(), 2);
}

}  // namespace
}  // namespace asterism::launch
