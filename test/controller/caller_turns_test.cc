#include "controller/caller_turns.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::ElementsAre;

TEST(CallerTurns, WhoAsksForMuchWaitsBehindItself) {
  base::SimClock clock;
  base::SimExecutor worker(clock);
  CallerTurns turns(worker);
  std::vector<std::string> ran;
  for (int i = 0; i < 3; ++i) {
    turns.Post("busy", [&ran, i] { ran.push_back("busy" + std::to_string(i)); });
  }
  turns.Post("other", [&] {
    ran.push_back("other");
    turns.Post("other", [&ran] { ran.push_back("other again"); });
  });
  worker.RunUntilIdle();
  EXPECT_THAT(ran, ElementsAre("busy0", "other", "busy1", "other again", "busy2"));
  turns.Post("busy", [&ran] { ran.push_back("busy3"); });
  worker.RunUntilIdle();
  EXPECT_EQ(ran.back(), "busy3");
}

}  // namespace
}  // namespace asterism::controller
