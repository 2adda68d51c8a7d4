#include "operator/queue_controller.h"

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "feed_fixture.h"
#include "gtest/gtest.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

using nlohmann::json;

// Queues in the API server and in the store that an informer would keep.
class Queues {
 public:
  Queues()
      : server_(clock_, executor_, {}),
        dispatcher_(clock_, feed_.feed()),
        controller_(clock_, executor_, server_, feed_.feed(), dispatcher_, store_,
                    [] { return true; }) {}

  void Put(const std::string& name, const json& spec) {
    server_.Put(kQueues, {{"apiVersion", "asterism.dev/v1alpha1"},
                          {"kind", "Queue"},
                          {"metadata", {{"name", name}}},
                          {"spec", spec}});
    const auto object = server_.Find(kQueues, {"", name});
    store_.Put(name, std::make_shared<const Queue>(*ParseQueue(object->dump())));
    controller_.OnChange();
  }
  void Remove(const std::string& name) {
    server_.Remove(kQueues, {"", name});
    store_.Remove(name);
    controller_.OnChange();
  }
  void Settle() {
    controller_.RefreshQuota();
    executor_.RunFor(absl::Seconds(5));
  }
  json Status(const std::string& name) const {
    const auto object = server_.Find(kQueues, {"", name});
    return object == nullptr ? json::object() : object->value("status", json::object());
  }
  // "True Ready", or "absent".
  std::string Condition(const std::string& name, const std::string& type) const {
    for (const json& condition : Status(name).value("conditions", json::array())) {
      if (condition["type"] == type) {
        return condition["status"].get<std::string>() + " " +
               condition["reason"].get<std::string>();
      }
    }
    return "absent";
  }
  int Writes() {
    return server_.requests().contains("patch queues") ? server_.requests().at("patch queues") : 0;
  }

  TestFeed& feed() { return feed_; }
  GangDispatcher& dispatcher() { return dispatcher_; }
  QueueController& controller() { return controller_; }
  kube::testing::FakeApiServer& server() { return server_; }

 private:
  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  kube::testing::FakeApiServer server_;
  TestFeed feed_;
  GangDispatcher dispatcher_;
  kube::Store<Queue> store_;
  QueueController controller_;
};

TEST(QueueController, NamesWhatIsWrongWithTheParents) {
  Queues queues;
  queues.Put("fine", json::object());
  queues.Put("orphan", {{"parent", "nobody"}});
  queues.Put("x", {{"parent", "y"}});
  queues.Put("y", {{"parent", "x"}});
  queues.Settle();
  EXPECT_EQ(queues.Condition("fine", "Ready"), "True Ready");
  EXPECT_EQ(queues.Condition("orphan", "Ready"), "False ParentMissing");
  EXPECT_EQ(queues.Condition("x", "Ready"), "False ParentCycle");
  queues.Put("nobody", json::object());
  queues.Settle();
  EXPECT_EQ(queues.Condition("orphan", "Ready"), "True Ready");
}

TEST(QueueController, TellsWhenTheClusterHasLessThanIsGuaranteed) {
  Queues queues;
  queues.feed().PutNode("n1", {.gpus = 8, .product = "H100"});
  const json quota = {{"quotas", {{{"product", "H100"}, {"guaranteed", 8}}}}};
  queues.Put("a", quota);
  queues.Settle();
  EXPECT_EQ(queues.Condition("a", "Overcommitted"), "False GuaranteesCovered");
  queues.Put("b", quota);
  queues.Settle();
  EXPECT_EQ(queues.Condition("a", "Overcommitted"), "True GuaranteesExceedCluster");
  EXPECT_EQ(queues.Condition("b", "Overcommitted"), "True GuaranteesExceedCluster");
  queues.feed().PutNode("n2", {.gpus = 8, .product = "H100"});
  queues.controller().OnChange();
  queues.Settle();
  EXPECT_EQ(queues.Condition("a", "Overcommitted"), "False GuaranteesCovered");
}

TEST(QueueController, AQueueMadeAnewGetsAStatusOfItsOwn) {
  Queues queues;
  queues.Put("a", json::object());
  queues.Settle();
  ASSERT_EQ(queues.Condition("a", "Ready"), "True Ready");
  queues.Remove("a");
  queues.Put("a", json::object());  // before anybody looked
  ASSERT_EQ(queues.Condition("a", "Ready"), "absent");
  queues.Settle();
  EXPECT_EQ(queues.Condition("a", "Ready"), "True Ready");
  queues.Remove("a");
  queues.Settle();
  queues.Put("a", json::object());
  queues.Settle();
  EXPECT_EQ(queues.Condition("a", "Ready"), "True Ready");
}

TEST(QueueController, SumsUpWhatEachQueueHoldsAndWhatWaitsInIt) {
  Queues queues;
  queues.Put("a", {{"quotas", {{{"product", "H100"}, {"guaranteed", 8}}}}});
  queues.Put("b", json::object());
  for (const char* uid : {"g1", "g2", "g3"}) {
    queues.feed()->ledger().PutGang({.uid = uid,
                                     .queue = uid == std::string("g3") ? "b" : "a",
                                     .product = "H100",
                                     .gpus_per_block = 8,
                                     .blocks = {{0, "n1", 1}}});
  }
  queues.dispatcher().Enqueue({.queued = {.uid = "w", .queue = "b", .gpus = 4}});
  queues.Settle();
  EXPECT_EQ(queues.Status("a")["used"], 16);
  EXPECT_EQ(queues.Status("a")["borrowed"], 8);
  EXPECT_EQ(queues.Status("a")["pending"]["jobs"], 0);
  EXPECT_EQ(queues.Status("b")["used"], 8);
  EXPECT_EQ(queues.Status("b")["pending"], json({{"jobs", 1}, {"gpus", 4}}));
}

TEST(QueueController, WritesOnlyWhatChangedAndAgainWhatFailed) {
  Queues queues;
  queues.server().InjectFault({.verb = "patch", .plural = "queues", .http_code = 500});
  queues.Put("a", json::object());
  queues.Settle();
  EXPECT_EQ(queues.Condition("a", "Ready"), "True Ready") << "the second attempt";
  const int writes = queues.Writes();
  queues.controller().OnChange();
  queues.Settle();
  EXPECT_EQ(queues.Writes(), writes);
}

}  // namespace
}  // namespace asterism::operators
