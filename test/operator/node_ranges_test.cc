#include "operator/node_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace asterism::operators {
namespace {

using Names = std::vector<std::string>;

TEST(NodeRanges, FoldsConsecutiveNumbersAndKeepsTheOrder) {
  const std::vector<std::pair<Names, std::string>> cases = {
      {{}, ""},
      {{"gpu-0000"}, "gpu-0000"},
      {{"gpu-0000", "gpu-0001", "gpu-0002", "gpu-0003"}, "gpu-[0000-0003]"},
      {{"gpu-0000", "gpu-0001", "gpu-0002", "gpu-0003", "gpu-0007", "login-1"},
       "gpu-[0000-0003,0007],login-1"},
      {{"gpu-0007", "gpu-0003", "gpu-0004"}, "gpu-[0007,0003-0004]"},
      {{"node7", "node66", "node8", "node70"}, "node[7,66,8,70]"},
      {{"n8", "n9", "n10", "n11"}, "n[8-9,10-11]"},
      {{"a", "a"}, "a*2"},
      {{"a", "a", "b", "c", "c", "c"}, "a*2,b,c*3"},
      {{"g-1", "g-1", "g-2", "g-2", "g-3"}, "g-[1-2*2,3]"},
      {{"ip-10-0-0-1.site.example", "ip-10-0-0-2.site.example"}, "ip-10-0-0-[1-2].site.example"},
      {{"rack1-node1", "rack2-node1", "rack2-node2"}, "rack[1-2]-node1,rack2-node2"},
      {{"1", "2"}, "[1-2]"},
      {{"", ""}, "\\e*2"},
      {{"a,b", "[c]*", "\\e"}, "a\\,b,\\[c\\]\\*,\\\\e"},
  };
  for (const auto& [names, text] : cases) {
    EXPECT_EQ(FormatNodeRanges(names), text);
    const auto parsed = ParseNodeRanges(text, names.size());
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, names) << text;
  }
}

TEST(NodeRanges, StaysShortForALargeJob) {
  Names names;
  for (int node = 0; node < 1280; ++node) {
    names.push_back(fmt::format("gpu-{:04}", node));
  }
  EXPECT_EQ(FormatNodeRanges(names), "gpu-[0000-1279]");
}

TEST(NodeRanges, RefusesWhatItCannotHaveWritten) {
  for (const char* text : {",",
                           "a,",
                           "a,,b",
                           "a[",
                           "a[]",
                           "a[1",
                           "a[1-]",
                           "a[2-1]",
                           "a[1-02]",
                           "a[1]b[2]",
                           "a*",
                           "a*0",
                           "a*x",
                           "a]",
                           "a[1]*2",
                           "a\\",
                           "a\\b",
                           "a[x]",
                           "a[1234567890123456789]",
                           "*2",
                           "\\ee"}) {
    EXPECT_FALSE(ParseNodeRanges(text, 100).ok()) << text;
  }
}

TEST(NodeRanges, NeverMakesMoreNamesThanTheLimit) {
  for (const char* text : {"a*1000000000000", "a[0-9]", "a[000000000000000000-999999999999999999]",
                           "a[1-9*999999999]", "a,b,c,d"}) {
    const auto parsed = ParseNodeRanges(text, 3);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), testing::HasSubstr("more than 3 names"));
  }
  EXPECT_FALSE(ParseNodeRanges(std::string(254, 'a'), 3).ok());
  EXPECT_FALSE(ParseNodeRanges(std::string(250, 'a') + "[0000-0001]", 3).ok());
}

// Names that collide a lot: few letters, digits with leading zeros, the characters of the format.
rc::Gen<std::string> AwkwardName() {
  return rc::gen::mapcat(rc::gen::inRange(0, 8), [](int length) {
    return rc::gen::container<std::string>(
        static_cast<std::size_t>(length),
        rc::gen::element('a', '-', '.', '0', '1', '9', '[', ']', ',', '*', '\\', 'e'));
  });
}

TEST(NodeRanges, UndoesItselfForAnyNames) {
  EXPECT_TRUE(rc::check([] {
    const Names names = *rc::gen::container<Names>(AwkwardName());
    const auto parsed = ParseNodeRanges(FormatNodeRanges(names), names.size());
    RC_ASSERT(parsed.ok());
    RC_ASSERT(*parsed == names);
  }));
}

TEST(NodeRanges, UndoesItselfForRunsOfNumberedNodes) {
  EXPECT_TRUE(rc::check([] {
    Names names;
    for (const int run : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 30))) {
      for (int i = 0; i < run % 7; ++i) {
        const std::string name = fmt::format("gpu-{:0{}}.z{}", run * 5 + i, 1 + run % 3, run % 2);
        names.insert(names.end(), static_cast<size_t>(1 + run % 4), name);
      }
    }
    const auto parsed = ParseNodeRanges(FormatNodeRanges(names), names.size());
    RC_ASSERT(parsed.ok());
    RC_ASSERT(*parsed == names);
  }));
}

}  // namespace
}  // namespace asterism::operators
