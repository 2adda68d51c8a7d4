#include "planner/setting.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/setting_reader.h"

namespace asterism::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SettingList SomeSettings() {
  SettingList list;
  list.Whole("batch", 8);
  list.Whole("zero.stage", 1);
  list.Boolean("zero.deep.overlap", true);
  list.Text("zero.device", "c\"pu");
  list.Words("zero.modules", {"a", "b"});
  list.Switch("off", false);
  return list;
}

TEST(Setting, EachFormatNestsAsItDoes) {
  EXPECT_THAT(ArgumentsOf(SomeSettings()),
              ElementsAre("--batch", "8", "--zero.stage", "1", "--zero.deep.overlap", "true",
                          "--zero.device", "c\"pu", "--zero.modules", "a", "b"));
  EXPECT_THAT(OverridesOf(SomeSettings()), testing::Contains("zero.modules=[a,b]"));
  EXPECT_EQ(JsonOf(SomeSettings()), R"({
  "batch": 8,
  "zero": {
    "stage": 1,
    "deep": {
      "overlap": true
    },
    "device": "c\"pu",
    "modules": ["a", "b"]
  }
}
)");
  EXPECT_EQ(YamlOf(SomeSettings()), R"(batch: 8
zero:
  stage: 1
  deep:
    overlap: true
  device: c"pu
  modules: ["a", "b"]
)");
  EXPECT_EQ(TomlOf(SomeSettings()), R"(batch = 8

[zero]
stage = 1
device = "c\"pu"
modules = ["a", "b"]

[zero.deep]
overlap = true
)");
}

TEST(SettingReader, ErrorsNameTheLine) {
  const auto message = [](const auto& read) { return std::string(read.status().message()); };
  EXPECT_THAT(message(ParseNestedYaml("a: 1\na: 2\n")), HasSubstr("YAML, line 2: a: is set twice"));
  EXPECT_THAT(message(ParseNestedYaml("just words\n")), HasSubstr("YAML, line 1: expected"));
  EXPECT_THAT(message(ParseToml("[a\n")), HasSubstr("TOML, line 1: expected `[table]`"));
  EXPECT_THAT(message(ParseToml("[a]\nb\n")), HasSubstr("TOML, line 2: expected `key = value`"));
  EXPECT_THAT(message(ParseToml("[a]\nb =\n")), HasSubstr("TOML, line 2: has no value"));
  EXPECT_THAT(message(ParseNestedJson("{\"a\": {\"b\": 1")), HasSubstr("ends too early"));
}

TEST(SettingReader, PythonsWordsAndCommentsAreRead) {
  const auto yaml = ParseNestedYaml("---\na: True  # yes\nb:\n  c: 'x # y'\n  d: null\ne: 1.5\n");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_EQ(*yaml->BooleanOr("a", false), true);
  EXPECT_EQ(*yaml->TextOr("b.c", ""), "x # y");
  EXPECT_EQ(yaml->Find("b.d"), nullptr);
  EXPECT_EQ(*yaml->NumberOr("e", 0), 1.5);
}

TEST(SettingReader, TheLastOfAnArgumentWins) {
  const std::vector<std::string> words = {"python", "--n", "1", "--flag", "x.py", "--n=2"};
  const FieldTable fields = ReadArguments(words, std::vector<std::string_view>{"flag"});
  EXPECT_EQ(*fields.Whole("n"), 2);
  EXPECT_EQ(*fields.BooleanOr("flag", false), true);
}

}  // namespace
}  // namespace asterism::planner
