#include "launch/progress_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

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
      ParseProgressLine(R"({"step": 7, "stepTimeMilliseconds": 12.5, "tokensPerSecond": 1e6})");
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->step, 7);
  EXPECT_EQ(reading->step_time_milliseconds, 12.5);
  EXPECT_EQ(reading->tokens_per_second, 1e6);
  EXPECT_TRUE(ParseProgressLine(R"({"step": 0, "loss": 2.5})"));
  for (const char* bad : {"", "7", "[]", "{}", R"({"step": "7"})", R"({"step": 7.5})",
                          R"({"step": -1})", R"({"step": 7)", "\xff\xfe", R"({"step": 1e99})"}) {
    EXPECT_FALSE(ParseProgressLine(bad)) << bad;
  }
  EXPECT_EQ(ParseProgressLine(R"({"step": 7, "stepTimeMilliseconds": -1})")->step_time_milliseconds,
            0);
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
}

TEST_F(ProgressFileTest, NeverWaitsForAFifo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(file_.Look());
  EXPECT_THAT(file_.problem(), HasSubstr("regular file"));
}

}  // namespace
}  // namespace asterism::launch
