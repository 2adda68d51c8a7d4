#include "operator/gang_dispatcher.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "feed_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::operators {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGpu = "nvidia.com/gpu";

// What a pass told about one gang.
struct Told {
  std::string kind;  // Placed, NotNow, Never, or the reason of a refusal
  std::string text;  // the product, or the message
  bool asked = false;
};

class Dispatch {
 public:
  Dispatch() : dispatcher_(clock_, feed_.feed()) { SetQueues({{.name = "q"}}); }

  void SetQueues(std::vector<scheduler::QuotaQueue> queues) {
    dispatcher_.SetQuota(scheduler::QuotaTree(std::move(queues)));
  }
  scheduler::PlacementRequest Request(const std::string& uid, int64_t pods, int64_t gpus) {
    scheduler::PlacementRequest request;
    request.gang_uid = uid;
    request.pods = pods;
    request.gpu_slot = *feed_->resources().Find(kGpu);
    request.request[request.gpu_slot] = gpus;
    request.request[scheduler::kPodsSlot] = 1;
    return request;
  }
  void Enqueue(const scheduler::PlacementRequest& request,
               const std::optional<TemplateFit>& fit = std::nullopt) {
    requests_[request.gang_uid] = request;
    dispatcher_.Enqueue({.queued = {.uid = request.gang_uid,
                                    .name = "default/" + request.gang_uid,
                                    .queue = "q",
                                    .gpus = request.pods * request.request[request.gpu_slot]},
                         .request = request,
                         .fit = fit});
  }
  // Books what is placed, as the operator does.
  std::map<std::string, Told> Pass() {
    feed_->Refresh();
    std::map<std::string, Told> told;
    dispatcher_.Pass([&](const DispatchResult& result) {
      const std::string uid(result.uid);
      Told& entry = told[uid];
      entry.asked = result.asked;
      if (result.refusal) {
        entry.kind = result.refusal->reason;
        entry.text = result.refusal->message;
      } else if (const auto* later = std::get_if<scheduler::NotNow>(&result.outcome)) {
        entry.kind = "NotNow";
        entry.text = later->message;
      } else if (const auto* never = std::get_if<scheduler::Never>(&result.outcome)) {
        entry.kind = "Never";
        entry.text = never->message;
      } else {
        const auto& placed = std::get<scheduler::Placed>(result.outcome);
        entry.kind = "Placed";
        entry.text = placed.product;
        dispatcher_.Remove(uid);
        Book(uid, placed);
      }
    });
    return told;
  }
  void Book(const std::string& uid, const scheduler::Placed& placed) {
    const scheduler::PlacementRequest& request = requests_.at(uid);
    scheduler::Gang gang{.uid = uid,
                         .name = "default/" + uid,
                         .queue = "q",
                         .product = placed.product,
                         .gpus_per_block = request.request[request.gpu_slot],
                         .gpu_slot = request.gpu_slot,
                         .request = request.request};
    for (size_t pod = 0; pod < placed.nodes.size(); ++pod) {
      gang.blocks.push_back(
          {static_cast<int64_t>(pod), feed_->ledger().cluster().node_name(placed.nodes[pod]), 1});
    }
    feed_->ledger().PutGang(gang);
  }

  TestFeed& feed() { return feed_; }
  GangDispatcher& dispatcher() { return dispatcher_; }

 private:
  base::SimClock clock_;
  TestFeed feed_;
  GangDispatcher dispatcher_;
  std::map<std::string, scheduler::PlacementRequest> requests_;
};

TEST(GangDispatcherQuota, AJobThatStatesNoProductGetsOneThatItsQueueAllows) {
  Dispatch dispatch;
  dispatch.feed().PutNode("n1", {.product = "A100"});
  dispatch.feed().PutNode("n2", {.product = "H100"});
  dispatch.SetQueues({{.name = "q", .limits = {{"H100", 100}, {"*", 0}}}});
  dispatch.Enqueue(dispatch.Request("g", 1, 8));
  const auto told = dispatch.Pass();
  EXPECT_EQ(told.at("g").kind, "Placed");
  EXPECT_EQ(told.at("g").text, "H100");
}

TEST(GangDispatcherQuota, AFullProductLeavesTheOthersToTry) {
  Dispatch dispatch;
  dispatch.feed().PutNode("n1", {.product = "A100"});
  dispatch.feed().PutNode("n2", {.product = "H100"});
  dispatch.SetQueues({{.name = "q", .limits = {{"A100", 4}, {"H100", 8}}}});
  scheduler::PlacementRequest request = dispatch.Request("g", 1, 8);
  request.products = {"A100", "H100"};
  dispatch.Enqueue(request);
  EXPECT_EQ(dispatch.Pass().at("g").text, "H100");

  request.gang_uid = "h";
  dispatch.Enqueue(request);
  const Told told = dispatch.Pass().at("h");
  EXPECT_EQ(told.kind, "QuotaExceeded");
  EXPECT_THAT(told.text, HasSubstr("A100"));
  EXPECT_FALSE(told.asked);
}

TEST(GangDispatcherQuota, NodesWithoutAProductCountUnderTheRest) {
  Dispatch dispatch;
  dispatch.feed().PutNode("n1", {});
  dispatch.SetQueues({{.name = "q", .limits = {{"H100", 100}, {"*", 0}}}});
  dispatch.Enqueue(dispatch.Request("g", 1, 8));
  EXPECT_EQ(dispatch.Pass().at("g").kind, "QuotaExceeded");
  dispatch.SetQueues({{.name = "q", .limits = {{"H100", 0}, {"*", 8}}}});
  EXPECT_EQ(dispatch.Pass().at("g").kind, "Placed");
}

TEST(GangDispatcherQuota, WhatTheQuotaLeavesOutIsTold) {
  Dispatch dispatch;
  dispatch.feed().PutNode("n1", {.product = "A100"});
  dispatch.feed().PutNode("n2", {.product = "H100"});
  dispatch.feed().PutPod("p", {.node = "n1", .requests = {{kGpu, 8}}});
  dispatch.SetQueues({{.name = "q", .limits = {{"H100", 4}}}});
  dispatch.Enqueue(dispatch.Request("g", 1, 8));
  const Told told = dispatch.Pass().at("g");
  EXPECT_EQ(told.kind, "NotNow");
  EXPECT_THAT(told.text, HasSubstr("(queue q has 0 of 4 GPUs of H100 in use, 8 more do not fit"));
}

TEST(GangDispatcherQuota, NeverIsNotSaidForAProductThatTheQuotaHidesForNow) {
  Dispatch dispatch;
  dispatch.feed().PutNode("n1", {.gpus = 4, .product = "A100"});
  dispatch.feed().PutNode("n2", {.gpus = 8, .product = "H100"});
  dispatch.SetQueues({{.name = "q", .limits = {{"H100", 4}}}});
  dispatch.Enqueue(dispatch.Request("g", 1, 8));
  EXPECT_EQ(dispatch.Pass().at("g").kind, "QuotaExceeded");
}

TEST(GangDispatcherQuota, AnEmptyClusterIsNotAQuestionOfQuota) {
  Dispatch dispatch;
  dispatch.SetQueues({{.name = "q", .limits = {{"H100", 100}, {"*", 0}}}});
  dispatch.Enqueue(dispatch.Request("g", 1, 8));
  EXPECT_EQ(dispatch.Pass().at("g").kind, "Never");
  dispatch.SetQueues({{.name = "q", .stopped = true}});
  EXPECT_EQ(dispatch.Pass().at("g").kind, "QueueStopped");
}

TEST(GangDispatcherClasses, FollowATemplateThroughChangesOfTheClasses) {
  Dispatch dispatch;
  dispatch.feed().PutNode("n1", {.labels = {{"pool", "a"}}});
  dispatch.feed().PutNode("n2", {.labels = {{"pool", "b"}}});
  TemplateFit only_b;
  only_b.node_selector["pool"] = "b";
  TemplateFit only_c;
  only_c.node_selector["pool"] = "c";
  dispatch.Enqueue(dispatch.Request("b1", 1, 8), only_b);
  dispatch.Enqueue(dispatch.Request("c1", 1, 8), only_c);
  dispatch.Enqueue(dispatch.Request("c2", 1, 8), only_c);
  auto told = dispatch.Pass();
  EXPECT_EQ(told.at("b1").kind, "Placed");
  EXPECT_EQ(told.at("c1").kind, "Never");
  dispatch.feed().PutNode("n1", {.labels = {{"pool", "c"}}});
  told = dispatch.Pass();
  EXPECT_EQ(told.at("c1").kind, "Placed");
  EXPECT_EQ(told.at("c2").kind, "NotNow");
}

TEST(GangDispatcherPass, DoesNotAskAgainWhileNothingCameFree) {
  Dispatch dispatch;
  dispatch.feed().PutNode("n1", {});
  dispatch.feed().PutNode("n2", {});
  dispatch.feed().PutPod("p", {.node = "n1", .requests = {{kGpu, 4}}});
  dispatch.Enqueue(dispatch.Request("g", 2, 8));
  EXPECT_TRUE(dispatch.Pass().at("g").asked);
  Told told = dispatch.Pass().at("g");
  EXPECT_FALSE(told.asked);
  EXPECT_EQ(told.kind, "NotNow");
  EXPECT_THAT(told.text, HasSubstr("needs"));

  dispatch.Enqueue(dispatch.Request("g", 2, 8));
  EXPECT_FALSE(dispatch.Pass().at("g").asked) << "the same question";
  dispatch.Enqueue(dispatch.Request("g", 3, 8));
  EXPECT_TRUE(dispatch.Pass().at("g").asked) << "another question";
  dispatch.Enqueue(dispatch.Request("g", 2, 8));
  EXPECT_TRUE(dispatch.Pass().at("g").asked);

  dispatch.feed().RemovePod("p");
  EXPECT_EQ(dispatch.Pass().at("g").kind, "Placed");
}

TEST(GangDispatcherPass, DoesNotAskWhatAllFreeGpusTogetherCannotHold) {
  Dispatch dispatch;
  for (const char* name : {"n1", "n2", "n3"}) {
    dispatch.feed().PutNode(name, {});
    dispatch.feed().PutPod(std::string("p-") + name, {.node = name, .requests = {{kGpu, 8}}});
  }
  dispatch.Enqueue(dispatch.Request("g", 2, 8));
  EXPECT_TRUE(dispatch.Pass().at("g").asked);
  dispatch.feed().RemovePod("p-n1");
  EXPECT_FALSE(dispatch.Pass().at("g").asked);
  dispatch.feed().RemovePod("p-n2");
  EXPECT_EQ(dispatch.Pass().at("g").kind, "Placed");
}

TEST(GangDispatcherPass, CountsWhatWaitsByQueue) {
  Dispatch dispatch;
  dispatch.Enqueue(dispatch.Request("a", 2, 8));
  dispatch.Enqueue(dispatch.Request("b", 1, 4));
  const auto pending = dispatch.dispatcher().PendingByQueue();
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending.at("q").jobs, 2);
  EXPECT_EQ(pending.at("q").gpus, 20);
}

// The shortcut changes no verdict: beside each pass, a dispatcher that remembers nothing is asked.
TEST(GangDispatcherProperty, APassDecidesAsOneThatAsksForEveryGang) {
  int skipped = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    Dispatch dispatch;
    Dispatch fresh;  // the same events, but every gang is enqueued anew before a pass
    std::map<std::string, scheduler::PlacementRequest> waiting;
    const auto both = [&](const auto& act) {
      act(dispatch);
      act(fresh);
    };
    const std::vector<scheduler::QuotaQueue> queues = {
        {.name = "q", .limits = {{"H100", static_cast<int64_t>(rng.Below(40))}}}};
    both([&](Dispatch& of) { of.SetQueues(queues); });
    for (int step = 0; step < 60; ++step) {
      const std::string node = "n" + std::to_string(rng.Below(5));
      const std::string pod = "p" + std::to_string(rng.Below(6));
      const uint64_t kind = rng.Below(10);
      const auto amount = static_cast<int64_t>(rng.Below(9));
      const bool coin = rng.Chance(0.5);
      if (kind < 2) {
        const TestNode wanted{.gpus = 4 + amount / 2,
                              .product = coin ? "H100" : "A100",
                              .labels = {{"leaf", std::to_string(rng.Below(2))}},
                              .ready = !rng.Chance(0.1)};
        both([&](Dispatch& of) { of.feed().PutNode(node, wanted); });
      } else if (kind < 4) {
        both([&](Dispatch& of) {
          of.feed().PutPod(pod, {.node = node, .requests = {{kGpu, amount}}});
        });
      } else if (kind < 5) {
        if (dispatch.feed().pods().contains(pod)) {
          both([&](Dispatch& of) { of.feed().RemovePod(pod); });
        }
      } else if (kind < 6) {
        const std::string uid = "g" + std::to_string(rng.Below(12));
        both([&](Dispatch& of) { of.feed()->ledger().RemoveGang(uid); });
      } else if (kind < 8) {
        const std::string uid = "g" + std::to_string(rng.Below(12));
        if (dispatch.feed()->ledger().FindGang(uid) == nullptr) {
          scheduler::PlacementRequest request =
              dispatch.Request(uid, 1 + static_cast<int64_t>(rng.Below(4)), 1 + amount);
          if (rng.Chance(0.4)) {
            request.products = {coin ? "H100" : "A100"};
          }
          if (rng.Chance(0.3)) {
            request.rules = {{1, 2, rng.Chance(0.5)}};
          }
          waiting[uid] = request;
          dispatch.Enqueue(request);
        }
      } else {
        for (const auto& [uid, request] : waiting) {
          fresh.dispatcher().Remove(uid);
          fresh.Enqueue(request);
        }
        const auto told = dispatch.Pass();
        const auto expected = fresh.Pass();
        ASSERT_EQ(told.size(), expected.size());
        for (const auto& [uid, entry] : expected) {
          ASSERT_EQ(told.at(uid).kind, entry.kind) << uid << ": " << entry.text;
          ASSERT_TRUE(entry.kind != "Placed" || told.at(uid).text == entry.text) << uid;
          skipped += entry.asked && !told.at(uid).asked ? 1 : 0;
          if (entry.kind == "Placed") {
            waiting.erase(uid);
          }
        }
        ASSERT_EQ(dispatch.feed()->ledger().Digest(), fresh.feed()->ledger().Digest());
      }
    }
  }
  EXPECT_GT(skipped, 500);
}

}  // namespace
}  // namespace asterism::operators
