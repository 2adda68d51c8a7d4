#include "kube/quantity.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "test/source_tree.h"

namespace asterism::kube {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Text, Value() and MilliValue() as apimachinery v0.37.2 gives them; without those that overflow
// there, and without negative fractions, of which it makes positive numbers.
TEST(Quantity, AgreesWithUpstream) {
  std::ifstream file(asterism::test_paths::SourceTree() + "/test/golden/quantity.tsv");
  ASSERT_TRUE(file);
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    SCOPED_TRACE(line);
    ++lines;
    if (fields[1] == "ERR") {
      EXPECT_FALSE(ParseQuantity(fields[0]).ok());
      continue;
    }
    EXPECT_EQ(ParseQuantity(fields[0]).value(), std::stoll(fields[1]));
    EXPECT_EQ(ParseQuantityMilli(fields[0]).value(), std::stoll(fields[2]));
  }
  EXPECT_GT(lines, 250);
}

TEST(Quantity, SaturatesInsteadOfWrapping) {
  EXPECT_EQ(ParseQuantity("7Ei").value(), int64_t{7} << 60);
  EXPECT_EQ(ParseQuantityMilli("7Ei").value(), kMax);
  for (const char* text : {"8Ei", "10E", "9223372036854775808", "1e400", "1e99999999999999999999",
                           "99999999999999999999999999999999999999999999999999999999Ei"}) {
    EXPECT_EQ(ParseQuantity(text).value(), kMax) << text;
    EXPECT_EQ(ParseQuantity("-" + std::string(text)).value(), -kMax) << text;
  }
}

TEST(Quantity, WhatIsAskedForIsNeverRoundedToNothing) {
  for (const char* text : {"1n", "0.0000000000000001", "1e-400", "1e-99999999999999999999"}) {
    EXPECT_EQ(ParseQuantity(text).value(), 1) << text;
    EXPECT_EQ(ParseQuantityMilli(text).value(), 1) << text;
  }
}

TEST(Quantity, RefusalNamesTheSuffixes) {
  for (const char* text : {"", "abc", "1K", "1 Gi", "1Gib", "--1", "1e", "0x1", "1\n"}) {
    const absl::StatusOr<int64_t> value = ParseQuantity(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_NE(std::string(value.status().message()).find("Ki Mi Gi"), std::string::npos);
  }
  EXPECT_FALSE(ParseQuantity(std::string(300, '1')).ok());
}

TEST(Quantity, WholeNumbersRoundTrip) {
  EXPECT_TRUE(rc::check("parse(print(n)) == n", [](int64_t number) {
    RC_PRE(number > -kMax);
    RC_ASSERT(ParseQuantity(std::to_string(number)).value() == number);
    const int64_t small = number % (kMax / 1000);
    RC_ASSERT(ParseQuantityMilli(std::to_string(small)).value() == small * 1000);
    RC_ASSERT(ParseQuantityMilli(std::to_string(small) + "m").value() == small);
  }));
}

TEST(SaturatingArithmetic, StopsAtTheEnds) {
  EXPECT_EQ(SaturatingAdd(kMax, 1), kMax);
  EXPECT_EQ(SaturatingAdd(-kMax, -2), -kMax);
  EXPECT_EQ(SaturatingAdd(kMax, -1), kMax - 1);
  EXPECT_EQ(SaturatingMultiply(kMax, 2), kMax);
  EXPECT_EQ(SaturatingMultiply(kMax, -2), -kMax);
  EXPECT_EQ(SaturatingMultiply(-3, 4), -12);
}

}  // namespace
}  // namespace asterism::kube
