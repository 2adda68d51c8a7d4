#include "base/check.h"

#include <string>

#include "gtest/gtest.h"

namespace asterism::base {
namespace {

TEST(CheckThat, PassesWithoutEvaluatingTheMessage) {
  int messages = 0;
  const auto message = [&messages] {
    ++messages;
    return std::string("never built");
  };
  CHECK_THAT(2 > 1, message());
  EXPECT_EQ(messages, 0);
}

TEST(CheckThatDeathTest, NamesFileConditionAndMessage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const int free_gpus = -1;
  EXPECT_DEATH(CHECK_THAT(free_gpus >= 0, "free GPUs of a node fell below zero"),
               "check_test.cc:[0-9]+: check failed: free_gpus >= 0: free GPUs of a node");
}

TEST(BugIf, IsFalseWhereNothingIsWrong) {
  EXPECT_FALSE(BUG_IF(1 > 2, "arithmetic is broken"));
}

// The tests are built without NDEBUG, where a bug ends the program.
#ifndef NDEBUG
TEST(BugIfDeathTest, EndsATestBuild) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH((void)BUG_IF(1 < 2, "cannot be"), "bug.*message=\"cannot be\"");
}
#endif

}  // namespace
}  // namespace asterism::base
