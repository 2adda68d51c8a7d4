// Against a real API server (test/rig/up): set ASTERISM_RIG_KUBECONFIG to an admin's kubeconfig.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "base/executor.h"
#include "fmt/format.h"
#include "kube/curl_http_client.h"
#include "kube/decoder.h"
#include "kube/http_api_client.h"
#include "kube/informer.h"
#include "kube/kubeconfig.h"
#include "kube/leader_elector.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

using nlohmann::json;

std::string ConfigMap(const std::string& name, const std::string& value) {
  return json{{"metadata", {{"name", name}}}, {"data", {{"value", value}}}}.dump();
}

std::string SmallPod(const std::string& name) {
  return json{{"metadata", {{"name", name}, {"labels", {{"app", "kube-rig"}}}}},
              {"spec",
               {{"schedulerName", "nobody"},
                {"containers",
                 {{{"name", "main"},
                   {"image", "none"},
                   {"resources", {{"limits", {{"cpu", "250m"}, {"memory", "1Gi"}}}}}}}}}}}
      .dump();
}

class RigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("ASTERISM_RIG_KUBECONFIG");
    if (path == nullptr) {
      GTEST_SKIP() << "ASTERISM_RIG_KUBECONFIG is not set";
    }
    KubeconfigOptions options;
    options.path = path;
    absl::StatusOr<ApiConfig> config = LoadApiConfig(clock_, options);
    ASSERT_TRUE(config.ok()) << config.status();
    http_ = std::make_unique<CurlHttpClient>(CurlOptions::From(*config));
    namespace_ = "kube-rig-" + base::Rng(base::Rng::SystemSeed()).Name(6);
    executor_ = std::make_unique<base::ThreadExecutor>("rig-test");
    client_ = std::make_unique<HttpApiClient>(*executor_, base::Rng(1), *http_, *config,
                                              HttpApiClientOptions());
    ASSERT_TRUE(Call([&](ReplyCallback done) {
                  client_->Create(kNamespaces, "",
                                  json{{"metadata", {{"name", namespace_}}}}.dump(), {},
                                  Lane::kWrite, std::move(done));
                }).ok());
  }

  void TearDown() override {
    if (client_ != nullptr) {
      Call([&](ReplyCallback done) {
        client_->Delete(kNamespaces, {"", namespace_}, {}, std::move(done));
      }).IgnoreError();
      executor_->Stop();
      client_.reset();
    }
  }

  // Waits for the callback of one call.
  struct Result {
    absl::StatusOr<Reply> reply;
    bool ok() const { return reply.ok(); }
    void IgnoreError() const {}
  };
  template <typename Start>
  Result Call(Start start) {
    absl::Notification done;
    Result result{absl::UnknownError("not called")};
    start([&](absl::StatusOr<Reply> reply) {
      result.reply = std::move(reply);
      done.Notify();
    });
    EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
    return result;
  }

  void OnExecutor(std::function<void()> work) {
    absl::Notification done;
    executor_->Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }

  // Polls `condition` on the executor.
  bool Eventually(std::function<bool()> condition, absl::Duration limit = absl::Seconds(30)) {
    const base::SteadyTime end = clock_.SteadyNow() + limit;
    while (clock_.SteadyNow() < end) {
      bool holds = false;
      absl::Notification turn;
      executor_->PostAfter(absl::Milliseconds(20), [&] {
        holds = condition();
        turn.Notify();
      });
      turn.WaitForNotification();
      if (holds) {
        return true;
      }
    }
    return false;
  }

  base::SystemClock clock_;
  std::unique_ptr<base::ThreadExecutor> executor_;
  std::unique_ptr<CurlHttpClient> http_;
  std::unique_ptr<HttpApiClient> client_;
  std::string namespace_;
};

TEST_F(RigTest, CreatesReadsPatchesAndDeletes) {
  const ObjectName name{namespace_, "settings"};
  auto created = Call([&](ReplyCallback done) {
    client_->Create(kConfigMaps, namespace_, ConfigMap("settings", "one"), {}, Lane::kWrite,
                    std::move(done));
  });
  ASSERT_TRUE(created.ok()) << created.reply.status();
  auto again = Call([&](ReplyCallback done) {
    client_->Create(kConfigMaps, namespace_, ConfigMap("settings", "two"), {}, Lane::kWrite,
                    std::move(done));
  });
  EXPECT_TRUE(absl::IsAlreadyExists(again.reply.status())) << again.reply.status();
  EXPECT_EQ(GetErrorDetails(again.reply.status()).http_code, 409);

  auto patched = Call([&](ReplyCallback done) {
    client_->Patch(kConfigMaps, name, R"({"data":{"value":"three"}})", {}, std::move(done));
  });
  ASSERT_TRUE(patched.ok()) << patched.reply.status();
  auto applied = Call([&](ReplyCallback done) {
    client_->Patch(kConfigMaps, name,
                   R"({"apiVersion":"v1","kind":"ConfigMap","data":{"other":"four"}})",
                   {.type = PatchType::kApply, .field_manager = "kube-rig-test"}, std::move(done));
  });
  ASSERT_TRUE(applied.ok()) << applied.reply.status();
  auto read = Call(
      [&](ReplyCallback done) { client_->Get(kConfigMaps, name, Lane::kWrite, std::move(done)); });
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(json::parse(read.reply->body)["data"], (json{{"value", "three"}, {"other", "four"}}));

  auto stale = Call([&](ReplyCallback done) {
    client_->Update(kConfigMaps, name,
                    R"({"metadata":{"name":"settings","resourceVersion":"1"},"data":{}})",
                    Lane::kWrite, std::move(done));
  });
  EXPECT_TRUE(absl::IsAborted(stale.reply.status())) << stale.reply.status();
  auto wrong_uid = Call([&](ReplyCallback done) {
    client_->Delete(kConfigMaps, name, {.uid = "11111111-2222-3333-4444-555555555555"},
                    std::move(done));
  });
  EXPECT_TRUE(absl::IsAborted(wrong_uid.reply.status())) << wrong_uid.reply.status();
  for (int i = 0; i < 2; ++i) {  // the second time it is gone already
    auto deleted =
        Call([&](ReplyCallback done) { client_->Delete(kConfigMaps, name, {}, std::move(done)); });
    EXPECT_TRUE(deleted.ok()) << deleted.reply.status();
  }
  auto gone = Call(
      [&](ReplyCallback done) { client_->Get(kConfigMaps, name, Lane::kWrite, std::move(done)); });
  EXPECT_TRUE(absl::IsNotFound(gone.reply.status()));
}

TEST_F(RigTest, InvalidObjectNamesTheField) {
  auto created = Call([&](ReplyCallback done) {
    client_->Create(kPods, namespace_, R"({"metadata":{"name":"x"},"spec":{}})", {}, Lane::kWrite,
                    std::move(done));
  });
  ASSERT_TRUE(absl::IsInvalidArgument(created.reply.status())) << created.reply.status();
  const ErrorDetails details = GetErrorDetails(created.reply.status());
  EXPECT_EQ(details.http_code, 422);
  EXPECT_EQ(details.reason, "Invalid");
  ASSERT_FALSE(details.causes.empty());
  EXPECT_EQ(details.causes[0].field, "spec.containers");
}

TEST_F(RigTest, InformerFollowsPods) {
  for (const bool watch_list : {true, false}) {
    SCOPED_TRACE(watch_list);
    int changes = 0;
    std::unique_ptr<Informer<Pod>> pods;
    WatcherTuning tuning;
    tuning.watch_list = watch_list;
    OnExecutor([&] {
      pods = std::make_unique<Informer<Pod>>(
          *client_, *executor_, clock_, base::Rng(2), kPods, WatchOptions{namespace_, "", ""},
          DecodePod, InformerEvents<Pod>{[&](const Change<Pod>&) { ++changes; }, {}}, tuning);
      pods->Start();
    });
    ASSERT_TRUE(Eventually([&] { return pods->synced(); }));
    const std::string name = watch_list ? "a" : "b";
    ASSERT_TRUE(Call([&](ReplyCallback done) {
                  client_->Create(kPods, namespace_, SmallPod(name), {}, Lane::kWrite,
                                  std::move(done));
                }).ok());
    ASSERT_TRUE(Eventually([&] { return pods->Find(namespace_ + "/" + name) != nullptr; }));
    OnExecutor([&] {
      const Shared<Pod> pod = pods->Find(namespace_ + "/" + name);
      EXPECT_EQ(pod->meta.Label("app"), "kube-rig");
      EXPECT_EQ(pod->scheduler_name, "nobody");
      EXPECT_EQ(pod->phase, "Pending");
      EXPECT_EQ(pod->requests, (ResourceAmounts{{"cpu", 250}, {"memory", int64_t{1} << 30}}));
    });
    ASSERT_TRUE(
        Call([&](ReplyCallback done) {
          client_->Delete(kPods, {namespace_, name}, {.grace_period_seconds = 0}, std::move(done));
        }).ok());
    EXPECT_TRUE(Eventually([&] { return pods->Find(namespace_ + "/" + name) == nullptr; }));
    OnExecutor([&] {
      EXPECT_EQ(pods->stats().errors, 0u);
      pods.reset();
    });
  }
}

TEST_F(RigTest, InformerReadsAListInPages) {
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(Call([&](ReplyCallback done) {
                  client_->Create(kPods, namespace_, SmallPod(fmt::format("p{}", i)), {},
                                  Lane::kWrite, std::move(done));
                }).ok());
  }
  std::unique_ptr<Informer<Pod>> pods;
  WatcherTuning tuning;
  tuning.watch_list = false;
  tuning.page_size = 2;
  OnExecutor([&] {
    pods = std::make_unique<Informer<Pod>>(*client_, *executor_, clock_, base::Rng(2), kPods,
                                           WatchOptions{namespace_, "app=kube-rig", ""}, DecodePod,
                                           InformerEvents<Pod>{}, tuning);
    pods->Start();
  });
  EXPECT_TRUE(Eventually([&] { return pods->synced() && pods->store().size() == 7; }));
  OnExecutor([&] { pods.reset(); });
}

TEST_F(RigTest, LeaderElectionElectsOneAndHandsOver) {
  const auto options = [&](const std::string& identity) {
    return LeaderElectorOptions{namespace_,       "election",       identity,
                                absl::Seconds(3), absl::Seconds(2), absl::Seconds(1)};
  };
  std::unique_ptr<LeaderElector> first;
  std::unique_ptr<LeaderElector> second;
  OnExecutor([&] {
    first = std::make_unique<LeaderElector>(clock_, *executor_, base::Rng(1), *client_,
                                            options("first"), LeaderEvents{});
    second = std::make_unique<LeaderElector>(clock_, *executor_, base::Rng(2), *client_,
                                             options("second"), LeaderEvents{});
    first->Start();
  });
  ASSERT_TRUE(Eventually([&] { return first->IsLeader(); }));
  OnExecutor([&] { second->Start(); });
  ASSERT_TRUE(Eventually([&] { return second->leader() == "first"; }));
  bool released = false;
  OnExecutor([&] { first->Stop([&] { released = true; }); });
  EXPECT_TRUE(Eventually([&] { return released && second->IsLeader(); }, absl::Seconds(5)));
  OnExecutor([&] {
    EXPECT_FALSE(first->IsLeader());
    first.reset();
    second.reset();
  });
}

}  // namespace
}  // namespace asterism::kube
