#include "operator/text_with_holes.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <string>

namespace asterism::operators {
namespace {

TEST(TextWithHoles, FillsEachHoleWhereverItsMarkStands) {
  const HoleMarks marks(2, "");
  const TextWithHoles text(marks[1] + "-" + marks[0] + "/" + marks[1], marks);
  EXPECT_EQ(text.Fill(std::array<std::string, 2>{"a", "b"}), "b-a/b");
  EXPECT_EQ(text.Fill(std::array<std::string, 2>{"", "@@0;"}), "@@0;-/@@0;");
}

TEST(TextWithHoles, NoOtherTextIsTakenForAMark) {
  EXPECT_TRUE(rc::check([] {
    const auto text = *rc::gen::container<std::string>(rc::gen::element('@', '0', ';', 'a'));
    const HoleMarks marks(1, text);
    const TextWithHoles filled(text + "=" + marks[0] + text, marks);
    RC_ASSERT(filled.Fill(std::array<std::string, 1>{"x"}) == text + "=x" + text);
  }));
}

}  // namespace
}  // namespace asterism::operators
