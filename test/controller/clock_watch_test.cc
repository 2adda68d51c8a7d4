#include "controller/clock_watch.h"

#include <gtest/gtest.h>

namespace asterism::controller {
namespace {

TEST(ClockWatch, CountsStepsInBothDirectionsAndNoSlew) {
  base::SimClock clock;
  base::MetricRegistry registry;
  ClockWatch watch(clock, registry);
  const auto steps = [&] {
    watch.Look();
    const std::string page = registry.Expose();
    return page.substr(page.find("\nasterism_wall_clock_steps_total ") + 33, 1);
  };
  clock.Advance(absl::Seconds(5));
  clock.StepWall(absl::Milliseconds(300));
  EXPECT_EQ(steps(), "0");
  clock.StepWall(absl::Hours(1));
  EXPECT_EQ(steps(), "1");
  EXPECT_EQ(steps(), "1") << "one step is counted once";
  clock.StepWall(-absl::Hours(1));
  EXPECT_EQ(steps(), "2");
}

}  // namespace
}  // namespace asterism::controller
