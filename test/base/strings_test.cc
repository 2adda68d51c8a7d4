#include "base/strings.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

TEST(Strings, BridgesKeepEveryByte) {
  const std::string text("a\0b", 3);
  EXPECT_EQ(ToStd(ToAbsl(text)), text);
  EXPECT_EQ(ToAbsl(std::string_view()).size(), 0u);
  EXPECT_EQ(absl::StrCat("x", ToAbsl("y")), "xy");
}

TEST(Strings, AViewIsNotACopy) {
  const std::string text = "shared";
  EXPECT_EQ(ToAbsl(text).data(), text.data());
  EXPECT_EQ(ToStd(absl::string_view(text)).data(), text.data());
}

TEST(StringMap, IsAskedWithAView) {
  StringMap<int> counts;
  counts["gpu-0417"] = 8;
  const std::string_view line = "gpu-0417 Ready";
  const auto found = counts.find(line.substr(0, 8));
  ASSERT_NE(found, counts.end());
  EXPECT_EQ(found->second, 8);
  EXPECT_TRUE(counts.contains("gpu-0417"));
  EXPECT_FALSE(counts.contains(line));
}

}  // namespace
}  // namespace asterism::base
