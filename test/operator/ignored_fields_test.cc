#include "operator/ignored_fields.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

std::string Ignored(const char* spec) {
  return IgnoredFields(nlohmann::json{{"spec", nlohmann::json::parse(spec)}}, /*launcher=*/false);
}

TEST(IgnoredFieldsTest, NothingAskedNothingSaid) {
  EXPECT_EQ(Ignored(R"({"gpus": 8, "placement": {"levels": [{"level": "supernode"}]}})"), "");
  EXPECT_EQ(Ignored(R"({"movable": false, "nativeGang": "Auto", "failover": {"mode": "Off"}})"),
            "");
  EXPECT_EQ(Ignored(R"({"failover": {"spares": 2}})"), "");
  EXPECT_EQ(IgnoredFields(nlohmann::json::object(), false), "");
}

TEST(IgnoredFieldsTest, NamesWhatIsAskedFor) {
  EXPECT_EQ(Ignored(R"({"movable": true, "placement": {"shape": "4x4"}})"),
            "not available yet: spec.movable, spec.placement.shape");
  EXPECT_EQ(Ignored(R"({"nativeGang": "Always", "failover": {"mode": "Migrate"}})"),
            "not available yet: spec.nativeGang, spec.failover.mode");
  EXPECT_EQ(Ignored(R"({"placement": {"levels": [{}, {"maxWaitSeconds": 60}]}})"),
            "not available yet: spec.placement.levels[1].maxWaitSeconds");
}

TEST(IgnoredFieldsTest, WrongTypesDoNoHarm) {
  EXPECT_EQ(Ignored(R"({"placement": 7, "failover": [], "movable": "yes"})"), "");
  EXPECT_EQ(Ignored("[]"), "");
}

}  // namespace
}  // namespace asterism::operators
