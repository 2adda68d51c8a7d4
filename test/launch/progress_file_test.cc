#include "launch/progress_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::launch {
namespace {

using ::testing::HasSubstr;

class ProgressFileTest : public ::testing::Test {
 protected:
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  ~ProgressFileTest() override { std::filesystem::remove(path_); }

  const std::string path_ =
      ::testing::TempDir() + "progress-" + std::to_string(getpid()) + ".jsonl";
  ProgressFile file_{path_};
};

TEST(ParseProgressLine, NeedsAStep) {
  const auto reading =
      ParseProgressLine(R"({"step": 7, "stepTimeMilliseconds": 12.5, "tokensPerSecond": 1e6})")
          .reading;
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->step, 7);
  EXPECT_EQ(reading->step_time_milliseconds, 12.5);
  EXPECT_EQ(reading->tokens_per_second, 1e6);
  EXPECT_TRUE(ParseProgressLine(R"({"step": 0, "loss": 2.5})").reading);
  for (const char* bad :
       {"", "7", "[]", "{}", R"({"step": "7"})", R"({"step": 7.5})", R"({"step": -1})",
        R"({"step": 7)", "\xff\xfe", R"({"step": 1e99})", R"({"step": 9223372036854775808})",
        R"({"step": 18446744073709551615})", R"({"step": -9223372036854775809})",
        R"({"step": NaN})", R"({"step": Infinity})", R"({"step": 1e999})"}) {
    EXPECT_FALSE(ParseProgressLine(bad).reading) << bad;
    EXPECT_THAT(ParseProgressLine(bad).problem, HasSubstr("\"step\"")) << bad;
  }
  EXPECT_EQ(ParseProgressLine(R"({"step": 9223372036854775807})").reading->step,
            std::numeric_limits<int64_t>::max());
}

TEST(ParseProgressLine, LeavesOutNumbersThatAreNone) {
  // The first three are what Python's json.dumps writes.
  for (const char* bad : {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-1", "\"8\"", "[]"}) {
    const std::string line = std::string(R"({"loss": NaN, "note": "NaN \" 1e999", "step": 7, )") +
                             R"("stepTimeMilliseconds": 2.5, "tokensPerSecond": )" + bad + "}";
    const ProgressLine parsed = ParseProgressLine(line);
    ASSERT_TRUE(parsed.reading) << line;
    EXPECT_EQ(parsed.reading->step, 7);
    EXPECT_EQ(parsed.reading->step_time_milliseconds, 2.5);
    EXPECT_EQ(parsed.reading->tokens_per_second, 0) << line;
    EXPECT_THAT(parsed.problem, HasSubstr("\"tokensPerSecond\"")) << line;
  }
  const ProgressLine others = ParseProgressLine(R"({"step": 7, "loss": NaN, "x": [-Infinity]})");
  EXPECT_TRUE(others.reading);
  EXPECT_EQ(others.problem, "");
  EXPECT_EQ(ParseProgressLine(R"({"step": 7, "tokensPerSecond": null})").problem, "");
}

TEST_F(ProgressFileTest, TakesTheNewestCompleteLine) {
  EXPECT_FALSE(file_.Look());
  EXPECT_EQ(file_.problem(), "");
  Append("{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 2);
  EXPECT_FALSE(file_.Look());
  Append("}\n");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 3);
}

TEST_F(ProgressFileTest, StartsAgainWithAnotherFile) {
  Append("{\"step\": 100}\n");
  EXPECT_TRUE(file_.Look());
  std::filesystem::resize_file(path_, 0);
  Append("{\"step\": 5}\n");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 5);
}

TEST_F(ProgressFileTest, SeesAFileWrittenOverInPlace) {
  Append("{\"step\": 100}\n");
  EXPECT_TRUE(file_.Look());
  for (int step = 101; step < 110; ++step) {
    // The same file, as long as before, and within one tick of its clock.
    std::ofstream(path_) << "{\"step\": " << step << "}\n";
    EXPECT_TRUE(file_.Look()) << step;
    EXPECT_EQ(file_.newest()->step, step);
    EXPECT_FALSE(file_.Look()) << "nothing has changed";
  }
}

TEST_F(ProgressFileTest, SeesALaterChangeOfASettledFile) {
  Append("{\"step\": 100}\n");
  EXPECT_TRUE(file_.Look());
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(file_.Look());
  }
  std::ofstream(path_) << "{\"step\": 101}\n";
  // As if by a program that sets the time of the file back.
  const std::array<timespec, 2> times = {timespec{.tv_sec = 5}, timespec{.tv_sec = 5}};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 101);
}

TEST_F(ProgressFileTest, SeesAFileThatBeganAgainAndIsLonger) {
  Append("{\"step\": 100}\n{\"step\": 200}\n");
  EXPECT_TRUE(file_.Look());
  std::ofstream(path_) << "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"ste";
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 3);
  Append("p\": 4}\n");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 4);
}

TEST_F(ProgressFileTest, SeesAReplacedFileOfTheSameLength) {
  Append("{\"step\": 100}\n");
  EXPECT_TRUE(file_.Look());
  std::ofstream(path_ + ".new") << "{\"step\": 300}\n";
  std::filesystem::rename(path_ + ".new", path_);
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 300);
  std::filesystem::remove(path_);  // its number may be given again at once
  EXPECT_FALSE(file_.Look());
  Append("{\"step\": 400}\n");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 400);
}

TEST_F(ProgressFileTest, ALineThatIsWrittenOnceIsToldOnce) {
  Append("{\"step\": 100}\n");
  EXPECT_TRUE(file_.Look());
  Append("{\"st");
  EXPECT_FALSE(file_.Look());
  std::filesystem::last_write_time(path_, std::filesystem::file_time_type::clock::now());
  EXPECT_FALSE(file_.Look());
}

TEST_F(ProgressFileTest, LeavesOutWhatItCannotHold) {
  Append(std::string(1 << 20, 'x') + "\n{\"step\": 8}\n");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 8);
}

TEST_F(ProgressFileTest, SaysWhatItCannotRead) {
  Append("step 7\n");
  EXPECT_FALSE(file_.Look());
  EXPECT_THAT(file_.problem(), HasSubstr("\"step\""));
  Append("{\"step\": 8}\n");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.problem(), "");
  Append("step 9\n");
  EXPECT_FALSE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 8);
  EXPECT_THAT(file_.problem(), HasSubstr("\"step\""));
  std::filesystem::remove(path_);
  EXPECT_FALSE(file_.Look());
  EXPECT_EQ(file_.problem(), "");
}

TEST_F(ProgressFileTest, TellsAStepWhoseOtherNumbersAreNone) {
  Append("{\"step\": 7, \"tokensPerSecond\": Infinity, \"stepTimeMilliseconds\": 3}\n");
  EXPECT_TRUE(file_.Look());
  EXPECT_EQ(file_.newest()->step, 7);
  EXPECT_EQ(file_.newest()->tokens_per_second, 0);
  EXPECT_THAT(file_.problem(), HasSubstr("tokensPerSecond"));
}

TEST_F(ProgressFileTest, NeverWaitsForAFifo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(file_.Look());
  EXPECT_THAT(file_.problem(), HasSubstr("regular file"));
}

}  // namespace
}  // namespace asterism::launch
