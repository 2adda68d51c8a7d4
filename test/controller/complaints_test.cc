#include "controller/complaints.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using testing::HasSubstr;

TEST(Complaints, AreAllTold) {
  Complaints complaints;
  EXPECT_TRUE(complaints.ToStatus().ok());
  complaints.Add("a", "is wrong", "mend it");
  complaints.Add("b.c", "is missing", "add it");
  EXPECT_EQ(complaints.ToStatus(),
            absl::InvalidArgumentError("a: is wrong: mend it\nb.c: is missing: add it"));
}

TEST(Complaints, CountWhatIsTooMuch) {
  Complaints complaints;
  for (size_t i = 0; i < Complaints::kComplaintsMax + 7; ++i) {
    complaints.Add(std::to_string(i), "is wrong", "mend it");
  }
  const std::string message(complaints.ToStatus().message());
  EXPECT_THAT(message, HasSubstr("49: is wrong"));
  EXPECT_THAT(message, testing::Not(HasSubstr("50: is wrong")));
  EXPECT_THAT(message, HasSubstr("and 7 more"));
}

TEST(NearestName, TakesTheFirstOfTheNearest) {
  EXPECT_EQ(NearestName("htps", {"metrics", "https"}), "https");
  EXPECT_EQ(NearestName("zzz", {"aaa", "bbb"}), "aaa");
}

TEST(Shown, IsShortAndOnOneLine) {
  EXPECT_EQ(Shown("a\nb"), R"("a\x0ab")");
  EXPECT_EQ(Shown(std::string(61, 'x')), "\"" + std::string(60, 'x') + "\"...");
}

}  // namespace
}  // namespace asterism::controller
