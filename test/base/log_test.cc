#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

std::string TextLine(LogFields fields) {
  return FormatLogLine(LogFormat::kText, "event", fields);
}
std::string JsonLine(LogFields fields) {
  return "{" + FormatLogLine(LogFormat::kJson, "event", fields) + "}";
}

TEST(FormatLogLine, PutsTheEventFirstAndThenTheFields) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "gang_placed",
                          {{"gang", "research/llama"}, {"epoch", 3}, {"nodes", uint64_t{64}}}),
            "gang_placed gang=research/llama epoch=3 nodes=64");
}

TEST(FormatLogLine, JsonKeepsNumbersAsNumbers) {
  EXPECT_EQ(JsonLine({{"gang", "research/llama"}, {"epoch", 3}, {"share", 0.5}}),
            R"({"event":"event","gang":"research/llama","epoch":3,"share":0.500000})");
}

TEST(FormatLogLine, JsonHasNoWordForNanAndInfinity) {
  EXPECT_EQ(JsonLine({{"v", std::nan("")}}), R"({"event":"event","v":"nan"})");
  EXPECT_EQ(JsonLine({{"v", std::numeric_limits<double>::infinity()}}),
            R"({"event":"event","v":"inf"})");
}

TEST(FormatLogLine, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(TextLine({{"a", "plain-1.2/x:y"}}), "event a=plain-1.2/x:y");
  EXPECT_EQ(TextLine({{"a", "two words"}}), R"(event a="two words")");
  EXPECT_EQ(TextLine({{"a", ""}}), R"(event a="")");
  EXPECT_EQ(TextLine({{"a", "k=v"}}), R"(event a="k=v")");
  EXPECT_EQ(TextLine({{"a", "say \"no\""}}), R"(event a="say \"no\"")");
  EXPECT_EQ(TextLine({{"a", "back\\slash"}}), R"(event a="back\\slash")");
}

// A foreign value can forge neither a second line nor a terminal escape, in either format.
TEST(FormatLogLine, NoValueCanLeaveItsLine) {
  for (int byte = 0; byte < 0x20; ++byte) {
    const std::string value = std::string("a") + static_cast<char>(byte) + "b";
    for (const std::string& line : {TextLine({{"v", value}}), JsonLine({{"v", value}})}) {
      for (const char letter : line) {
        ASSERT_GE(static_cast<unsigned char>(letter), 0x20) << "byte " << byte;
      }
    }
  }
  EXPECT_EQ(TextLine({{"v", "x\ny"}}), R"(event v="x\u000ay")");
  EXPECT_EQ(TextLine({{"v", "\x7f"}}), R"(event v="\u007f")");
}

TEST(FormatLogLine, KeepsUtf8) {
  EXPECT_EQ(TextLine({{"v", "käse"}}), "event v=käse");
}

TEST(Log, WritesOneLineToStderrWithTimeAndLevel) {
  SetUpLog(LogFormat::kText, LogLevel::kInfo);
  testing::internal::CaptureStderr();
  LogDebug("hidden", {});
  LogInfo("shown", {{"n", 1}});
  LogError("loud");
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_THAT(written,
              testing::MatchesRegex("[0-9-]+T[0-9:.]+Z I shown n=1\n[0-9-]+T[0-9:.]+Z E loud\n"));
}

TEST(Log, WritesJsonObjects) {
  SetUpLog(LogFormat::kJson, LogLevel::kDebug);
  testing::internal::CaptureStderr();
  LogDebug("detail", {{"text", "{}%s"}});
  const std::string written = testing::internal::GetCapturedStderr();
  SetUpLog(LogFormat::kText, LogLevel::kInfo);
  EXPECT_THAT(written, testing::MatchesRegex(
                           "\\{\"time\":\"[0-9-]+T[0-9:.]+Z\",\"level\":\"debug\",\"event\":"
                           "\"detail\",\"text\":\"\\{\\}%s\"\\}\n"));
}

// A full disk, or a reader that is gone: what is logged is lost, and nothing else.
TEST(Log, CountsLinesThatCouldNotBeWritten) {
  TakeLostLogLines();
  const int kept = dup(STDERR_FILENO);
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  dup2(full, STDERR_FILENO);
  LogInfo("lost");
  LogInfo("lost");
  dup2(kept, STDERR_FILENO);
  close(full);
  close(kept);
  LogInfo("written");
  EXPECT_EQ(TakeLostLogLines(), 2u);
  EXPECT_EQ(TakeLostLogLines(), 0u);
}

}  // namespace
}  // namespace asterism::base
