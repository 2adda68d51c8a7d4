#include "operator/elapsed_since.h"

#include <gtest/gtest.h>

namespace asterism::operators {
namespace {

TEST(ElapsedSince, CountsFromTheRecordedMoment) {
  base::SimClock clock;
  ElapsedSince elapsed;
  const absl::Time moment = clock.Now() - absl::Seconds(30);
  EXPECT_EQ(elapsed.At(moment, clock), absl::Seconds(30));
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(elapsed.At(moment, clock), absl::Seconds(35));
  EXPECT_EQ(elapsed.At(clock.Now(), clock), absl::ZeroDuration()) << "another moment begins anew";
}

TEST(ElapsedSince, AStepOfTheWallClockChangesNothing) {
  for (const absl::Duration step : {absl::Hours(1), -absl::Hours(1)}) {
    base::SimClock clock;
    ElapsedSince elapsed;
    const absl::Time moment = clock.Now();
    elapsed.At(moment, clock);
    clock.StepWall(step);
    clock.Advance(absl::Seconds(5));
    EXPECT_EQ(elapsed.At(moment, clock), absl::Seconds(5)) << step;
  }
}

TEST(ElapsedSince, KnowsTheMomentAgainInWholeSeconds) {
  base::SimClock clock;
  ElapsedSince elapsed;
  clock.Advance(absl::Milliseconds(400));
  elapsed.At(clock.Now(), clock);
  const absl::Time written = absl::FromUnixSeconds(absl::ToUnixSeconds(clock.Now()));
  clock.StepWall(absl::Hours(1));
  EXPECT_EQ(elapsed.At(written, clock), absl::ZeroDuration());
}

TEST(ElapsedSince, AMomentAheadOfOurClockHasJustBeen) {
  base::SimClock clock;
  ElapsedSince elapsed;
  EXPECT_EQ(elapsed.At(clock.Now() + absl::Hours(1), clock), absl::ZeroDuration());
}

}  // namespace
}  // namespace asterism::operators
