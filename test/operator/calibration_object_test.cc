#include "operator/calibration_object.h"

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "planner/time_constants.h"

namespace asterism::operators {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kKey[] = "H100.MegatronLM";

CalibrationValue SomeValue() {
  CalibrationValue value{
      .kept = {.version = 2, .constants = planner::ShippedConstantsOf("H100"), .points = {}},
      .measurements = 1,
      .time = absl::FromUnixSeconds(1'800'000'000)};
  value.kept.constants.half_tokens *= 1.25;
  value.kept.points.push_back(
      {.log_error = -0.0125, .smaller = {0.25, -0.5}, .larger = {-0.75, 0.5}});
  return value;
}

json SomeJson() {
  return json::parse(WriteCalibration(SomeValue()));
}

CalibrationObject ObjectWith(const std::map<std::string, std::string>& data) {
  return {.meta = {}, .data = data};
}

std::string ErrorOf(const json& value, const std::string& key = kKey) {
  return std::string(ParseCalibration(key, value.dump()).status().message());
}

TEST(CalibrationObject, WhatIsWrittenIsRead) {
  const auto kept = ParseCalibration(kKey, WriteCalibration(SomeValue()));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, SomeValue().kept);
}

TEST(CalibrationObject, TheObjectIsReadAsTheApiServerSendsIt) {
  const json object = {{"kind", "ConfigMap"},
                       {"metadata", {{"name", "x"}, {"namespace", "y"}, {"resourceVersion", "7"}}},
                       {"data", {{kKey, "{}"}}}};
  const auto parsed = ParseCalibrationObject(object.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->meta.resource_version, "7");
  EXPECT_EQ(parsed->data.at(kKey), "{}");
  EXPECT_TRUE(ParseCalibrationObject(R"({"metadata": {"name": "x"}})").ok());
  EXPECT_FALSE(ParseCalibrationObject(R"({"data": []})").ok());
  EXPECT_FALSE(ParseCalibrationObject("{").ok());
}

TEST(CalibrationObject, EachFaultIsNamedWithTheWayOut) {
  const auto with = [](const char* pointer, const json& value) {
    json changed = SomeJson();
    changed[json::json_pointer(pointer)] = value;
    return ErrorOf(changed);
  };
  const auto remedy = HasSubstr("calibrate again, or delete the key");
  EXPECT_THAT(with("/format", 2), AllOf(HasSubstr("format"), remedy));
  EXPECT_THAT(with("/version", 0), AllOf(HasSubstr("version"), remedy));
  EXPECT_THAT(
      with("/tables", "2020-01-01"),
      AllOf(HasSubstr("tables: \"2020-01-01\" is not the time model of this program"), remedy));
  EXPECT_THAT(with("/tables", nullptr), remedy);
  EXPECT_THAT(with("/constants/halfTokens", "many"), AllOf(HasSubstr("halfTokens"), remedy));
  EXPECT_THAT(with("/constants/halfTokens", 1e9), AllOf(HasSubstr("halfTokens"), remedy));
  EXPECT_THAT(with("/constants/halfTokens", -1), AllOf(HasSubstr("halfTokens"), remedy));
  EXPECT_THAT(with("/constants/halfTokens", nullptr), HasSubstr("constants.halfTokens: missing"));
  EXPECT_THAT(with("/constants", 3), AllOf(HasSubstr("constants"), remedy));
  EXPECT_THAT(with("/points", "none"), AllOf(HasSubstr("points"), remedy));
  EXPECT_THAT(with("/points/0/3", "steep"), AllOf(HasSubstr("points"), remedy));
  EXPECT_THAT(with("/points/0/3", 1e6), HasSubstr("points"));
  EXPECT_THAT(with("/points", json(65, SomeJson()["points"][0])), HasSubstr("at most 64"));
  EXPECT_THAT(ErrorOf(SomeJson(), "H100.Plain"), HasSubstr("such as H100.MegatronLM"));
  const std::string whole = WriteCalibration(SomeValue());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(ParseCalibration(kKey, whole.substr(0, length)).ok()) << length;
  }
  EXPECT_THAT(std::string(ParseCalibration(kKey, std::string(20'000, ' ')).status().message()),
              HasSubstr("20000 bytes"));
}

TEST(CalibrationObject, WhatCannotBeReadKeepsWhatWasGood) {
  planner::CalibrationSet last_good;
  last_good.Put(kKey, SomeValue().kept);
  last_good.Put("H200.MegatronLM", SomeValue().kept);
  const CalibrationReading reading =
      ReadCalibrations(ObjectWith({{kKey, "{"}, {"B200.FSDP", "[]"}}), last_good);
  ASSERT_THAT(reading.problems, SizeIs(2));
  EXPECT_EQ(reading.problems[0].key, "B200.FSDP");
  EXPECT_EQ(reading.problems[1].key, kKey);
  // A key that is gone has nothing any more; one that was never good has nothing yet.
  EXPECT_EQ(reading.set.size(), 1);
  ASSERT_NE(reading.set.Find(kKey), nullptr);
  EXPECT_EQ(*reading.set.Find(kKey), SomeValue().kept);
}

TEST(CalibrationObject, TooManyKeysAreNotRead) {
  std::map<std::string, std::string> data;
  for (int number = 0; number < 100; ++number) {
    data[fmt::format("A{:03}", number)] = "{}";
  }
  const CalibrationReading reading = ReadCalibrations(ObjectWith(data), {});
  EXPECT_THAT(reading.problems, SizeIs(kCalibrationsMax + 1));
  EXPECT_THAT(reading.problems.back().reason, HasSubstr("more than 64"));
}

}  // namespace
}  // namespace asterism::operators
