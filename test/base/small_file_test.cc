#include "base/small_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace asterism::base {
namespace {

using ::testing::HasSubstr;

class SmallFileTest : public ::testing::Test {
 protected:
  SmallFileTest() { std::filesystem::create_directories(folder_); }
  ~SmallFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Why(const std::string& path) {
    return std::string(ReadSmallFile(path).status().message());
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("small-file-" + std::to_string(getpid()));
};

TEST_F(SmallFileTest, ReadsAlsoAnEmptyFile) {
  std::ofstream(folder_ / "full") << "text\n";
  std::ofstream(folder_ / "empty");
  EXPECT_EQ(ReadSmallFile(folder_ / "full").value(), "text\n");
  EXPECT_EQ(ReadSmallFile(folder_ / "empty").value(), "");
}

TEST_F(SmallFileTest, NeverWaitsForWhatIsNoFile) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(Why(folder_ / "fifo"), HasSubstr("fifo is not a regular file"));
  EXPECT_THAT(Why(folder_), HasSubstr("is not a regular file"));
  EXPECT_THAT(Why("/dev/zero"), HasSubstr("is not a regular file"));
  EXPECT_THAT(Why(folder_ / "absent"), HasSubstr("No such file"));
}

TEST_F(SmallFileTest, HasALimit) {
  std::filesystem::resize_file((std::ofstream(folder_ / "big"), folder_ / "big"),
                               kSmallFileMax + 1);
  EXPECT_THAT(Why(folder_ / "big"), HasSubstr("larger than 4 MiB"));
}

}  // namespace
}  // namespace asterism::base
