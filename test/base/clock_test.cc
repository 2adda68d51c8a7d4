#include "base/clock.h"

#include "gtest/gtest.h"

namespace asterism::base {
namespace {

TEST(SimClock, StandsStillUntilMoved) {
  SimClock clock;
  EXPECT_EQ(absl::FormatTime(clock.Now(), absl::UTCTimeZone()), "2026-01-01T00:00:00+00:00");
  EXPECT_EQ(clock.SteadyNow(), clock.SteadyNow());
}

TEST(SimClock, AdvanceMovesBothClocks) {
  SimClock clock;
  const SteadyTime before = clock.SteadyNow();
  const absl::Time wall_before = clock.Now();
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.SteadyNow() - before, absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now() - wall_before, absl::Milliseconds(1500));
}

TEST(SimClock, AStepOfTheWallLeavesIntervalsAlone) {
  SimClock clock;
  const SteadyTime before = clock.SteadyNow();
  const absl::Time wall_before = clock.Now();
  clock.StepWall(-absl::Hours(2));
  EXPECT_EQ(clock.SteadyNow(), before);
  EXPECT_EQ(clock.Now() - wall_before, -absl::Hours(2));
}

TEST(SystemClock, SteadyTimeNeverFalls) {
  SystemClock clock;
  SteadyTime last = clock.SteadyNow();
  for (int i = 0; i < 1000; ++i) {
    const SteadyTime now = clock.SteadyNow();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SystemClock, WallTimeIsAfterThisFileWasWritten) {
  EXPECT_GT(SystemClock().Now(),
            absl::FromCivil(absl::CivilSecond(2025, 1, 1), absl::UTCTimeZone()));
}

TEST(SteadyTime, DifferencesAreSigned) {
  const SteadyTime early{1'000};
  const SteadyTime late = early + absl::Seconds(2);
  EXPECT_EQ(late - early, absl::Seconds(2));
  EXPECT_EQ(early - late, -absl::Seconds(2));
  EXPECT_LT(early, late);
}

}  // namespace
}  // namespace asterism::base
