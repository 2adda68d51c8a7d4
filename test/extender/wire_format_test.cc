// What arrives on the wire: null and empty lists, keys in any case and order, foreign names, whole
// Node objects, and text that is broken in every way.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/extender/extender.h"
#include "test/extender/view_builder.h"

namespace asterism::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using testing::ArgsJson;
using testing::PaddedBody;
using testing::PodJson;
using testing::ViewBuilder;

class WireFormatTest : public ::testing::Test {
 protected:
  WireFormatTest() { cell_.Publish(builder_.Build()); }

  Json Filter(const std::string& body) {
    std::string answer;
    EXPECT_EQ(extender_.Filter(PaddedBody(body).view(), answer), 200);
    return Json::parse(answer);
  }
  static std::vector<std::string> Passed(const Json& answer) {
    return answer.at("NodeNames").get<std::vector<std::string>>();
  }
  std::string Error(const std::string& body) { return Filter(body).at("Error"); }

  base::SimClock clock_;
  base::MetricRegistry registry_;
  base::SnapshotCell<LedgerView> cell_;
  ViewBuilder builder_{{.supernodes = 2, .nodes_per_supernode = 4}};
  Extender extender_{clock_, cell_, [] { return ExtenderReadiness::kReady; }, registry_, {}};
  const std::string pod_ = PodJson({.gpus = 1});
};

TEST_F(WireFormatTest, NullAndEmptyListsPassNobody) {
  for (const char* lists : {R"("Nodes":null,"NodeNames":[])", R"("Nodes":null,"NodeNames":null)",
                            R"("NodeNames":null)", R"("Nodes":{"items":[]},"NodeNames":[])"}) {
    const Json answer = Filter(fmt::format(R"({{"Pod":{},{}}})", pod_, lists));
    EXPECT_EQ(answer.at("NodeNames"), Json::array()) << lists;
    EXPECT_EQ(answer.at("Error"), "") << lists;
  }
  EXPECT_THAT(Passed(Filter(fmt::format(R"({{"Pod":{}}})", pod_))), IsEmpty());
}

TEST_F(WireFormatTest, KeysComeInAnyCaseAndOrder) {
  for (const char* form : {R"({{"NodeNames":["gpu-0-0"],"Pod":{}}})",
                           R"({{"nodenames":["gpu-0-0"],"pod":{},"nodes":null}})",
                           R"({{"nodeNames":["gpu-0-0"],"Unknown":{{"a":[1,{{}}]}},"pod":{}}})",
                           R"({{"Nodes":{{"items":[]}},"Pod":{},"NodeNames":["gpu-0-0"]}})"}) {
    EXPECT_THAT(Passed(Filter(fmt::format(fmt::runtime(form), pod_))), ElementsAre("gpu-0-0"))
        << form;
  }
}

TEST_F(WireFormatTest, FieldsOfThePodComeInAnyOrder) {
  builder_.AddBlock("job", 8, "gpu-0-3", 2, "");
  cell_.Publish(builder_.Build());
  EXPECT_THAT(Passed(Filter(R"({"Pod":{"status":{},"spec":{"containers":[{"resources":{"requests":
      {"nvidia.com/gpu":"8"}},"name":"c"}]},"metadata":{"annotations":{"asterism.dev\/epoch":"2",
      "x":"y","asterism.dev/ranks":"8-15"},"labels":{"asterism.dev/job-uid":"job"},
      "namespace":"research","name":"job-job-r8-e2"}},
      "NodeNames":["gpu-0-3"]})")),
              ElementsAre("gpu-0-3"));
}

TEST_F(WireFormatTest, OrderAndRepetitionOfNamesAreKept) {
  const Json answer = Filter(
      ArgsJson({.gpus = 1}, {"gpu-1-3", "gpu-0-0", "gpu-1-3", "gpu-0-1", "gpu-0-0", "gpu-0-1"}));
  EXPECT_THAT(Passed(answer),
              ElementsAre("gpu-1-3", "gpu-0-0", "gpu-1-3", "gpu-0-1", "gpu-0-0", "gpu-0-1"));
}

TEST_F(WireFormatTest, AnyOrderOfAllNamesWorksAgainAndAgain) {
  std::vector<std::string> names = builder_.NodeNames();
  for (int i = 0; i < 20; ++i) {
    std::rotate(names.begin(), names.begin() + 3, names.end());
    if (i % 4 == 3) {
      std::reverse(names.begin(), names.end());
    }
    EXPECT_EQ(Passed(Filter(ArgsJson({.gpus = 1}, names))), names);
  }
}

TEST_F(WireFormatTest, EscapedNamesAreTheSameNames) {
  EXPECT_THAT(
      Passed(Filter(fmt::format(R"({{"Pod":{},"NodeNames":["gpu\u002d0-0","gpu-0-1"]}})", pod_))),
      ElementsAre("gpu-0-0", "gpu-0-1"));
}

TEST_F(WireFormatTest, APrefixOfANameIsNotThatName) {
  const Json answer =
      Filter(ArgsJson({.gpus = 1}, {"gpu-0-", "gpu-0-00", "gpu-0-0\\n", "gpu-0-0"}));
  EXPECT_THAT(Passed(answer), ElementsAre("gpu-0-0"));
  EXPECT_EQ(answer.at("FailedAndUnresolvableNodes").size(), 3u);
}

TEST_F(WireFormatTest, WholeNodesAreAnsweredWithNodes) {
  const Json answer = Filter(fmt::format(
      R"({{"Pod":{},"Nodes":{{"metadata":{{}},"items":[
        {{"metadata":{{"labels":{{"name":"x"}},"name":"gpu-0-1"}},"status":{{"images":[1,2]}}}},
        {{"metadata":{{"name":"stranger"}}}}, {{"spec":{{}},"metadata":{{"name":"gpu-0-0"}}}}]}},
        "NodeNames":null}})",
      pod_));
  EXPECT_EQ(answer.at("NodeNames"), nullptr);
  EXPECT_EQ(answer.at("Nodes").at("items"),
            Json::parse(R"([{"metadata":{"name":"gpu-0-1"}},{"metadata":{"name":"gpu-0-0"}}])"));
  EXPECT_EQ(answer.at("Error"), "");
}

TEST_F(WireFormatTest, ErrorsNameTheField) {
  const struct {
    std::string body;
    const char* text;
  } kCases[] = {
      {"", "not valid JSON at the start"},
      {"null", "the request is not a JSON object"},
      {"[]", "the request is not a JSON object"},
      {"\"text\"", "the request is not a JSON object"},
      {"{}", "Pod.metadata.name is missing"},
      {R"({"Pod":null,"NodeNames":["gpu-0-0"]})", "Pod.metadata.name is missing"},
      {R"({"Pod":7,"NodeNames":[]})", "Pod is not an object"},
      {R"({"Pod":{"metadata":[]}})", "Pod.metadata is not an object"},
      {R"({"Pod":{"metadata":{"name":7}}})", "Pod.metadata.name is not a string"},
      {R"({"Pod":{"metadata":{"labels":"x"}}})", "Pod.metadata.labels is not an object"},
      {R"({"Pod":{"metadata":{"labels":{"asterism.dev/job-uid":1}}}})",
       "label asterism.dev/job-uid is not a string"},
      {R"({"Pod":{"metadata":{"annotations":{"asterism.dev/epoch":1}}}})",
       "annotation asterism.dev/epoch is not a string"},
      {R"({"Pod":{"spec":{"containers":{}}}})", "Pod.spec.containers is not an array"},
      {R"({"Pod":{"spec":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}}})",
       "the request of cpu is not a quantity: much"},
      {R"({"Pod":{"spec":{"containers":[{"resources":{"limits":{"cpu":{}}}}]}}})",
       "the request of cpu is not a quantity"},
      {R"({"NodeNames":"gpu-0-0"})", "NodeNames is not an array"},
      {R"({"NodeNames":["gpu-0-0",7]})", "a name in NodeNames is not a string"},
      {R"({"NodeNames":["gpu-0-0",null]})", "a name in NodeNames is not a string"},
      {R"({"Nodes":[]})", "Nodes is not an object"},
      {R"({"Nodes":{"items":[{"metadata":{}}]}})", "a node needs one metadata.name"},
      {ArgsJson({}, {"gpu-0-0"}) + "x", "not valid JSON"},
      {ArgsJson({}, {"gpu-0-0"}) + "{}", "text behind the JSON object"},
      {"{\"Pod\":\"\xff\xfe\"}", "not valid JSON at the start"},
  };
  for (const auto& [body, text] : kCases) {
    EXPECT_THAT(Error(body), HasSubstr(text)) << body;
  }
}

TEST_F(WireFormatTest, EveryHalfOfARequestIsAnErrorAndNothingElse) {
  const std::string whole = ArgsJson({.gpus = 1, .extra_bytes = 200}, {"gpu-0-0", "gpu-0-1"});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(Error(whole.substr(0, size)), "") << whole.substr(0, size);
  }
  EXPECT_EQ(Error(whole), "");
}

TEST_F(WireFormatTest, AFlippedByteNeverPassesANodeThatWasNotNamed) {
  const std::string whole = ArgsJson({.gpus = 1}, {"gpu-0-0"});
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char byte : {'"', '{', ']', '\\', ',', '\0', '\x80', '1'}) {
      std::string broken = whole;
      broken[i] = byte;
      const Json answer = Filter(broken);
      if (answer.at("NodeNames").is_array()) {
        for (const std::string& name : Passed(answer)) {
          EXPECT_NE(broken.find(name), std::string::npos) << broken;
        }
      }
    }
  }
}

TEST_F(WireFormatTest, ABrokenListIsAnErrorWhateverWasAskedBefore) {
  const std::string broken =
      fmt::format(R"({{"nodenames":["gpu-1-3","gpu-0-0":[1],"gpu-0-1"],"Pod":{}}})", pod_);
  const std::string before = Error(broken);
  EXPECT_NE(before, "");
  // Now gpu-0-0 is expected behind gpu-1-3, and its text is compared without being parsed.
  Filter(ArgsJson({.gpus = 1}, {"gpu-1-3", "gpu-0-0", "gpu-0-1"}));
  EXPECT_EQ(Error(broken), before);
}

TEST_F(WireFormatTest, DeepNestingIsSkippedOrRefused) {
  const std::string open(200'000, '[');
  const std::string close(200'000, ']');
  EXPECT_THAT(Passed(Filter(fmt::format(R"({{"Deep":{}{},"Pod":{},"NodeNames":["gpu-0-0"]}})", open,
                                        close, pod_))),
              ElementsAre("gpu-0-0"));
  EXPECT_NE(Error(open), "");
  EXPECT_NE(Error("{\"Pod\":" + open), "");
  EXPECT_NE(Error("{\"Pod\":{\"metadata\":" + open + close + "}}"), "");
}

TEST_F(WireFormatTest, EightMebibytesAreAnswered) {
  std::string names;
  while (names.size() < (8u << 20) - pod_.size() - 1000) {
    names += "\"no-such-node-with-a-long-name-to-fill-the-body\",";
  }
  names.pop_back();
  const Json answer = Filter(fmt::format(R"({{"Pod":{},"NodeNames":[{}]}})", pod_, names));
  EXPECT_THAT(Passed(answer), IsEmpty());
  EXPECT_THAT(Passed(Filter(ArgsJson({.gpus = 1}, {"gpu-0-0"}))), ElementsAre("gpu-0-0"));
}

TEST_F(WireFormatTest, TheNumberOfNamesIsBounded) {
  std::string names;
  for (int i = 0; i < 200'001; ++i) {
    names += "\"a\",";
  }
  names.pop_back();
  EXPECT_EQ(Error(fmt::format(R"({{"Pod":{},"NodeNames":[{}]}})", pod_, names)),
            "NodeNames has more than 200000 entries");
}

TEST_F(WireFormatTest, ForeignTextsAreEscapedInAnswers) {
  const Json answer = Filter(fmt::format(
      R"({{"Pod":{{"metadata":{{"name":"p","namespace":"a\"b\\c\u0001","labels":
         {{"asterism.dev/job-uid":"\n"}}}}}},"NodeNames":["x\"y\\z\u0000","ä"]}})"));
  EXPECT_EQ(answer.at("FailedAndUnresolvableNodes").size(), 2u);
  EXPECT_THAT(answer.at("FailedAndUnresolvableNodes").at("ä").get<std::string>(),
              HasSubstr("a\"b\\c\x01"));
}

TEST_F(WireFormatTest, ATextThatIsCutStaysUtf8) {
  for (size_t length = 50; length < 80; ++length) {
    const Json answer = Filter(fmt::format(
        R"({{"Pod":{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"resources":{{"requests":
           {{"cpu":"{}\u3042\u3042\u3042"}}}}}}]}}}},"NodeNames":["a"]}})",
        std::string(length, 'x')));
    EXPECT_THAT(answer.at("Error").get<std::string>(), HasSubstr("is not a quantity"));
  }
}

TEST_F(WireFormatTest, TheVerbsWithoutAnErrorFieldAnswer400) {
  std::string answer;
  EXPECT_EQ(extender_.Prioritize(PaddedBody("{").view(), answer), 400);
  EXPECT_NE(Json::parse(answer).at("Error"), "");
  answer.clear();
  EXPECT_EQ(extender_.Preempt(PaddedBody(R"({"NodeNameToMetaVictims":[]})").view(), answer), 400);
  EXPECT_THAT(answer, HasSubstr("NodeNameToMetaVictims is not an object"));
  answer.clear();
  EXPECT_EQ(
      extender_.Preempt(
          PaddedBody(R"({"NodeNameToMetaVictims":{"n":{"NumPDBViolations":"x"}}})").view(), answer),
      400);
}

}  // namespace
}  // namespace asterism::scheduler
