#include "kube/informer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kube/api_error.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

using nlohmann::json;
using testing::FakeApiServer;
using testing::FakeApiServerOptions;
using testing::Fault;

json PodJson(const std::string& name, int round) {
  return {{"metadata",
           {{"namespace", "default"},
            {"name", name},
            {"labels", {{"asterism.dev/round", fmt::to_string(round)}}}}},
          {"spec", {{"nodeName", "n1"}}}};
}

// A server, an informer, and a model that is made of the informer's events alone.
class World {
 public:
  World(FakeApiServerOptions options, WatcherTuning tuning, WatchOptions watch, uint64_t seed)
      : executor_(clock_),
        server_(clock_, executor_, options),
        informer_(server_, executor_, clock_, base::Rng(seed), kPods, std::move(watch), DecodePod,
                  InformerEvents<Pod>{[this](const Change<Pod>& change) { OnChange(change); },
                                      [this] { ++synced_; }},
                  tuning) {}

  void OnChange(const Change<Pod>& change) {
    ASSERT_TRUE(change.before != nullptr || change.after != nullptr);
    const std::string key = (change.after ? change.after : change.before)->meta.Key();
    // What the event says was there before is what earlier events left.
    const auto known = model_.find(key);
    ASSERT_EQ(known != model_.end(), change.before != nullptr) << key;
    if (known != model_.end()) {
      ASSERT_EQ(known->second, change.before->meta.resource_version) << key;
    }
    if (change.after == nullptr) {
      model_.erase(key);
    } else {
      if (change.before != nullptr) {
        ASSERT_NE(change.before->meta.resource_version, change.after->meta.resource_version);
      }
      model_[key] = change.after->meta.resource_version;
    }
    ++changes_;
  }

  std::map<std::string, std::string> ServerState() const {
    std::map<std::string, std::string> state;
    for (const auto& object : server_.All(kPods)) {
      const json& metadata = (*object)["metadata"];
      state[fmt::format("{}/{}", metadata["namespace"].get<std::string>(),
                        metadata["name"].get<std::string>())] = metadata["resourceVersion"];
    }
    return state;
  }
  std::map<std::string, std::string> StoreState() const {
    std::map<std::string, std::string> state;
    informer_.store().ForEach(
        [&](const Shared<Pod>& pod) { state[pod->meta.Key()] = pod->meta.resource_version; });
    return state;
  }

  base::SimClock clock_;
  base::SimExecutor executor_;
  FakeApiServer server_;
  std::map<std::string, std::string> model_;
  int changes_ = 0;
  int synced_ = 0;
  Informer<Pod> informer_;
};

WatcherTuning Classic() {
  WatcherTuning tuning;
  tuning.watch_list = false;
  return tuning;
}

TEST(Informer, ListsThenFollows) {
  for (const bool watch_list : {true, false}) {
    SCOPED_TRACE(watch_list);
    World world({}, watch_list ? WatcherTuning() : Classic(), {}, 1);
    world.server_.Put(kPods, PodJson("a", 1));
    world.informer_.Start();
    EXPECT_FALSE(world.informer_.synced());
    world.executor_.RunFor(absl::Seconds(1));
    EXPECT_TRUE(world.informer_.synced());
    EXPECT_EQ(world.synced_, 1);
    EXPECT_EQ(world.StoreState(), world.ServerState());
    world.server_.Put(kPods, PodJson("b", 1));
    world.server_.Put(kPods, PodJson("a", 2));
    world.server_.Remove(kPods, {"default", "b"});
    world.executor_.RunFor(absl::Seconds(1));
    EXPECT_EQ(world.StoreState(), world.ServerState());
    EXPECT_EQ(world.informer_.Find("default/a")->meta.Label("asterism.dev/round"), "2");
    EXPECT_EQ(world.changes_, 4);
  }
}

TEST(Informer, FallsBackToAListWhereWatchListIsUnknown) {
  World world({.watch_list = false}, {}, {}, 1);
  world.server_.Put(kPods, PodJson("a", 1));
  world.informer_.Start();
  world.executor_.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(world.informer_.synced());
  EXPECT_EQ(world.informer_.stats().errors, 0u);
  EXPECT_EQ(world.server_.requests().at("list pods"), 1);
}

TEST(Informer, ReadsAListPageByPage) {
  WatcherTuning tuning = Classic();
  tuning.page_size = 3;
  World world({}, tuning, {}, 1);
  for (int i = 0; i < 10; ++i) {
    world.server_.Put(kPods, PodJson(fmt::format("p{}", i), 1));
  }
  world.informer_.Start();
  world.executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(world.informer_.store().size(), 10u);
  EXPECT_EQ(world.server_.requests().at("list pods"), 4);
}

TEST(Informer, AsksForEverythingWhenAPageHasExpired) {
  WatcherTuning tuning = Classic();
  tuning.page_size = 3;
  World world({}, tuning, {}, 1);
  for (int i = 0; i < 10; ++i) {
    world.server_.Put(kPods, PodJson(fmt::format("p{}", i), 1));
  }
  world.informer_.Start();
  world.executor_.RunFor(absl::Milliseconds(3));  // the first page is here
  world.server_.Put(kPods, PodJson("late", 1));
  world.server_.Compact();
  world.executor_.RunFor(absl::Seconds(5));
  EXPECT_EQ(world.StoreState(), world.ServerState());
  EXPECT_EQ(world.informer_.stats().expired, 1u);
}

TEST(Informer, ReportsWhatWentMissingDuringAnOutage) {
  World world({}, {}, {}, 1);
  world.server_.Put(kPods, PodJson("stays", 1));
  world.server_.Put(kPods, PodJson("goes", 1));
  world.informer_.Start();
  world.executor_.RunFor(absl::Seconds(1));
  world.server_.SetDown(true);
  world.executor_.RunFor(absl::Seconds(10));
  world.server_.Remove(kPods, {"default", "goes"});
  world.server_.Put(kPods, PodJson("comes", 1));
  world.server_.Compact();
  world.server_.SetDown(false);
  world.executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(world.StoreState(), world.ServerState());
  EXPECT_EQ(world.model_, world.ServerState());
  EXPECT_EQ(world.changes_, 4);  // "stays" was not reported again
  EXPECT_GE(world.informer_.stats().expired, 1u);
}

TEST(Informer, TheSameNameWithAnotherUidIsADeletionAndANewObject) {
  World world({}, {}, {}, 1);
  world.server_.Put(kPods, PodJson("a", 1));
  world.informer_.Start();
  world.executor_.RunFor(absl::Seconds(1));
  world.server_.CutAllWatches(absl::UnavailableError("cut"));
  world.server_.Remove(kPods, {"default", "a"});
  world.server_.Put(kPods, PodJson("a", 2));
  world.server_.Compact();
  world.executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(world.model_, world.ServerState());
  EXPECT_EQ(world.changes_, 3);
}

TEST(Informer, SelectorsDecideWhatIsSeen) {
  World world({}, {}, {.label_selector = "asterism.dev/round=1"}, 1);
  world.server_.Put(kPods, PodJson("a", 1));
  world.server_.Put(kPods, PodJson("b", 2));
  world.informer_.Start();
  world.executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(world.informer_.store().size(), 1u);
  world.server_.Put(kPods, PodJson("a", 2));  // leaves the selector
  world.server_.Put(kPods, PodJson("b", 1));  // enters it
  world.executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(world.informer_.Find("default/a"), nullptr);
  EXPECT_NE(world.informer_.Find("default/b"), nullptr);
}

TEST(Informer, GivesUpASilentWatch) {
  World world({.bookmark_period = absl::ZeroDuration()}, {}, {}, 1);
  world.informer_.Start();
  world.executor_.RunFor(absl::Seconds(1));
  world.server_.HoldWatches(true);
  world.server_.Put(kPods, PodJson("a", 1));
  world.executor_.RunFor(absl::Seconds(140));
  EXPECT_EQ(world.informer_.Find("default/a"), nullptr);
  EXPECT_GT(world.informer_.SilentFor(), absl::Seconds(139));
  world.executor_.RunFor(absl::Seconds(10));
  world.server_.HoldWatches(false);
  world.executor_.RunFor(absl::Seconds(10));
  EXPECT_NE(world.informer_.Find("default/a"), nullptr);
  EXPECT_EQ(world.informer_.stats().silent, 1u);
}

TEST(Informer, BookmarksMoveTheVersionAndKeepTheWatchAlive) {
  World world({}, {}, {}, 1);
  world.informer_.Start();
  world.executor_.RunFor(absl::Seconds(1));
  world.server_.SkipVersions(1000);
  world.executor_.RunFor(absl::Minutes(20));
  EXPECT_EQ(world.informer_.resource_version(), fmt::to_string(world.server_.version()));
  EXPECT_EQ(world.informer_.stats().silent, 0u);
  EXPECT_EQ(world.informer_.stats().errors, 0u);
  EXPECT_EQ(world.informer_.stats().lists, 1u);
  EXPECT_GE(world.informer_.stats().watches, 3u);  // each lives 5 to 10 minutes
}

TEST(Informer, BacksOffAndHonoursRetryAfter) {
  World world({}, {}, {}, 1);
  world.server_.InjectFault(
      {.verb = "watch", .count = 1, .http_code = 429, .retry_after = absl::Seconds(7)});
  world.informer_.Start();
  world.executor_.RunFor(absl::Milliseconds(6990));
  EXPECT_EQ(world.server_.requests().at("watch pods"), 1);
  world.executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(world.server_.requests().at("watch pods"), 2);
  EXPECT_TRUE(world.informer_.synced());
}

TEST(Informer, DoublesTheBackOffUpToItsCap) {
  World world({}, {}, {}, 1);
  world.server_.InjectFault({.verb = "watch", .count = 1000, .http_code = 503});
  world.server_.InjectFault({.verb = "list", .count = 1000, .http_code = 503});
  world.informer_.Start();
  world.executor_.RunFor(absl::Minutes(10));
  // 0.8 + 1.6 + 3.2 + 6.4 + 12.8 + 25.6, then 30 s, each times 1 to 2.
  const uint64_t errors = world.informer_.stats().errors;
  EXPECT_GE(errors, 12u);
  EXPECT_LE(errors, 26u);
}

TEST(Informer, AsksAServerThatIsAwayEveryFewSeconds) {
  World world({}, {}, {}, 1);
  world.server_.SetDown(true);
  world.informer_.Start();
  world.executor_.RunFor(absl::Minutes(10));
  const uint64_t errors = world.informer_.stats().errors;  // 4 to 8 s apart
  EXPECT_GE(errors, 75u);
  EXPECT_LE(errors, 160u);
}

// Several restarts of the server in a short time must not add up to a long blindness.
TEST(Informer, WhatHasWorkedStartsTheBackOffAnew) {
  World world({}, {}, {}, 1);
  world.informer_.Start();
  world.executor_.RunFor(absl::Seconds(10));
  for (int restart = 0; restart < 8; ++restart) {
    world.server_.SetDown(true);
    world.executor_.RunFor(absl::Seconds(3));
    world.server_.SetDown(false);
    const std::string name = "after-" + std::to_string(restart);
    world.server_.Put(kPods, PodJson(name, 1));
    world.executor_.RunFor(absl::Seconds(7));
    EXPECT_NE(world.informer_.Find("default/" + name), nullptr) << "restart " << restart;
  }
}

TEST(Informer, AnUnreadableObjectKeepsItsOldCopy) {
  base::SimClock clock;
  base::SimExecutor executor(clock);
  FakeApiServer server(clock, executor, {});
  server.Put(kPods, PodJson("a", 1));
  Informer<Pod> informer(server, executor, clock, base::Rng(1), kPods, {},
                         [](const RawObject& raw) -> absl::StatusOr<Pod> {
                           absl::StatusOr<Pod> pod = DecodePod(raw);
                           if (pod.ok() && pod->meta.Label("asterism.dev/round") == "2") {
                             return absl::InvalidArgumentError("field spec is not readable");
                           }
                           return pod;
                         },
                         {});
  informer.Start();
  executor.RunFor(absl::Seconds(1));
  server.Put(kPods, PodJson("a", 2));
  server.Put(kPods, PodJson("b", 1));
  executor.RunFor(absl::Seconds(1));
  EXPECT_EQ(informer.Find("default/a")->meta.Label("asterism.dev/round"), "1");
  EXPECT_NE(informer.Find("default/b"), nullptr);
  // A relist with the unreadable object in it does not delete the copy.
  server.CutAllWatches(MakeApiError({.http_code = 410, .reason = "Expired"}, "too old"));
  executor.RunFor(absl::Seconds(5));
  EXPECT_NE(informer.Find("default/a"), nullptr);
  EXPECT_EQ(informer.stats().unreadable, 2u);
}

TEST(Informer, StopsInsideItsOwnCallback) {
  base::SimClock clock;
  base::SimExecutor executor(clock);
  FakeApiServer server(clock, executor, {});
  std::unique_ptr<Informer<Pod>> informer;
  int changes = 0;
  informer = std::make_unique<Informer<Pod>>(server, executor, clock, base::Rng(1), kPods,
                                             WatchOptions{}, DecodePod,
                                             InformerEvents<Pod>{[&](const Change<Pod>&) {
                                                                   ++changes;
                                                                   informer->Stop();
                                                                 },
                                                                 {}});
  informer->Start();
  executor.RunFor(absl::Seconds(1));
  server.Put(kPods, PodJson("a", 1));
  server.Put(kPods, PodJson("b", 1));
  executor.RunFor(absl::Minutes(1));
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(server.open_watches(), 0u);
  informer.reset();
  executor.RunFor(absl::Minutes(30));
}

// Any interleaving of changes and faults: once it is quiet, the copy equals the server, and the
// events alone tell the same story (OnChange checks each step).
TEST(Informer, EqualsTheServerAfterAnyInterleaving) {
  EXPECT_TRUE(rc::check("informer == server", [] {
    FakeApiServerOptions options;
    options.watch_list = *rc::gen::arbitrary<bool>();
    options.history_max = *rc::gen::element<size_t>(5, 100'000);
    options.bookmark_period = *rc::gen::element(absl::ZeroDuration(), absl::Seconds(5));
    WatcherTuning tuning;
    tuning.watch_list = *rc::gen::arbitrary<bool>();
    tuning.page_size = *rc::gen::inRange(1, 5);
    tuning.silence_max = absl::Seconds(30);
    World world(options, tuning, {}, *rc::gen::arbitrary<uint64_t>());
    world.informer_.Start();
    const int steps = *rc::gen::inRange(0, 40);
    for (int step = 0; step < steps; ++step) {
      const std::string name = fmt::format("p{}", *rc::gen::inRange(0, 6));
      switch (*rc::gen::inRange(0, 12)) {
        case 0:
        case 1:
        case 2:
          world.server_.Put(kPods, PodJson(name, step));
          break;
        case 3:
          world.server_.Remove(kPods, {"default", name});
          break;
        case 4:
          world.server_.CutAllWatches(*rc::gen::element(
              absl::OkStatus(), absl::UnavailableError("broken"),
              MakeApiError({.http_code = 410, .reason = "Expired"}, "too old"),
              MakeApiError({.http_code = 500, .reason = "InternalError"}, "etcd")));
          break;
        case 5:
          world.server_.Compact();
          break;
        case 6:
          world.server_.InjectFault({.verb = *rc::gen::element<std::string>("list", "watch"),
                                     .count = *rc::gen::inRange(1, 4),
                                     .http_code = *rc::gen::element(0, 410, 429, 500, 503, 504)});
          break;
        case 7:
          world.server_.SetDown(*rc::gen::arbitrary<bool>());
          break;
        case 8:
          world.server_.HoldWatches(*rc::gen::arbitrary<bool>());
          break;
        case 9:
          world.server_.SkipVersions(7);
          break;
        default:
          world.executor_.RunFor(absl::Milliseconds(*rc::gen::element(1, 3, 50, 2000, 40'000)));
      }
    }
    world.server_.SetDown(false);
    world.server_.HoldWatches(false);
    world.server_.ClearFaults();
    world.executor_.RunFor(absl::Minutes(5));
    RC_ASSERT(world.informer_.synced());
    RC_ASSERT(world.synced_ == 1);
    RC_ASSERT(world.StoreState() == world.ServerState());
    RC_ASSERT(world.model_ == world.ServerState());
  }));
}

}  // namespace
}  // namespace asterism::kube
