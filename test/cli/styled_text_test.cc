#include "cli/styled_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/age_text.h"
#include "cli/near_names.h"
#include "cli/structured_output.h"
#include "cli/table.h"
#include "nlohmann/json.hpp"

namespace asterism::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StyledText, ControlsAndHiddenCharactersAreShownAsEscapes) {
  EXPECT_EQ(Escaped("a\nb\tc\r"), "a\\nb\\tc\\r");
  EXPECT_EQ(Escaped("\x1b[31mred\x7f"), "\\x1b[31mred\\x7f");
  EXPECT_EQ(Escaped("\xc2\x9b"), "\\x9b");  // C1: another way to begin a sequence
  EXPECT_EQ(Escaped("a\xe2\x80\xae"
                    "b"),
            "a\\u202eb");  // right-to-left override
  EXPECT_EQ(Escaped("a\xe2\x80\x8b"
                    "b"),
            "a\\u200bb");                                 // zero width
  EXPECT_EQ(Escaped("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");  // no UTF-8
  EXPECT_EQ(Escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Escaped("M\xc3\xbcnchen \xe6\x9d\xb1"), "M\xc3\xbcnchen \xe6\x9d\xb1");
}

TEST(StyledText, WideCharactersTakeTwoColumnsAndCombiningOnesNone) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("\xe6\x9d\xb1"), 2u);
  EXPECT_EQ(DisplayWidth("e\xcc\x81"), 1u);
  EXPECT_EQ(CutToWidth("\xe6\x9d\xb1\xe4\xba\xac\xe9\x83\xbd", 5), "\xe6\x9d\xb1...");
}

TEST(StyledText, LinesAreCutToTheWidth) {
  const Line line = Line("0123456789").Add("abcdef", Tone::kBad);
  EXPECT_EQ(Print({line}, {.width = 0}), "0123456789abcdef\n");
  EXPECT_EQ(Print({line}, {.width = 16}), "0123456789abcdef\n");
  EXPECT_EQ(Print({line}, {.width = 12}), "012345678...\n");
  EXPECT_EQ(Print({line}, {.width = 2}), "01\n");
  EXPECT_EQ(Print({line}, {.width = 1}), "0\n");
}

TEST(StyledText, ColoursOnlyWhereTheyAreWanted) {
  const Line line = Line("free ").Add("8", Tone::kGood);
  EXPECT_EQ(Print({line}, {}), "free 8\n");
  EXPECT_EQ(Print({line}, {.colour = true}), "free \x1b[32m8\x1b[0m\n");
}

TEST(StyledText, LongTextsWrapBehindTheirLabel) {
  std::vector<Line> lines;
  AddWrapped("why: ", "one two three four five six seven", Tone::kPlain, 26, lines);
  EXPECT_EQ(Print(lines, {}), "why: one two three four\n     five six seven\n");
  lines.clear();
  AddWrapped("why: ", std::string(45, 'x'), Tone::kPlain, 30, lines);
  EXPECT_EQ(Print(lines, {}),
            "why: " + std::string(25, 'x') + "\n     " + std::string(20, 'x') + "\n");
  lines.clear();
  AddWrapped("why: ", "", Tone::kPlain, 30, lines);
  EXPECT_EQ(Print(lines, {}), "why:\n");
}

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"NAME"}, {"GPUS", Align::kRight}, {"REASON"}});
  table.AddRow({{"llama"}, {"8"}, {""}});
  table.AddRow({{"a\nb"}, {"1024"}, {"NoCapacity"}});
  EXPECT_EQ(Print(table.Lines(), {}),
            "NAME    GPUS   REASON\n"
            "llama      8\n"
            "a\\nb    1024   NoCapacity\n");
}

TEST(NearNames, NamesWhatWasMeantAndNothingFar) {
  EXPECT_THAT(NearNames("topolgy", {"topology", "top", "queue"}), ElementsAre("topology"));
  EXPECT_THAT(NearNames("lama", {"llama", "lambda", "x"}), ElementsAre("llama"));
  EXPECT_THAT(NearNames("llama-1", {"llama-10", "llama-2", "llama"}),
              ElementsAre("llama-10", "llama-2", "llama"));
  EXPECT_THAT(NearNames("trian", {"train", "rain"}), ElementsAre("train"));
  EXPECT_THAT(NearNames("zzz", {"llama"}), IsEmpty());
  EXPECT_EQ(DidYouMean("zzz", {"llama"}), "");
  EXPECT_EQ(DidYouMean("lama", {"llama"}), ": did you mean \"llama\"?");
}

TEST(AgeText, WritesDurationsAsKubectlDoes) {
  EXPECT_EQ(AgeText(absl::Seconds(-5)), "0s");
  EXPECT_EQ(AgeText(absl::Seconds(95)), "95s");
  EXPECT_EQ(AgeText(absl::Seconds(303)), "5m3s");
  EXPECT_EQ(AgeText(absl::Minutes(45)), "45m");
  EXPECT_EQ(AgeText(absl::Minutes(185)), "3h5m");
  EXPECT_EQ(AgeText(absl::Hours(30)), "30h");
  EXPECT_EQ(AgeText(absl::Hours(76)), "3d4h");
  EXPECT_EQ(AgeText(absl::Hours(24 * 400)), "400d");
  EXPECT_EQ(AgeText(absl::Hours(24 * 800)), "2y70d");
  EXPECT_EQ(AgeText(absl::InfiniteDuration()), "<unknown>");
  EXPECT_EQ(ShortDuration(absl::Microseconds(71)), "71 us");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(2)), "2.0 ms");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(640)), "640 ms");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(2100)), "2.1 s");
  EXPECT_EQ(ShortDuration(absl::Minutes(12)), "12m");
}

TEST(StructuredOutput, YamlHasTheFieldsOfTheJson) {
  const nlohmann::ordered_json value = {
      {"name", "llama"},
      {"reason", "yes"},
      {"count", 3},
      {"empty", nlohmann::ordered_json::array()},
      {"rows", {{{"a", 1}, {"b", "x: y"}}, {{"a", 2}, {"deep", {{"c", true}}}}}},
      {"list", {"gpu-0001", "1e3", "a\nb"}},
      {"none", nullptr}};
  EXPECT_EQ(StructuredText(value, OutputFormat::kYaml),
            "name: llama\n"
            "reason: \"yes\"\n"
            "count: 3\n"
            "empty: []\n"
            "rows:\n"
            "- a: 1\n"
            "  b: \"x: y\"\n"
            "- a: 2\n"
            "  deep:\n"
            "    c: true\n"
            "list:\n"
            "- gpu-0001\n"
            "- \"1e3\"\n"
            "- \"a\\nb\"\n"
            "none: null\n");
  EXPECT_EQ(nlohmann::ordered_json::parse(StructuredText(value, OutputFormat::kJson)), value);
  EXPECT_EQ(StructuredText({{"text", "\xff"}}, OutputFormat::kJson),
            "{\n  \"text\": \"\xef\xbf\xbd\"\n}\n");
}

}  // namespace
}  // namespace asterism::cli
