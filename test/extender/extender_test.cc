// The table of cases that the extender answers: which pod, which ledger, which answer.
#include "scheduler/extender/extender.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/extender/view_builder.h"

namespace asterism::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;
using testing::ArgsJson;
using testing::kGpuSlot;
using testing::PaddedBody;
using testing::PodJson;
using testing::PodShape;
using testing::ViewBuilder;

class ExtenderTest : public ::testing::Test {
 protected:
  Json Filter(const std::string& body) {
    std::string answer;
    code_ = extender_.Filter(PaddedBody(body).view(), answer);
    return Json::parse(answer);
  }
  Json Filter(const PodShape& pod, const std::vector<std::string>& names) {
    cell_.Publish(builder_.Build());
    return Filter(ArgsJson(pod, names));
  }
  Json Prioritize(const PodShape& pod, const std::vector<std::string>& names) {
    cell_.Publish(builder_.Build());
    std::string answer;
    code_ = extender_.Prioritize(PaddedBody(ArgsJson(pod, names)).view(), answer);
    return Json::parse(answer);
  }
  Json Preempt(const std::string& body) {
    cell_.Publish(builder_.Build());
    std::string answer;
    code_ = extender_.Preempt(PaddedBody(body).view(), answer);
    return Json::parse(answer);
  }
  static std::vector<std::string> Passed(const Json& answer) {
    return answer.at("NodeNames").get<std::vector<std::string>>();
  }
  // Calls that refused a gang's pod everywhere, as the metric counts them.
  int Refused(const std::string& reason) const {
    const std::string page = registry_.Expose();
    const std::string sample =
        "asterism_extender_gang_pods_refused_total{reason=\"" + reason + "\"} ";
    const size_t at = page.find(sample);
    return at == std::string::npos ? -1 : std::atoi(page.c_str() + at + sample.size());
  }
  int Refused() const {
    return Refused("not_placed") + Refused("moved") + Refused("other_node") +
           Refused("foreign_holder");
  }
  static std::string Reason(const Json& answer, const char* node) {
    return answer.at("FailedAndUnresolvableNodes").value(node, "");
  }

  base::SimClock clock_;
  base::MetricRegistry registry_;
  base::SnapshotCell<LedgerView> cell_;
  ExtenderReadiness readiness_ = ExtenderReadiness::kReady;
  ViewBuilder builder_{{.supernodes = 2, .nodes_per_supernode = 4}};
  Extender extender_{clock_,
                     cell_,
                     [this] { return readiness_; },
                     registry_,
                     {.gpu_resources = {"nvidia.com/gpu"}}};
  int code_ = 0;
};

TEST_F(ExtenderTest, PinnedPodPassesOnItsNode) {
  builder_.AddBlock("llama", 64, "gpu-0-1", 3, "");
  const Json answer = Filter({.job_uid = "llama", .ranks = "64-71", .epoch = "3"}, {"gpu-0-1"});
  EXPECT_EQ(code_, 200);
  EXPECT_THAT(Passed(answer), ElementsAre("gpu-0-1"));
  EXPECT_EQ(answer.at("Error"), "");
  EXPECT_EQ(answer.at("Nodes"), nullptr);
  EXPECT_THAT(answer.at("FailedNodes"), IsEmpty());
  EXPECT_THAT(answer.at("FailedAndUnresolvableNodes"), IsEmpty());
  EXPECT_EQ(Refused(), 0);
}

TEST_F(ExtenderTest, ALaterEpochOfOtherRanksDoesNotMatter) {
  builder_.AddBlock("llama", 0, "gpu-0-0", 5, "");
  builder_.AddBlock("llama", 64, "gpu-0-1", 3, "");
  EXPECT_THAT(Passed(Filter({.job_uid = "llama", .ranks = "64-71", .epoch = "3"}, {"gpu-0-1"})),
              ElementsAre("gpu-0-1"));
}

TEST_F(ExtenderTest, MovedRankBlockIsRefusedWithBothEpochs) {
  builder_.AddBlock("llama", 64, "gpu-0-2", 4, "");
  const Json answer = Filter({.job_uid = "llama", .ranks = "64-71", .epoch = "3"}, {"gpu-0-1"});
  EXPECT_THAT(Passed(answer), IsEmpty());
  EXPECT_THAT(Reason(answer, "gpu-0-1"),
              AllOf(HasSubstr("rank block 64 moved in epoch 4, this pod is of epoch 3"),
                    HasSubstr("research/llama")));
  EXPECT_THAT(answer.at("FailedNodes"), IsEmpty());
  EXPECT_EQ(Refused("moved"), 1);
}

TEST_F(ExtenderTest, MovedBlockIsRefusedOnItsNewNodeToo) {
  builder_.AddBlock("llama", 64, "gpu-0-2", 4, "");
  EXPECT_THAT(Passed(Filter({.job_uid = "llama", .ranks = "64-71", .epoch = "3"}, {"gpu-0-2"})),
              IsEmpty());
}

TEST_F(ExtenderTest, ForeignHolderIsNamedWithTheShortage) {
  builder_.AddBlock("llama", 64, "gpu-0-1", 3, "");
  builder_.Use("gpu-0-1", kGpuSlot, 3);
  const Json answer = Filter({.job_uid = "llama", .ranks = "64-71", .epoch = "3"}, {"gpu-0-1"});
  EXPECT_THAT(Passed(answer), IsEmpty());
  EXPECT_THAT(Reason(answer, "gpu-0-1"),
              AllOf(HasSubstr("node gpu-0-1 has another holder"),
                    HasSubstr("nvidia.com/gpu allocatable 8, held by others 3, this pod needs 8: 3 "
                              "short"),
                    HasSubstr("research/llama")));
  EXPECT_EQ(Refused("foreign_holder"), 1);
}

TEST_F(ExtenderTest, ForeignHolderOfCpuIsNamedToo) {
  builder_.AddBlock("llama", 64, "gpu-0-1", 3, "");
  builder_.Use("gpu-0-1", kCpuSlot, 97'000);
  EXPECT_THAT(
      Reason(Filter({.job_uid = "llama", .ranks = "64-71", .epoch = "3"}, {"gpu-0-1"}), "gpu-0-1"),
      HasSubstr("cpu allocatable 96000"));
}

TEST_F(ExtenderTest, UnknownGangIsNotPlaced) {
  const Json answer = Filter({.job_uid = "llama"}, {"gpu-0-1", "gpu-0-2"});
  EXPECT_THAT(Passed(answer), IsEmpty());
  EXPECT_THAT(Reason(answer, "gpu-0-1"),
              AllOf(HasSubstr("gang not placed"), HasSubstr("research/llama")));
  EXPECT_THAT(Reason(answer, "gpu-0-2"), HasSubstr("gang not placed"));
  EXPECT_EQ(Refused("not_placed"), 1) << "one for a call";
}

TEST_F(ExtenderTest, GangPodWithoutUsableAnnotationsIsNotPlaced) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  for (const auto& [ranks, epoch] :
       std::vector<std::pair<std::string, std::string>>{{"", "1"},
                                                        {"0", "1"},
                                                        {"x-7", "1"},
                                                        {"7-0", "1"},
                                                        {"-1-7", "1"},
                                                        {"0-7", ""},
                                                        {"0-7", "one"},
                                                        {"0-99999999999999999999", "1"},
                                                        {"0-7", " 1"},
                                                        {"8-15", "1"}}) {
    EXPECT_THAT(Reason(Filter({.job_uid = "llama", .ranks = ranks, .epoch = epoch}, {"gpu-0-1"}),
                       "gpu-0-1"),
                HasSubstr("gang not placed"))
        << ranks << " " << epoch;
  }
}

// Whoever may create pods anywhere can write the labels of a gang.
TEST_F(ExtenderTest, AForgedPodGetsNoPlaceOfTheGang) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  const Json other_name = Filter({.name = "thief", .job_uid = "llama"}, {"gpu-0-1"});
  EXPECT_THAT(Reason(other_name, "gpu-0-1"),
              HasSubstr("the pod of rank block 0 of job research/llama has another name"));
  const Json other_namespace =
      Filter({.job_uid = "llama", .namespace_name = "elsewhere"}, {"gpu-0-1"});
  EXPECT_THAT(Passed(other_namespace), IsEmpty());
  EXPECT_EQ(Refused("not_placed"), 2);
}

TEST_F(ExtenderTest, GangPodOnAnyOtherNodeIsRefused) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  const Json answer = Filter({.job_uid = "llama"}, {"gpu-0-0", "gpu-0-1", "nowhere"});
  EXPECT_THAT(Passed(answer), ElementsAre("gpu-0-1"));
  EXPECT_THAT(Reason(answer, "gpu-0-0"), HasSubstr("rank block 0 is placed on node gpu-0-1"));
  EXPECT_THAT(Reason(answer, "nowhere"), HasSubstr("rank block 0 is placed on node gpu-0-1"));
  EXPECT_EQ(Refused(), 0) << "it has a node";
  Filter({.job_uid = "llama"}, {"gpu-0-0"});
  EXPECT_EQ(Refused("other_node"), 1);
}

TEST_F(ExtenderTest, GangNodeThatLeftTheClusterIsRefused) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  ViewBuilder smaller({.supernodes = 1, .nodes_per_supernode = 1});
  auto view = std::make_shared<LedgerView>(*smaller.Build());
  view->gangs = builder_.Build()->gangs;
  cell_.Publish(view);
  EXPECT_THAT(Reason(Filter(ArgsJson({.job_uid = "llama"}, {"gpu-0-1"})), "gpu-0-1"),
              HasSubstr("which has left the cluster"));
}

TEST_F(ExtenderTest, NotReadyIsAnError) {
  readiness_ = ExtenderReadiness::kRebuilding;
  EXPECT_EQ(Filter(PodShape{}, {"gpu-0-0"}).at("Error"), "ledger not ready");
  EXPECT_EQ(code_, 200);
  EXPECT_EQ(Prioritize(PodShape{}, {"gpu-0-0"}).at("Error"), "ledger not ready");
  EXPECT_EQ(code_, 503);
  readiness_ = ExtenderReadiness::kStandby;
  EXPECT_EQ(Filter(PodShape{}, {"gpu-0-0"}).at("Error"), "ledger not ready");
  EXPECT_EQ(code_, 503);
  EXPECT_EQ(Preempt("{}").at("Error"), "ledger not ready");
  EXPECT_EQ(code_, 503);
  readiness_ = ExtenderReadiness::kReady;
  cell_.Publish(nullptr);
  EXPECT_EQ(Filter(ArgsJson({}, {"gpu-0-0"})).at("Error"), "ledger not ready");
  EXPECT_EQ(code_, 200);
}

TEST_F(ExtenderTest, SinglePodPassesWhereGpusAreFree) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");  // reserved, no pod yet
  builder_.Use("gpu-0-2", kGpuSlot, 5);             // foreign pods
  builder_.Node("gpu-0-3").usable = false;          // faulty or cordoned
  const Json answer = Filter({.gpus = 4}, builder_.NodeNames());
  EXPECT_THAT(Passed(answer), ElementsAre("gpu-0-0", "gpu-1-0", "gpu-1-1", "gpu-1-2", "gpu-1-3"));
  EXPECT_EQ(Reason(answer, "gpu-0-1"),
            "nvidia.com/gpu: 4 requested, 0 of 8 free beside pods and reserved gangs");
  EXPECT_EQ(Reason(answer, "gpu-0-2"),
            "nvidia.com/gpu: 4 requested, 3 of 8 free beside pods and reserved gangs");
  EXPECT_THAT(Reason(answer, "gpu-0-3"), HasSubstr("cordoned"));
  EXPECT_THAT(answer.at("FailedNodes"), IsEmpty()) << "preemption could not cure it";
}

TEST_F(ExtenderTest, SinglePodIsCheckedAgainstEveryTrackedResource) {
  builder_.Use("gpu-0-0", kCpuSlot, 92'001);  // the pod asks for 4 cores
  builder_.Use("gpu-0-1", kMemorySlot, (int64_t{1} << 40) - 1);
  builder_.Use("gpu-0-2", kPodsSlot, 110);
  builder_.Use("gpu-0-3", kCpuSlot, 92'000);
  const Json answer = Filter({.gpus = 1}, {"gpu-0-0", "gpu-0-1", "gpu-0-2", "gpu-0-3"});
  EXPECT_THAT(Passed(answer), ElementsAre("gpu-0-3"));
  EXPECT_THAT(Reason(answer, "gpu-0-0"), HasSubstr("cpu: 4000 requested, 3999 of 96000 free"));
  EXPECT_THAT(Reason(answer, "gpu-0-1"), HasSubstr("memory"));
  EXPECT_THAT(Reason(answer, "gpu-0-2"), HasSubstr("pods"));
}

TEST_F(ExtenderTest, SinglePodIsNeverSentToANodeThatIsNotInTheLedger) {
  const Json answer = Filter({.gpus = 1}, {"stranger", "gpu-0-0", "str\\\"ange\\\\r"});
  EXPECT_THAT(Passed(answer), ElementsAre("gpu-0-0"));
  EXPECT_THAT(Reason(answer, "stranger"), HasSubstr("not in the ledger"));
  EXPECT_THAT(Reason(answer, "str\"ange\\r"), HasSubstr("not in the ledger"));
}

TEST_F(ExtenderTest, PodWithoutGpusPassesEverywhere) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  EXPECT_THAT(Passed(Filter({.gpus = 0}, {"gpu-0-1", "stranger"})),
              ElementsAre("gpu-0-1", "stranger"));
}

TEST_F(ExtenderTest, ReasonsAreGivenForAtMost64Nodes) {
  builder_ = ViewBuilder({.supernodes = 50, .nodes_per_supernode = 4});
  const Json answer = Filter({.gpus = 9}, builder_.NodeNames());
  EXPECT_THAT(Passed(answer), IsEmpty());
  EXPECT_THAT(answer.at("FailedAndUnresolvableNodes"), SizeIs(64));
}

TEST_F(ExtenderTest, PodRequestsFollowTheRuleOfKubernetes) {
  cell_.Publish(builder_.Build());
  const auto passes = [&](const std::string& spec) {
    return !Passed(
                Filter(fmt::format(
                    R"({{"Pod":{{"metadata":{{"name":"p"}},"spec":{}}},"NodeNames":["gpu-0-0"]}})",
                    spec)))
                .empty();
  };
  const auto container = [](int gpus, const char* more) {
    return fmt::format(R"({{"resources":{{"requests":{{"nvidia.com/gpu":"{}"}}}}{}}})", gpus, more);
  };
  const auto spec = [](const std::string& containers, const std::string& init) {
    return fmt::format(R"({{"containers":[{}],"initContainers":[{}]}})", containers, init);
  };
  const char* const sidecar = R"(,"restartPolicy":"Always")";
  EXPECT_TRUE(passes(spec(container(4, "") + "," + container(4, ""), "")));
  EXPECT_FALSE(passes(spec(container(4, "") + "," + container(5, ""), ""))) << "sum";
  EXPECT_TRUE(passes(spec(container(4, ""), container(8, "")))) << "maximum";
  EXPECT_FALSE(passes(spec(container(4, ""), container(9, ""))));
  EXPECT_FALSE(passes(spec(container(4, ""), container(5, sidecar)))) << "a sidecar adds";
  EXPECT_FALSE(passes(spec("", container(4, sidecar) + "," + container(5, ""))));
  EXPECT_TRUE(passes(spec("", container(5, "") + "," + container(4, sidecar))));
  EXPECT_FALSE(passes(R"({"containers":[{"resources":{"limits":{"nvidia.com/gpu":9}}}]})"))
      << "a limit stands in, a bare number is a quantity";
  EXPECT_FALSE(passes(R"({"overhead":{"cpu":"100"},"containers":[)" + container(1, "") + "]}"));
  EXPECT_FALSE(
      passes(R"({"resources":{"requests":{"cpu":"97"}},"containers":[)" + container(1, "") + "]}"))
      << "pod-level resources";
  EXPECT_TRUE(passes(R"({"containers":null,"initContainers":null})"));
}

TEST_F(ExtenderTest, SinglePodsFillBrokenNodesThenBrokenSupernodes) {
  builder_.Use("gpu-0-0", kGpuSlot, 6);
  builder_.Use("gpu-0-1", kGpuSlot, 2);
  builder_.Use("gpu-0-2", kGpuSlot, 8);
  const Json scores =
      Prioritize({.gpus = 2}, {"gpu-0-0", "gpu-0-1", "gpu-0-2", "gpu-0-3", "gpu-1-0"});
  EXPECT_EQ(code_, 200);
  EXPECT_EQ(scores, Json::parse(R"([
    {"Host":"gpu-0-0","Score":10}, {"Host":"gpu-0-1","Score":8}, {"Host":"gpu-0-2","Score":0},
    {"Host":"gpu-0-3","Score":5}, {"Host":"gpu-1-0","Score":0}])"));
}

TEST_F(ExtenderTest, ASupernodeWithAnUnusableNodeIsBroken) {
  builder_.Node("gpu-0-0").usable = false;
  const Json scores = Prioritize({.gpus = 2}, {"gpu-0-1", "gpu-1-1", "stranger"});
  EXPECT_EQ(scores[0].at("Score"), 4);
  EXPECT_EQ(scores[1].at("Score"), 0);
  EXPECT_EQ(scores[2], Json::parse(R"({"Host":"stranger","Score":0})"));
}

TEST_F(ExtenderTest, ASinglePodGoesWhereOneIslandOfGpusHoldsIt) {
  builder_.Use("gpu-0-0", kGpuSlot, 4);
  builder_.Use("gpu-0-1", kGpuSlot, 2);
  builder_.Split("gpu-0-0", {.islands = {0x0f, 0xf0}, .taken = 0x33});
  builder_.Split("gpu-0-1", {.islands = {0x0f, 0xf0}, .taken = 0x03});
  const auto scores = [this](int64_t gpus) {
    const Json answer = Prioritize({.gpus = gpus}, {"gpu-0-0", "gpu-0-1", "gpu-1-0"});
    return std::vector<int>{answer[0].at("Score"), answer[1].at("Score"), answer[2].at("Score")};
  };
  EXPECT_THAT(scores(4), ElementsAre(1, 9, 0)) << "two and two GPUs of the first";
  EXPECT_THAT(scores(2), ElementsAre(9, 8, 0));
}

TEST_F(ExtenderTest, GangPodScoresOnlyItsHome) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  const Json scores = Prioritize({.job_uid = "llama"}, {"gpu-0-0", "gpu-0-1"});
  EXPECT_EQ(scores[0].at("Score"), 0);
  EXPECT_EQ(scores[1].at("Score"), 10);
}

TEST_F(ExtenderTest, PreemptDropsNodesWhoseVictimsAreGangPods) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "gang-pod");
  const Json answer = Preempt(R"({"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":null,
    "NodeNameToMetaVictims":{
      "gpu-0-0":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":2},
      "gpu-0-1":{"Pods":[{"UID":"c"},{"UID":"gang-pod"}],"NumPDBViolations":0},
      "gpu-0-2":{"Pods":[],"NumPDBViolations":0},
      "gpu-0-3":{"Pods":null,"NumPDBViolations":0},
      "stranger":{"Pods":[{"UID":"d"}],"NumPDBViolations":0}}})");
  EXPECT_EQ(code_, 200);
  EXPECT_EQ(answer, Json::parse(R"({"NodeNameToMetaVictims":{
      "gpu-0-0":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":2},
      "gpu-0-2":{"Pods":[],"NumPDBViolations":0},
      "gpu-0-3":{"Pods":[],"NumPDBViolations":0},
      "stranger":{"Pods":[{"UID":"d"}],"NumPDBViolations":0}}})"));
}

TEST_F(ExtenderTest, PreemptTakesWholePodsTooAndAnswersInTheMetaForm) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "gang-pod");
  const Json answer = Preempt(R"({"Pod":null,"NodeNameToMetaVictims":null,"NodeNameToVictims":{
      "gpu-0-0":{"Pods":[{"metadata":{"uid":"a"},"spec":{"x":[1]}}],"NumPDBViolations":1},
      "gpu-0-1":{"Pods":[{"metadata":{"uid":"gang-pod"}}],"NumPDBViolations":0}}})");
  EXPECT_EQ(answer, Json::parse(R"({"NodeNameToMetaVictims":{
      "gpu-0-0":{"Pods":[{"UID":"a"}],"NumPDBViolations":1}}})"));
  EXPECT_EQ(Preempt("{}"), Json::parse(R"({"NodeNameToMetaVictims":{}})"));
}

TEST_F(ExtenderTest, TheSameQuestionHasTheSameAnswer) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  cell_.Publish(builder_.Build());
  for (const PodShape& pod : {PodShape{.gpus = 2}, PodShape{.job_uid = "llama"}}) {
    const PaddedBody body(ArgsJson(pod, {"gpu-0-1", "gpu-1-0", "gpu-0-0"}));
    std::string filter;
    std::string prioritize;
    extender_.Filter(body.view(), filter);
    extender_.Prioritize(body.view(), prioritize);
    for (int i = 0; i < 3; ++i) {
      std::string again;
      extender_.Filter(body.view(), again);
      EXPECT_EQ(again, filter);
      again.clear();
      extender_.Prioritize(body.view(), again);
      EXPECT_EQ(again, prioritize);
    }
  }
}

TEST_F(ExtenderTest, SeesEachNewVersionOfTheLedger) {
  const PodShape pod{.gpus = 8};
  EXPECT_THAT(Passed(Filter(pod, {"gpu-0-0"})), SizeIs(1));
  builder_.Use("gpu-0-0", kGpuSlot, 1);
  EXPECT_THAT(Passed(Filter(pod, {"gpu-0-0"})), IsEmpty());
  builder_ = ViewBuilder({.supernodes = 1, .nodes_per_supernode = 1, .name_prefix = "other"});
  const Json answer = Filter(pod, {"gpu-0-0", "other-0-0"});
  EXPECT_THAT(Passed(answer), ElementsAre("other-0-0"));
}

TEST_F(ExtenderTest, CountsCallsAndRefusals) {
  Filter({.job_uid = "llama"}, {"gpu-0-1"});
  Filter("nonsense");
  const std::string page = registry_.Expose();
  EXPECT_THAT(page, HasSubstr(R"(asterism_extender_calls_total{verb="filter",result="ok"} 1)"));
  EXPECT_THAT(page, HasSubstr(R"(asterism_extender_calls_total{verb="filter",result="error"} 1)"));
}

}  // namespace
}  // namespace asterism::scheduler
