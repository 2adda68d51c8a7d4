#include "operator/node_closer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"
#include "operator/direct_commit.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

class NodeCloserTest : public ::testing::Test {
 protected:
  void PutNode(const std::string& name, int gpus, const json& taints = json::array()) {
    json node;
    node["metadata"] = {{"name", name}, {"labels", {{"a", "b"}, {"c", "d"}}}};
    node["spec"]["taints"] = taints;
    if (gpus > 0) {
      node["status"]["capacity"]["nvidia.com/gpu"] = std::to_string(gpus);
      node["status"]["allocatable"]["nvidia.com/gpu"] = std::to_string(gpus);
    }
    server_.Put(kube::kNodes, node);
    Tell(name);
  }
  // What the watch does.
  void Tell(const std::string& name) {
    const auto object = server_.Find(kube::kNodes, {"", name});
    const auto decoded = kube::DecodeNode({kube::Encoding::kJson, object->dump()});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const kube::Change<kube::Node> change{.before = nullptr,
                                          .after = std::make_shared<kube::Node>(*decoded)};
    feed_.OnNode(change);
    closer_.OnNode(change);
  }
  json Taints(const std::string& name) const {
    return server_.Find(kube::kNodes, {"", name})->at("spec").value("taints", json::array());
  }
  int Requests(const std::string& what) const {
    const auto found = server_.requests().find(what);
    return found == server_.requests().end() ? 0 : found->second;
  }
  static json Ours() { return {{"key", kManagedTaint}, {"effect", "NoSchedule"}}; }

  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  kube::testing::FakeApiServer server_{clock_, executor_, {}};
  base::SnapshotCell<scheduler::LedgerView> cell_;
  ClusterFeed feed_{{.levels = {{"node", ""}, {"cluster", ""}},
                     .resource_names = {"nvidia.com/gpu"},
                     .node_selector = {}},
                    cell_};
  bool may_write_ = true;
  NodeCloser closer_{executor_, server_, feed_, [this] { return may_write_; }};
};

TEST_F(NodeCloserTest, ClosesNodesWithGpusAndNoOthers) {
  PutNode("gpu-0", 8);
  PutNode("cpu-0", 0);
  executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(Taints("gpu-0"), json::array({Ours()}));
  EXPECT_EQ(Taints("cpu-0"), json::array());
  Tell("gpu-0");
  EXPECT_TRUE(feed_.IsClosed("gpu-0"));
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(Requests("patch nodes"), 1);
}

TEST_F(NodeCloserTest, NodesThatRefuseHoldUpNoOthers) {
  server_.SetAdmission([](const kube::ResourceType&, std::string_view verb, json& node) {
    return verb == "patch" && node["metadata"]["name"] < "gpu-10"
               ? absl::PermissionDeniedError("a policy")
               : absl::OkStatus();
  });
  for (int i = 0; i < 40; ++i) {
    PutNode(fmt::format("gpu-{:02}", i), 8);
  }
  executor_.RunFor(absl::Seconds(2));
  for (int i = 10; i < 40; ++i) {
    const std::string name = fmt::format("gpu-{:02}", i);
    EXPECT_EQ(Taints(name), json::array({Ours()})) << name;
    Tell(name);
  }
  executor_.RunFor(absl::Seconds(10));
  EXPECT_EQ(closer_.open(), 10U);
  server_.SetAdmission(nullptr);
  executor_.RunFor(absl::Seconds(6));
  EXPECT_EQ(Taints("gpu-03"), json::array({Ours()}));
}

TEST_F(NodeCloserTest, LooksAgainAtANodeThatWasOpenedMeanwhile) {
  PutNode("gpu-0", 8);
  executor_.RunFor(absl::Seconds(1));
  // The taint is taken off before the watch has shown it.
  server_.Merge(kube::kNodes, {"", "gpu-0"}, {{"spec", {{"taints", json::array()}}}});
  executor_.RunFor(absl::Seconds(10));
  EXPECT_EQ(Taints("gpu-0"), json::array({Ours()}));
}

TEST_F(NodeCloserTest, TaintsOfOthersStayAsTheyWere) {
  const json theirs = {
      {"key", "a"}, {"effect", "NoExecute"}, {"timeAdded", "2026-01-01T00:00:00Z"}};
  PutNode("gpu-0", 8, json::array({theirs}));
  executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(Taints("gpu-0"), json::array({theirs, Ours()}));
}

TEST_F(NodeCloserTest, AChangeBetweenReadAndWriteIsNotOverwritten) {
  const json theirs = {{"key", "a"}, {"effect", "NoSchedule"}};
  PutNode("gpu-0", 8);
  // The answer to the read is back after 2 ms, the write arrives after 3.
  executor_.RunFor(absl::Microseconds(2500));
  server_.Merge(kube::kNodes, {"", "gpu-0"}, {{"spec", {{"taints", json::array({theirs})}}}});
  executor_.RunFor(absl::Milliseconds(100));
  EXPECT_EQ(Taints("gpu-0"), json::array({theirs}));
  executor_.RunFor(absl::Seconds(30));
  EXPECT_EQ(Taints("gpu-0"), json::array({theirs, Ours()}));
}

TEST_F(NodeCloserTest, GoesOnWhenTheApiServerIsBack) {
  server_.SetDown(true);
  for (int i = 0; i < 40; ++i) {
    server_.Put(
        kube::kNodes,
        {{"metadata", {{"name", "n" + std::to_string(i)}}},
         {"status",
          {{"capacity", {{"nvidia.com/gpu", "8"}}}, {"allocatable", {{"nvidia.com/gpu", "8"}}}}}});
    Tell("n" + std::to_string(i));
  }
  executor_.RunFor(absl::Minutes(1));
  server_.SetDown(false);
  executor_.RunFor(absl::Minutes(2));
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(Taints("n" + std::to_string(i)), json::array({Ours()})) << i;
  }
}

TEST_F(NodeCloserTest, WhoDoesNotLeadWritesNothing) {
  may_write_ = false;
  PutNode("gpu-0", 8);
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(Taints("gpu-0"), json::array());
}

}  // namespace
}  // namespace asterism::operators
