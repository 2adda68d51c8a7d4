// What the controller makes of agents and of nodes without one: the whole control plane against the
// fake API server, with agents that speak to its registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "controller/control_plane.h"
#include "fake_cluster.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class AgentsOfNodesTest : public ::testing::Test {
 protected:
  void Lead(const std::string& name) {
    cluster_.configuration().agents.enabled = true;
    cluster_.StartController(name);
    leader_ = name;
    ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.leader() != nullptr; }));
  }
  AgentRegistry& agents() { return cluster_.leader()->agents(); }
  void Attach(uint64_t stream, const std::string& node) {
    v1::AgentHello hello;
    hello.set_node(node);
    hello.set_boot_id("boot");
    agents().Attach(stream, hello);
  }
  int Missing(const std::string& of) {
    const std::string page = cluster_.registry(of).Expose();
    const std::string name = "\nasterism_agents_missing ";
    const size_t at = page.find(name);
    return at == std::string::npos ? -1 : std::stoi(page.substr(at + name.size()));
  }
  int Missing() { return Missing(leader_); }
  void PatchNode(const std::string& node, const nlohmann::json& patch) {
    cluster_.server().Merge(kube::kNodes, {"", node}, patch);
  }
  void PutPod(const std::string& name, const std::string& node, const std::string& phase) {
    nlohmann::json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", name}, {"namespace", "research"}, {"uid", "uid-of-" + name}}},
        {"spec",
         {{"nodeName", node},
          {"containers", nlohmann::json::array({{{"name", "main"}, {"image", "i"}}})}}},
        {"status", {{"phase", phase}}}};
    cluster_.server().Put(kube::kPods, pod);
    cluster_.Run(absl::Seconds(1));
  }
  void TellHolders(uint64_t stream, const std::vector<std::pair<std::string, std::string>>& held) {
    v1::DeviceReport report;
    for (const auto& [id, pod] : held) {
      v1::Device& device = *report.add_devices();
      device.set_resource("nvidia.com/gpu");
      device.set_id(id);
      device.set_pod_namespace("research");
      device.set_pod_name(pod);
    }
    EXPECT_TRUE(agents().OnDevices(stream, report).ok());
  }

  FakeCluster cluster_{7};
  std::string leader_;
};

TEST_F(AgentsOfNodesTest, NodesWithoutAnAgentAreMissedAfterTwoMinutes) {
  cluster_.AddNodes(4, 4);
  Lead("a");
  Attach(1, "node-000");
  cluster_.Run(absl::Seconds(100));
  EXPECT_EQ(Missing(), 0) << "an agent may still be on its way";
  cluster_.Run(absl::Seconds(40));
  EXPECT_EQ(Missing(), 3);
  Attach(2, "node-001");
  cluster_.Run(absl::Seconds(10));
  EXPECT_EQ(Missing(), 2);
  cluster_.SetUnschedulable("node-002", true);
  cluster_.Run(absl::Seconds(10));
  EXPECT_EQ(Missing(), 2) << "a cordoned node has its agent";
  cluster_.RemoveNode("node-002");
  cluster_.Run(absl::Seconds(10));
  EXPECT_EQ(Missing(), 1);
  PatchNode(
      "node-003",
      {{"status",
        {{"conditions", nlohmann::json::array({{{"type", "Ready"}, {"status", "Unknown"}}})}}}});
  cluster_.Run(absl::Seconds(10));
  EXPECT_EQ(Missing(), 0) << "on a node that is lost nobody expects one";
  agents().Detach(1);
  cluster_.Run(absl::Seconds(100));
  EXPECT_EQ(Missing(), 0);
  cluster_.Run(absl::Seconds(40));
  EXPECT_EQ(Missing(), 1) << "one that was there has gone";
}

TEST_F(AgentsOfNodesTest, AgentsAreMissedByTheLeaderAlone) {
  cluster_.AddNodes(2, 2);
  Lead("a");
  cluster_.StartController("b");
  cluster_.Run(absl::Minutes(3));
  EXPECT_EQ(Missing("a") + Missing("b"), 2);
  cluster_.KillController("a");
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.leader() != nullptr; }));
  EXPECT_EQ(Missing("b"), 0) << "the agents need time to find it";
  cluster_.Run(absl::Minutes(3));
  EXPECT_EQ(Missing("b"), 2);
}

TEST_F(AgentsOfNodesTest, NobodyIsMissedWhereNoAgentIsStarted) {
  cluster_.AddNodes(2, 2);
  cluster_.configuration().agents.node_selector = "pool=gpu";
  Lead("a");
  cluster_.Run(absl::Minutes(3));
  EXPECT_EQ(Missing(), 0);
  PatchNode("node-001", {{"metadata", {{"labels", {{"pool", "gpu"}}}}}});
  cluster_.Run(absl::Minutes(3));
  EXPECT_EQ(Missing(), 1);
}

TEST_F(AgentsOfNodesTest, WithoutAgentsNobodyIsMissed) {
  cluster_.AddNodes(2, 2);
  cluster_.StartController("a");
  cluster_.Run(absl::Minutes(3));
  EXPECT_EQ(Missing("a"), 0);
}

// As kubelets before Kubernetes 1.34 tell it.
TEST_F(AgentsOfNodesTest, APodThatHasEndedHoldsNoDevice) {
  cluster_.AddNodes(2, 2);
  Lead("a");
  PutPod("old", "node-000", "Succeeded");
  PutPod("now", "node-000", "Running");
  Attach(1, "node-000");
  TellHolders(1, {{"GPU-0", "old"}, {"GPU-0", "now"}, {"GPU-1", "old"}, {"GPU-2", "unknown"}});
  // What the watch does not know yet may have begun a moment ago.
  EXPECT_THAT(cluster_.leader()->device_holders(),
              ElementsAre(Pair("research/now", ElementsAre("GPU-0")),
                          Pair("research/unknown", ElementsAre("GPU-2"))));
  PutPod("unknown", "node-000", "Failed");
  EXPECT_THAT(cluster_.leader()->device_holders(),
              ElementsAre(Pair("research/now", ElementsAre("GPU-0"))));
  PutPod("now", "node-000", "Succeeded");
  EXPECT_THAT(cluster_.leader()->device_holders(), IsEmpty());
  TellHolders(1, {{"GPU-0", "old"}, {"GPU-0", "now"}});
  EXPECT_THAT(cluster_.leader()->device_holders(), IsEmpty()) << "kubelet says it still";
}

TEST_F(AgentsOfNodesTest, ThePodsOfAnotherNodeEndForThemselves) {
  cluster_.AddNodes(2, 2);
  Lead("a");
  Attach(1, "node-000");
  TellHolders(1, {{"GPU-0", "one"}});
  PutPod("one", "node-001", "Failed");
  EXPECT_THAT(cluster_.leader()->device_holders(),
              ElementsAre(Pair("research/one", ElementsAre("GPU-0"))));
}

TEST_F(AgentsOfNodesTest, WhatANodeHadGoesWithItThoughItsAgentSpokeLonger) {
  cluster_.AddNodes(2, 2);
  Lead("a");
  Attach(1, "node-000");
  v1::DeviceReport report;
  v1::Device& device = *report.add_devices();
  device.set_resource("nvidia.com/gpu");
  device.set_id("GPU-0");
  device.set_unhealthy(true);
  EXPECT_TRUE(agents().OnDevices(1, report).ok());
  EXPECT_THAT(cluster_.registry("a").Expose(), HasSubstr("asterism_unhealthy_devices 1"));
  cluster_.RemoveNode("node-000");
  cluster_.Run(absl::Seconds(5));
  EXPECT_THAT(cluster_.registry("a").Expose(), HasSubstr("asterism_unhealthy_devices 1"));
  agents().Detach(1);
  EXPECT_THAT(cluster_.registry("a").Expose(), HasSubstr("asterism_unhealthy_devices 0"));
}

}  // namespace
}  // namespace asterism::controller
