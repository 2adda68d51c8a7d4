#include "controller/label_selector.h"

#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

// "key op [values]; ..." or the error.
std::string Read(std::string_view text) {
  const auto requirements = ParseLabelSelector(text);
  if (!requirements.ok()) {
    return std::string(requirements.status().message());
  }
  std::string shown;
  for (const operators::NodeRequirement& requirement : *requirements) {
    shown += fmt::format("{} {} [{}]; ", requirement.key, requirement.op,
                         fmt::join(requirement.values, "|"));
  }
  return shown;
}

TEST(LabelSelector, EmptyMeansNoRequirement) {
  EXPECT_EQ(Read(""), "");
  EXPECT_EQ(Read("  "), "");
}

TEST(LabelSelector, ReadsEveryForm) {
  EXPECT_EQ(Read("pool"), "pool Exists []; ");
  EXPECT_EQ(Read("!pool"), "pool DoesNotExist []; ");
  EXPECT_EQ(Read("pool=gpu"), "pool In [gpu]; ");
  EXPECT_EQ(Read("pool==gpu"), "pool In [gpu]; ");
  EXPECT_EQ(Read("pool="), "pool In []; ");
  EXPECT_EQ(Read("pool!=gpu"), "pool NotIn [gpu]; ");
  EXPECT_EQ(Read("zone in (a,b)"), "zone In [a|b]; ");
  EXPECT_EQ(Read("zone notin (a)"), "zone NotIn [a]; ");
  EXPECT_EQ(Read("cores>64"), "cores Gt [64]; ");
  EXPECT_EQ(Read("cores < 64"), "cores Lt [64]; ");
}

TEST(LabelSelector, ACommaMeansAnd) {
  EXPECT_EQ(Read(" pool = gpu , zone in ( a , b ) , !asterism.dev/spare "),
            "pool In [gpu]; zone In [a|b]; asterism.dev/spare DoesNotExist []; ");
}

TEST(LabelSelector, SaysWhatIsExpectedWhere) {
  EXPECT_EQ(Read(","), "expected a label key at \",\"");
  EXPECT_EQ(Read("pool="
                 "a/b"),
            "expected a label value at \"a/b\"");
  EXPECT_EQ(Read("pool,"), "expected a label key at the end");
  EXPECT_EQ(Read("zone in a"), "expected \"(\" at \"a\"");
  EXPECT_EQ(Read("zone in (a"), "expected \",\" or \")\" at the end");
  EXPECT_EQ(Read("zone is (a)"), "expected \",\", a comparison, \"in\" or \"notin\" at \"is (a)\"");
  EXPECT_EQ(Read("cores>many"), "expected a whole number at \"many\"");
  EXPECT_EQ(Read("pool=gpu)"), "expected \",\" at \")\"");
  EXPECT_EQ(Read(std::string(kSelectorBytesMax + 1, 'a')), "longer than 4096 bytes");
}

}  // namespace
}  // namespace asterism::controller
