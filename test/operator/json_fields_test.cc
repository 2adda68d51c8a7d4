#include "operator/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

using nlohmann::json;

TEST(JsonFields, NullAndAbsentAreTheSame) {
  absl::Status error;
  const json object = {{"a", nullptr}};
  const JsonFields fields(&object, "spec", &error);
  for (const char* name : {"a", "b"}) {
    EXPECT_FALSE(fields.Has(name));
    EXPECT_FALSE(fields.String(name).has_value());
    EXPECT_FALSE(fields.Int(name, 0, 1).has_value());
    EXPECT_TRUE(fields.Objects(name, 1).empty());
    EXPECT_FALSE(fields.Object(name).Object("deeper").Has("c"));
  }
  EXPECT_TRUE(error.ok());
}

TEST(JsonFields, NamesThePathAndTheValueOfTheFirstProblem) {
  const std::array<std::string_view, 2> words = {"Auto", "Off"};
  struct Case {
    const char* object;
    void (*read)(const JsonFields&);
    const char* message;
  };
  const Case cases[] = {
      {R"({"a": "x"})", [](const JsonFields& f) { f.Int("a", 1, 9); },
       "s.a: must be a whole number from 1 to 9, not \"x\""},
      {R"({"a": 10})", [](const JsonFields& f) { f.Int("a", 1, 9); },
       "s.a: must be a whole number from 1 to 9, not 10"},
      {R"({"a": 1.5})", [](const JsonFields& f) { f.Int("a", 1, 9); },
       "s.a: must be a whole number from 1 to 9, not 1.5"},
      {R"({"a": 18446744073709551615})", [](const JsonFields& f) { f.Int("a", -9, 9); },
       "s.a: must be a whole number from -9 to 9, not 18446744073709551615"},
      {R"({"a": {}})", [](const JsonFields& f) { f.String("a"); },
       "s.a: must be a string, not an object"},
      {R"({"a": 1})", [](const JsonFields& f) { f.Bool("a"); },
       "s.a: must be true or false, not 1"},
      {R"({"a": []})", [](const JsonFields& f) { f.Object("a"); }, "s.a: must be an object"},
      {R"({"a": [1]})", [](const JsonFields& f) { f.Objects("a", 9); },
       "s.a[0]: must be an object"},
      {R"({"a": [{}, null]})", [](const JsonFields& f) { f.Objects("a", 9); },
       "s.a[1]: must be an object, not null"},
      {R"({"a": ["x", 1]})", [](const JsonFields& f) { f.Strings("a", 9); },
       "s.a[1]: must be a string, not 1"},
      {R"({"a": [1, 2, 3]})", [](const JsonFields& f) { f.Strings("a", 2); },
       "s.a: 3 entries are more than 2"},
      {R"({"a": {"k": 1}})", [](const JsonFields& f) { f.Pairs("a"); },
       "s.a.k: must be a string, not 1"},
      {R"({"a": "infinite-future"})", [](const JsonFields& f) { f.Time("a"); },
       "s.a: must be a time such as 2026-01-31T12:00:00Z, not \"infinite-future\""},
  };
  for (const Case& c : cases) {
    absl::Status error;
    const json object = json::parse(c.object);
    c.read(JsonFields(&object, "s", &error));
    EXPECT_EQ(std::string(error.message()), c.message) << c.object;
  }
  absl::Status error;
  const json object = {{"a", "On"}, {"b", 1}};
  const JsonFields fields(&object, "s", &error);
  EXPECT_FALSE(fields.OneOf("a", words).has_value());
  fields.String("b");
  EXPECT_EQ(std::string(error.message()), "s.a: must be one of Auto, Off, not \"On\"");
}

TEST(ParseObjectText, HasBounds) {
  EXPECT_TRUE(ParseObjectText("{}", "Queue").ok());
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("1"), std::string("{"), std::string("{}x"),
        std::string("{\"a\": \"\xff\"}"), std::string("{\"a\": 1e999}")}) {
    EXPECT_FALSE(ParseObjectText(text, "Queue").ok()) << text;
  }
  std::string deep = "{\"a\":";
  deep.append(100000, '[');
  EXPECT_EQ(std::string(ParseObjectText(deep, "Queue").status().message()),
            "Queue: nested deeper than 64: make it flatter");
  EXPECT_TRUE(
      ParseObjectText(
          R"({"a": "[[[[[[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})", "Queue")
          .ok());
  EXPECT_THAT(
      std::string(
          ParseObjectText(std::string(kObjectBytesMax + 1, ' '), "Queue").status().message()),
      testing::HasSubstr("more than an object may have"));
}

TEST(ParseObjectText, DropsManagedFields) {
  const auto object = ParseObjectText(
      R"({"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}})", "Queue");
  EXPECT_EQ(*object, json::parse(R"({"metadata": {"name": "a"}})"));
}

TEST(JsonTimes, AreThoseOfTheApi) {
  const absl::Time time = absl::FromUnixMicros(1767225600123456);
  EXPECT_EQ(FormatSeconds(time), "2026-01-01T00:00:00Z");
  EXPECT_EQ(FormatMicroseconds(time), "2026-01-01T00:00:00.123456Z");
  for (const absl::Time out_of_range :
       {absl::InfinitePast(), absl::InfiniteFuture(), absl::FromUnixSeconds(400000000000)}) {
    EXPECT_EQ(FormatSeconds(out_of_range), "0001-01-01T00:00:00Z");
  }
  absl::Status error;
  const json object = {{"a", FormatMicroseconds(time)}, {"b", "0001-01-01T00:00:00Z"}};
  const JsonFields fields(&object, "", &error);
  EXPECT_EQ(fields.Time("a"), time);
  EXPECT_EQ(fields.Time("b"), absl::InfinitePast());
}

}  // namespace
}  // namespace asterism::operators
