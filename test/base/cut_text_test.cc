#include "base/cut_text.h"

#include <gtest/gtest.h>

namespace asterism::base {
namespace {

TEST(CutText, NeverCutsACharacter) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("abcdef", 5), "ab...");
  EXPECT_EQ(CutText("a\xc3\xa4\xc3\xa4\xc3\xa4", 5), "a...");
  EXPECT_EQ(CutText("abcdef", 2), "...");
}

}  // namespace
}  // namespace asterism::base
