#include "launch/host_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::launch {
namespace {

using ::testing::HasSubstr;

TEST(CheckHost, TakesNamesAndAddresses) {
  for (const char* host : {"a", "llama-r8.llama.research.svc", "node_1", "host.", "9.example",
                           "10.0.0.1", "::1", "fd00::10", "xn--bcher-kva.example", "1a"}) {
    EXPECT_TRUE(CheckHost(host).ok()) << host;
  }
  EXPECT_TRUE(CheckHost(std::string(63, 'a')).ok());
}

TEST(CheckHost, SaysWhatToWriteInsteadOfWhatNoHostIsCalled) {
  for (const std::string& host :
       {std::string(), std::string("a b"), std::string("a..b"), std::string("."), std::string("-a"),
        std::string("a-"), std::string("a:22"), std::string("10.0.0.256"), std::string("10.0.0"),
        std::string("::1%"), std::string("a/b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string(64, 'a'), std::string(300, '.'), std::string("\xc3\xa4")}) {
    EXPECT_THAT(CheckHost(host).message(), HasSubstr("host file")) << host;
  }
  EXPECT_THAT(CheckHost("[::1]").message(), HasSubstr("without brackets"));
}

// Were it waited for, this test would take an hour.
TEST(ConnectTo, WaitsForNoHostThatCannotBe) {
  EXPECT_TRUE(absl::IsInvalidArgument(ConnectTo("a b", 1, absl::Hours(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ConnectTo("[::1]", 1, absl::Hours(1)).status()));
}

}  // namespace
}  // namespace asterism::launch
