#include "controller/object_names.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ProblemOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(ObjectNames, AreThoseOfTheApi) {
  for (const std::string& good : {std::string("a"), std::string("llama-3.1"), std::string("0"),
                                  std::string(253, 'a'), std::string("a.b.c")}) {
    EXPECT_TRUE(CheckObjectName("name", good).ok()) << good;
  }
  for (const char* bad : {"A", "-a", "a-", "a..b", ".a", "a.", "a_b", "a b", "a\nb", "\xc3\xa4"}) {
    EXPECT_THAT(ProblemOf(CheckObjectName("name", bad)), HasSubstr("name: is not a name: use"))
        << bad;
  }
  EXPECT_THAT(ProblemOf(CheckObjectName("name", "")), HasSubstr("name: is missing"));
  EXPECT_THAT(ProblemOf(CheckObjectName("name", std::string(254, 'a'))),
              HasSubstr("name: has 254 characters: a name has at most 253"));
}

TEST(ObjectNames, NamespacesAreLabels) {
  EXPECT_TRUE(CheckNamespaceName("namespace", std::string(63, 'a')).ok());
  for (const std::string& bad : {std::string("a.b"), std::string("A"), std::string(64, 'a')}) {
    EXPECT_FALSE(CheckNamespaceName("namespace", bad).ok()) << bad;
  }
}

TEST(ObjectNames, WhatIsNoNameIsNotRepeated) {
  const std::string huge(1'000'000, 'x');
  EXPECT_LT(ProblemOf(CheckObjectName("name", huge)).size(), 100u);
  EXPECT_THAT(ProblemOf(CheckObjectName("name", "\x1b[31m")), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace asterism::controller
