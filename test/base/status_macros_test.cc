#include "base/status_macros.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace asterism::base {
namespace {

absl::Status PassOn(const absl::Status& first, int& reached) {
  RETURN_IF_ERROR(first);
  ++reached;
  RETURN_IF_ERROR(absl::OkStatus());
  ++reached;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<int>> MakeOrFail(int value) {
  if (value < 0) {
    return absl::InvalidArgumentError("negative");
  }
  return std::make_unique<int>(value);
}

absl::StatusOr<int> Sum(int left, int right) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> left_value, MakeOrFail(left));
  ASSIGN_OR_RETURN(const std::unique_ptr<int> right_value, MakeOrFail(right));
  return *left_value + *right_value;
}

TEST(StatusMacros, ReturnIfErrorStopsAtTheFirstError) {
  int reached = 0;
  EXPECT_EQ(PassOn(absl::NotFoundError("gone"), reached), absl::NotFoundError("gone"));
  EXPECT_EQ(reached, 0);
  EXPECT_TRUE(PassOn(absl::OkStatus(), reached).ok());
  EXPECT_EQ(reached, 2);
}

TEST(StatusMacros, AssignOrReturnMovesTheValueOrPassesTheErrorOn) {
  EXPECT_EQ(Sum(2, 3).value(), 5);
  EXPECT_EQ(Sum(2, -1).status(), absl::InvalidArgumentError("negative"));
  EXPECT_EQ(Sum(-1, 2).status(), absl::InvalidArgumentError("negative"));
}

}  // namespace
}  // namespace asterism::base
