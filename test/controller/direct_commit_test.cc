#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "fake_cluster.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "kube/client.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The controller closes the nodes and binds; no scheduler does.
class DirectCommitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.configuration().taint_nodes = true;
    cluster_.configuration().commit = operators::CommitMode::kDirect;
    cluster_.AddNodes(16, 4);
    cluster_.StartController("a");
    cluster_.set_bind_pods(false);
    ASSERT_TRUE(cluster_.RunUntil([&] { return OpenNodes() == 0; }));
  }
  void TearDown() override { EXPECT_EQ(cluster_.Violations(), ""); }

  int OpenNodes() {
    int open = 0;
    for (const auto& node : cluster_.server().All(kube::kNodes)) {
      const json taints = node->value("/spec/taints"_json_pointer, json::array());
      open += taints.dump().find("asterism.dev/managed") == std::string::npos ? 1 : 0;
    }
    return open;
  }
  bool Runs(const std::string& job) {
    return cluster_.RunUntil([&] { return cluster_.StateOf(job) == "Running"; });
  }
  std::string Fallback(const std::string& job) {
    const json status = cluster_.StatusOf(job);
    for (const json& condition : status.value("conditions", json::array())) {
      if (condition["type"] == "CommitFallback") {
        return condition["message"];
      }
    }
    return "";
  }

  FakeCluster cluster_{1};
};

TEST_F(DirectCommitTest, AGangRunsWithoutAnyScheduler) {
  cluster_.CreateJob("llama", 64);
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(Fallback("llama"), "");
  for (const auto& [name, pod] : cluster_.PodsOf("llama")) {
    EXPECT_TRUE(pod["spec"].contains("affinity")) << "the pin stays: " << name;
  }
}

TEST_F(DirectCommitTest, AFailedRankRestartsTheGangDirectlyToo) {
  cluster_.CreateJob("llama", 32);
  ASSERT_TRUE(Runs("llama"));
  cluster_.EndPod(cluster_.PodsOf("llama").begin()->first, 1);
  EXPECT_TRUE(cluster_.RunUntil([&] {
    return cluster_.StateOf("llama") == "Running" &&
           cluster_.StatusOf("llama")["placement"]["epoch"] == 2;
  }));
}

TEST_F(DirectCommitTest, WhatNeedsTheSchedulerIsLeftToIt) {
  json patch;
  patch["template"]["spec"]["topologySpreadConstraints"] = json::array(
      {{{"maxSkew", 1}, {"topologyKey", "zone"}, {"whenUnsatisfiable", "ScheduleAnyway"}}});
  cluster_.CreateJob("spread", 16, patch);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.PodsOf("spread").size() == 2; }));
  cluster_.Run(absl::Seconds(3));
  EXPECT_THAT(Fallback("spread"), HasSubstr("topologySpreadConstraints"));
  EXPECT_NE(cluster_.StateOf("spread"), "Running");
  cluster_.set_bind_pods(true);
  EXPECT_TRUE(Runs("spread"));
}

// What a webhook, or a plug-in of admission, makes of every pod.
void Admit(FakeCluster& cluster, std::function<void(json& pod)> change) {
  cluster.server().SetAdmission(
      [change](const kube::ResourceType& type, std::string_view verb, json& object) {
        if (type.plural == kube::kPods.plural && verb == "create") {
          change(object);
        }
        return absl::OkStatus();
      });
}

TEST_F(DirectCommitTest, ThePodIsJudgedAsTheApiServerLeavesIt) {
  Admit(cluster_, [](json& pod) {
    pod["spec"]["hostNetwork"] = true;
    pod["spec"]["containers"][0]["ports"] = json::array({{{"containerPort", 8080}}});
  });
  cluster_.CreateJob("net", 16);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.PodsOf("net").size() == 2; }));
  cluster_.Run(absl::Seconds(3));
  EXPECT_THAT(Fallback("net"), HasSubstr("host network"));
  EXPECT_NE(cluster_.StateOf("net"), "Running");
}

TEST_F(DirectCommitTest, ANodeSelectorOfTheNamespaceCounts) {
  for (const int node : {3, 9}) {
    cluster_.server().Merge(kube::kNodes, {"", fmt::format("node-{:03}", node)},
                            {{"metadata", {{"labels", {{"zone", "a"}}}}}});
  }
  Admit(cluster_, [](json& pod) { pod["spec"]["nodeSelector"]["zone"] = "a"; });
  cluster_.CreateJob("zoned", 16);
  ASSERT_TRUE(Runs("zoned")) << cluster_.StatusOf("zoned").dump(1);
  std::set<std::string> nodes;
  for (const auto& [name, pod] : cluster_.PodsOf("zoned")) {
    nodes.insert(pod["spec"]["nodeName"]);
  }
  EXPECT_EQ(nodes, (std::set<std::string>{"node-003", "node-009"}));
}

TEST_F(DirectCommitTest, WhatTheKubeletRefusesMoves) {
  for (const char* reason : {"OutOfmemory", "NodePorts", "NodeAffinity"}) {
    const std::string job = fmt::format("job-{}", absl::AsciiStrToLower(reason));
    Admit(cluster_, [reason](json& pod) {
      const std::string node = pod["spec"].value("nodeName", "");
      if (!node.empty() && node < "node-004") {
        pod["status"] = {{"phase", "Failed"}, {"reason", reason}};
      }
    });
    cluster_.CreateJob(job, 16);
    ASSERT_TRUE(Runs(job)) << reason << cluster_.StatusOf(job).dump(1);
    EXPECT_FALSE(cluster_.StatusOf(job).contains("restarts")) << reason;
    for (const auto& [name, pod] : cluster_.PodsOf(job)) {
      EXPECT_GE(pod["spec"]["nodeName"].get<std::string>(), "node-004");
    }
    cluster_.DeleteJob(job);
    cluster_.Run(absl::Seconds(5));
  }
}

TEST_F(DirectCommitTest, AGangThatEveryKubeletRefusesWaitsWithTheReason) {
  Admit(cluster_, [](json& pod) {
    if (pod["spec"].contains("nodeName")) {
      pod["status"] = {{"phase", "Failed"}, {"reason", "OutOfmemory"}};
    }
  });
  cluster_.CreateJob("llama", 16);
  ASSERT_TRUE(cluster_.RunUntil([&] {
    return cluster_.StatusOf("llama").value("/waiting/reason"_json_pointer, "") == "BindFailed";
  })) << cluster_.StatusOf("llama").dump(1);
  EXPECT_THAT(cluster_.StatusOf("llama")["waiting"]["message"].get<std::string>(),
              HasSubstr("OutOfmemory"));
}

TEST_F(DirectCommitTest, AnOpenNodeIsLeftToTheSchedulerAndClosedAgain) {
  cluster_.set_bind_pods(true);
  // Somebody takes the taint off all nodes, and for a moment nobody can bring it back.
  cluster_.server().InjectFault(
      {.verb = "patch", .plural = "nodes", .count = 1000, .http_code = 403});
  for (const auto& node : cluster_.server().All(kube::kNodes)) {
    cluster_.server().Merge(kube::kNodes, {"", node->at("metadata").at("name")},
                            {{"spec", {{"taints", nullptr}}}});
  }
  cluster_.CreateJob("llama", 32);
  ASSERT_TRUE(Runs("llama"));
  EXPECT_THAT(Fallback("llama"), HasSubstr("not closed by the taint"));
  cluster_.server().ClearFaults();
  EXPECT_TRUE(cluster_.RunUntil([&] { return OpenNodes() == 0; }));
  // Its next placement is direct, and no longer says otherwise.
  cluster_.EndPod(cluster_.PodsOf("llama").begin()->first, 1);
  EXPECT_TRUE(cluster_.RunUntil([&] {
    return cluster_.StateOf("llama") == "Running" &&
           cluster_.StatusOf("llama")["placement"]["epoch"] == 2;
  }));
  EXPECT_EQ(Fallback("llama"), "");
}

json SinglePod(const std::string& name) {
  return {
      {"metadata", {{"namespace", "research"}, {"name", name}, {"uid", "uid-" + name}}},
      {"spec",
       {{"schedulerName", "asterism"},
        {"containers", json::array({{{"name", "main"},
                                     {"resources", {{"limits", {{"nvidia.com/gpu", "4"}}}}}}})}}},
      {"status", {{"phase", "Pending"}}}};
}

// kube-scheduler's question about a pod, and the nodes that it may go to.
json Ask(FakeCluster& cluster, const json& pod, const std::vector<std::string>& nodes) {
  std::string body = json({{"Pod", pod}, {"NodeNames", nodes}}).dump();
  const size_t size = body.size();
  body.append(scheduler::kExtenderBodyPadding, '\0');
  std::string answer;
  EXPECT_EQ(cluster.leader()->extender().Filter(std::string_view(body).substr(0, size), answer),
            200);
  return json::parse(answer).at("NodeNames");
}

TEST_F(DirectCommitTest, WhileKubeSchedulerBindsASinglePodItBindsTheGangsToo) {
  const json pod = SinglePod("notebook");
  cluster_.server().Put(kube::kPods, pod);
  ASSERT_EQ(Ask(cluster_, pod, {"node-000"}).size(), 1);
  cluster_.CreateJob("llama", 128);
  ASSERT_TRUE(cluster_.RunUntil(
      [&] { return cluster_.PodsOf("llama").size() == 16 && !Fallback("llama").empty(); }));
  EXPECT_THAT(Fallback("llama"), HasSubstr("research/notebook"));
  for (const auto& [name, each] : cluster_.PodsOf("llama")) {
    EXPECT_FALSE(each["spec"].contains("nodeName")) << name;
  }
  // It is bound where the gang is to go: kube-scheduler lets one of them wait.
  cluster_.server().Merge(kube::kPods, {"research", "notebook"},
                          {{"spec", {{"nodeName", "node-000"}}}});
  cluster_.set_bind_pods(true);
  cluster_.Run(absl::Minutes(1));
  EXPECT_NE(cluster_.StateOf("llama"), "Running");
  cluster_.server().Remove(kube::kPods, {"research", "notebook"});
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
}

TEST_F(DirectCommitTest, ASinglePodThatIsBoundOrGoneHoldsUpNobody) {
  for (const std::string name : {"bound", "gone", "refused"}) {
    cluster_.server().Put(kube::kPods, SinglePod(name));
    ASSERT_EQ(Ask(cluster_, SinglePod(name), {"node-000"}).size(), 1);
  }
  cluster_.server().Merge(kube::kPods, {"research", "bound"},
                          {{"spec", {{"nodeName", "node-000"}}}});
  cluster_.server().Remove(kube::kPods, {"research", "gone"});
  cluster_.Run(absl::Seconds(1));
  ASSERT_EQ(Ask(cluster_, SinglePod("refused"), {"nowhere"}).size(), 0);
  cluster_.CreateJob("llama", 64);
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(Fallback("llama"), "");
}

// A pod with a gate was never asked about.
TEST_F(DirectCommitTest, AGatedPodHoldsUpNoNewLeader) {
  json pod = SinglePod("gated");
  pod["spec"]["schedulingGates"] = json::array({{{"name", "example.com/wait"}}});
  cluster_.server().Put(kube::kPods, pod);
  cluster_.KillController("a");
  cluster_.StartController("b");
  cluster_.CreateJob("llama", 64);
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(Fallback("llama"), "");
}

// The leader before may have let it pass.
TEST_F(DirectCommitTest, ANewLeaderTakesUnboundSinglePodsForPassed) {
  cluster_.server().Put(kube::kPods, SinglePod("notebook"));
  cluster_.KillController("a");
  cluster_.StartController("b");
  cluster_.CreateJob("llama", 64);
  ASSERT_TRUE(cluster_.RunUntil(
      [&] { return cluster_.PodsOf("llama").size() == 8 && !Fallback("llama").empty(); }));
  EXPECT_THAT(Fallback("llama"), HasSubstr("research/notebook"));
}

TEST_F(DirectCommitTest, AQueueMaySayOtherwise) {
  json queue = *cluster_.server().Find(operators::kQueues, {"", "default"});
  queue["spec"]["commit"] = "Scheduler";
  cluster_.server().Put(operators::kQueues, queue);
  cluster_.Run(absl::Seconds(1));
  cluster_.CreateJob("llama", 32);
  cluster_.Run(absl::Seconds(5));
  EXPECT_NE(cluster_.StateOf("llama"), "Running");
  EXPECT_EQ(Fallback("llama"), "");
  cluster_.set_bind_pods(true);
  EXPECT_TRUE(Runs("llama"));
}

}  // namespace
}  // namespace asterism::controller
