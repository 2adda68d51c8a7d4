#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "controller/ledger_page.h"
#include "fake_cluster.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "operator/node_ranges.h"

namespace asterism::controller {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Eight nodes in two supernodes.
class SparesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.AddNodes(8, 4);
    cluster_.StartController("a");
  }
  void TearDown() override { EXPECT_EQ(cluster_.Violations(), ""); }

  void CreateJob(const std::string& name, int gpus, const json& spares) {
    json patch;
    patch["failover"]["spares"] = spares;
    cluster_.CreateJob(name, gpus, patch);
  }
  bool Runs(const std::string& job) {
    return cluster_.RunUntil([&] { return cluster_.StateOf(job) == "Running"; });
  }
  std::vector<std::string> SparesOf(const std::string& job) {
    std::vector<std::string> nodes;
    for (const json& run :
         cluster_.StatusOf(job).value("/placement/spares"_json_pointer, json::array())) {
      const auto names = operators::ParseNodeRanges(run["nodes"].get<std::string>(), 100);
      nodes.insert(nodes.end(), names->begin(), names->end());
    }
    return nodes;
  }
  std::set<std::string> NodesOf(const std::string& job) {
    std::set<std::string> nodes;
    for (const auto& [name, pod] : cluster_.PodsOf(job)) {
      nodes.insert(pod["spec"].value("nodeName", ""));
    }
    return nodes;
  }
  std::string Waits(const std::string& job) {
    cluster_.RunUntil([&] { return cluster_.StatusOf(job).contains("waiting"); });
    return cluster_.StatusOf(job).value("/waiting/message"_json_pointer, "");
  }
  // All that the ledger knows, but for how often it has changed.
  std::string LedgerText() {
    json page = json::parse(LedgerPage(*cluster_.leader()->view(), {}, true));
    page.erase("version");
    return page.dump();
  }
  bool Has(const std::string& job, size_t spares) {
    return cluster_.RunUntil([&] { return SparesOf(job).size() == spares; });
  }

  FakeCluster cluster_{1};
};

TEST_F(SparesTest, TheirGpusAreKeptFromOthersUntilTheJobGoes) {
  CreateJob("llama", 48, 1);
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  ASSERT_THAT(SparesOf("llama"), SizeIs(1));
  EXPECT_FALSE(NodesOf("llama").contains(SparesOf("llama")[0]));
  EXPECT_EQ(cluster_.StatusOf("llama")["effective"]["spares"], 1);
  EXPECT_FALSE(cluster_.StatusOf("llama").dump().find("not available yet") != std::string::npos);
  cluster_.CreateJob("two", 16);
  EXPECT_THAT(Waits("two"), HasSubstr("needs 16 GPUs, 8 are free"));
  cluster_.CreateJob("one", 8);
  ASSERT_TRUE(Runs("one"));
  cluster_.DeleteJob("llama");
  EXPECT_TRUE(Runs("two"));
}

TEST_F(SparesTest, ANumberIsAPromiseAndAutoAWish) {
  CreateJob("strict", 64, 1);
  EXPECT_THAT(Waits("strict"), HasSubstr("needs 1 spare beside its 8 pods"));
  cluster_.DeleteJob("strict");
  CreateJob("wish", 64, "Auto");
  ASSERT_TRUE(Runs("wish"));
  EXPECT_THAT(SparesOf("wish"), IsEmpty());
  EXPECT_EQ(cluster_.StatusOf("wish")["effective"]["spares"], 1);
  cluster_.DeleteJob("wish");
  CreateJob("room", 56, "Auto");
  ASSERT_TRUE(Runs("room"));
  EXPECT_THAT(SparesOf("room"), SizeIs(1));
}

TEST_F(SparesTest, ANewLeaderKeepsThemByteForByte) {
  CreateJob("llama", 32, 2);
  ASSERT_TRUE(Runs("llama"));
  cluster_.Run(absl::Seconds(10));
  const std::vector<std::string> spares = SparesOf("llama");
  ASSERT_THAT(spares, SizeIs(2));
  const std::string ledger = LedgerText();
  EXPECT_THAT(ledger, HasSubstr(R"("state":"spare")"));
  cluster_.KillController("a");
  cluster_.StartController("b");
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.leader() != nullptr; }));
  cluster_.Run(absl::Seconds(10));
  EXPECT_EQ(LedgerText(), ledger);
  EXPECT_EQ(SparesOf("llama"), spares);
  cluster_.CreateJob("three", 24);
  EXPECT_THAT(Waits("three"), HasSubstr("needs 24 GPUs, 16 are free"));
}

TEST_F(SparesTest, ALostNodeIsReplacedByASpareAndTheSpareByAFreeNode) {
  CreateJob("llama", 56, 1);
  ASSERT_TRUE(Runs("llama"));
  ASSERT_THAT(SparesOf("llama"), SizeIs(1));
  const std::string spare = SparesOf("llama")[0];
  const std::string lost = *NodesOf("llama").begin();
  cluster_.RemoveNode(lost);
  ASSERT_TRUE(cluster_.RunUntil([&] {
    return cluster_.StateOf("llama") == "Running" &&
           cluster_.StatusOf("llama").value("/restarts/count"_json_pointer, 0) == 1;
  })) << cluster_.StatusOf("llama").dump(1);
  EXPECT_TRUE(NodesOf("llama").contains(spare)) << "it did not wait for a spare of its own";
  EXPECT_THAT(SparesOf("llama"), IsEmpty());
  cluster_.AddNodes(9, 4);  // one more than before; the lost one is back
  EXPECT_TRUE(Has("llama", 1)) << "used up and refilled";
}

TEST_F(SparesTest, ASpareOnALostNodeFindsAnotherOne) {
  CreateJob("llama", 48, 1);
  ASSERT_TRUE(Runs("llama"));
  const std::vector<std::string> before = SparesOf("llama");
  ASSERT_THAT(before, SizeIs(1));
  cluster_.SetUnschedulable(before[0], true);
  EXPECT_TRUE(cluster_.RunUntil([&] {
    return SparesOf("llama").size() == 1 && SparesOf("llama") != before;
  })) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(cluster_.StatusOf("llama")["placement"]["epoch"], 1) << "no rank has moved";
  const std::vector<std::string> second = SparesOf("llama");
  cluster_.SetUnschedulable(second[0], true);
  cluster_.Run(absl::Seconds(30));
  EXPECT_EQ(SparesOf("llama"), second) << "there is no other: the node may come back";
}

TEST_F(SparesTest, TheirNumberMayChangeWhileTheJobRuns) {
  CreateJob("llama", 32, 1);
  ASSERT_TRUE(Runs("llama"));
  const std::vector<std::string> one = SparesOf("llama");
  ASSERT_THAT(one, SizeIs(1));
  json patch;
  patch["spec"]["failover"]["spares"] = 3;
  cluster_.PatchJob("llama", patch);
  ASSERT_TRUE(Has("llama", 3));
  EXPECT_EQ(SparesOf("llama")[0], one[0]) << "who is there stays";
  patch["spec"]["failover"]["spares"] = 0;
  cluster_.PatchJob("llama", patch);
  EXPECT_TRUE(Has("llama", 0));
  cluster_.CreateJob("rest", 32);
  EXPECT_TRUE(Runs("rest"));
  EXPECT_EQ(cluster_.StatusOf("llama")["placement"]["epoch"], 1);
}

TEST_F(SparesTest, ABlockThatMustMoveTakesASpareOnlyWhereThereIsNoOtherRoom) {
  cluster_.set_bind_pods(false);
  CreateJob("llama", 40, 1);
  ASSERT_TRUE(Has("llama", 1));
  const std::string spare = SparesOf("llama")[0];
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.PodsOf("llama").size() == 5; }));
  const auto first_pin = [&] {
    return operators::ParseNodeRanges(
               cluster_.StatusOf("llama")["placement"]["runs"][0]["nodes"].get<std::string>(), 100)
        ->front();
  };
  cluster_.RemoveNode(first_pin());
  ASSERT_TRUE(
      cluster_.RunUntil([&] { return cluster_.StatusOf("llama")["placement"]["epoch"] == 2; }));
  EXPECT_EQ(SparesOf("llama"), std::vector<std::string>{spare}) << "two other nodes are free";
  cluster_.CreateJob("filler", 8);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.PodsOf("filler").size() == 1; }));
  cluster_.RemoveNode(first_pin());
  ASSERT_TRUE(
      cluster_.RunUntil([&] { return cluster_.StatusOf("llama")["placement"]["epoch"] == 3; }));
  EXPECT_THAT(SparesOf("llama"), IsEmpty());
  cluster_.set_bind_pods(true);
  ASSERT_TRUE(Runs("llama"));
  EXPECT_TRUE(NodesOf("llama").contains(spare));
}

}  // namespace
}  // namespace asterism::controller
