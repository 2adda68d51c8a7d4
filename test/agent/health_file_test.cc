#include "agent/health_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::agent {
namespace {

using ::testing::HasSubstr;

class HealthFileTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  static base::SteadyTime At(int second) { return base::SteadyTime{} + absl::Seconds(second); }
  absl::Status Check(HealthQuestion question, int second) const {
    return CheckHealth(path_, question, At(second));
  }

  const std::string path_ = ::testing::TempDir() + "health-" + std::to_string(getpid());
};

TEST_F(HealthFileTest, LivesWhileItIsWritten) {
  EXPECT_FALSE(Check(HealthQuestion::kLive, 100).ok());
  ASSERT_TRUE(WriteHealth(path_, {}, At(100)).ok());
  EXPECT_TRUE(Check(HealthQuestion::kLive, 160).ok());
  EXPECT_TRUE(Check(HealthQuestion::kReady, 160).ok());
  EXPECT_THAT(std::string(Check(HealthQuestion::kLive, 161).message()), HasSubstr("not moved"));
  // Of an earlier boot.
  EXPECT_FALSE(Check(HealthQuestion::kLive, 5).ok());
}

TEST_F(HealthFileTest, IsReadyWithoutComplaints) {
  ASSERT_TRUE(WriteHealth(path_, {"not attached", "kubelet \xff is away"}, At(1)).ok());
  EXPECT_TRUE(Check(HealthQuestion::kLive, 2).ok());
  const absl::Status ready = Check(HealthQuestion::kReady, 2);
  EXPECT_THAT(std::string(ready.message()), HasSubstr("not attached; kubelet"));
}

TEST_F(HealthFileTest, TakesNoNonsenseForHealth) {
  for (const char* text :
       {"", "{", "[]", "{}", "{\"steadyNanoseconds\": \"1\", \"complaints\": []}",
        "{\"steadyNanoseconds\": 1, \"complaints\": 7}"}) {
    std::ofstream(path_) << text;
    EXPECT_FALSE(Check(HealthQuestion::kLive, 1).ok()) << text;
  }
  EXPECT_THAT(std::string(WriteHealth("/no/such/folder/x", {}, At(1)).message()),
              HasSubstr("--health-file"));
}

}  // namespace
}  // namespace asterism::agent
