#include "controller/yaml_tree.h"

#include <rapidcheck.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  return std::string(ParseYamlTree(text).status().message());
}

TEST(YamlTree, KeepsOrderLinesAndQuotes) {
  const YamlNode root = ParseYamlTree("b: 1\na: [x, 'y']\nc: {d: ~}\n").value();
  ASSERT_EQ(root.kind, YamlNode::Kind::kMap);
  ASSERT_EQ(root.fields.size(), 3u);
  EXPECT_EQ(root.fields[0].key, "b");
  EXPECT_EQ(root.Find("b")->text, "1");
  const YamlNode& list = *root.Find("a");
  EXPECT_EQ(list.line, 2);
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_FALSE(list.items[0].quoted);
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(root.Find("c")->Find("d")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.Find("e"), nullptr);
}

TEST(YamlTree, AnEmptyTextIsNull) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n"}) {
    EXPECT_EQ(ParseYamlTree(text).value().kind, YamlNode::Kind::kNull) << text;
  }
}

TEST(YamlTree, RefusesWhatHidesMeaning) {
  EXPECT_THAT(ErrorOf("a: 1\na: 2\n"), HasSubstr("line 2, column 1: the key \"a\" is there twice"));
  EXPECT_THAT(ErrorOf("a: &x 1\n"), HasSubstr("anchors"));
  EXPECT_THAT(ErrorOf("a: &x [1]\nb: *x\n"), HasSubstr("anchors"));
  EXPECT_THAT(ErrorOf("a: !!str 1\n"), HasSubstr("tags"));
  EXPECT_THAT(ErrorOf("a: !mine {b: 1}\n"), HasSubstr("tags"));
  EXPECT_THAT(ErrorOf("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_THAT(ErrorOf("[1]: 2\n"), HasSubstr("a key must be a word"));
  EXPECT_THAT(ErrorOf("? \n: 2\n"), HasSubstr("a key must be a word"));
}

TEST(YamlTree, NamesThePlaceOfASyntaxError) {
  EXPECT_THAT(ErrorOf("a: [1\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(ErrorOf("a: b: c\n"), HasSubstr("line 1"));
}

TEST(YamlTree, HasBounds) {
  EXPECT_THAT(ErrorOf(std::string(kYamlBytesMax + 1, ' ')), HasSubstr("more than the limit"));
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(ErrorOf(nested(kYamlDepthMax)), "");
  EXPECT_THAT(ErrorOf(nested(kYamlDepthMax + 1)), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(ErrorOf(nested(100'000)), HasSubstr("nested deeper"));
  EXPECT_NE(ErrorOf(std::string(100'000, '[')), "");
  std::string many = "[";
  for (size_t i = 0; i <= kYamlNodesMax; ++i) {
    many += "1,";
  }
  EXPECT_THAT(ErrorOf(many + "]"), HasSubstr("more than 10000 values"));
}

TEST(YamlTree, ReadsBackEveryQuotedText) {
  EXPECT_TRUE(rc::check("quote and parse are opposites", [] {
    const std::string text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    const auto root = ParseYamlTree("key: " + QuoteYaml(text));
    RC_ASSERT(root.ok());
    RC_ASSERT(root->Find("key")->text == text);
    RC_ASSERT(root->Find("key")->quoted);
  }));
}

}  // namespace
}  // namespace asterism::controller
