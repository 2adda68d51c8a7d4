// Against a real API server (test/rig/up): set ASTERISM_RIG_KUBECONFIG to an admin's kubeconfig,
// and ASTERISM_RIG_NAME (rig.env does) for the tests that restart the API server.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
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
#include "test/kube/tcp_proxy.h"
#include "test/source_tree.h"

namespace asterism::kube {
namespace {

using nlohmann::json;

std::string ConfigMap(const std::string& name, const std::string& value) {
  return json{{"metadata", {{"name", name}}}, {"data", {{"value", value}}}}.dump();
}

std::string SmallPod(const std::string& name) {
  return json{{"metadata", {{"name", name}, {"labels", {{"asterism.dev/job", "kube-rig"}}}}},
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
    config_ = *config;
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

  // An informer of the namespace's pods over `client`, on the executor.
  std::unique_ptr<Informer<Pod>> Follow(HttpApiClient& client, WatcherTuning tuning) {
    std::unique_ptr<Informer<Pod>> pods;
    OnExecutor([&] {
      pods = std::make_unique<Informer<Pod>>(client, *executor_, clock_, base::Rng(2), kPods,
                                             WatchOptions{namespace_, "", ""}, DecodePod,
                                             InformerEvents<Pod>{}, tuning);
      pods->Start();
    });
    return pods;
  }
  bool Sees(const Informer<Pod>& pods, const std::string& name, absl::Duration limit) {
    return Eventually([&] { return pods.Find(namespace_ + "/" + name) != nullptr; }, limit);
  }
  absl::Status CreatePod(const std::string& name) {
    return Call([&](ReplyCallback done) {
             client_->Create(kPods, namespace_, SmallPod(name), {}, Lane::kWrite, std::move(done));
           })
        .reply.status();
  }

  base::SystemClock clock_;
  ApiConfig config_;
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
      EXPECT_EQ(pod->meta.Label("asterism.dev/job"), "kube-rig");
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
    pods =
        std::make_unique<Informer<Pod>>(*client_, *executor_, clock_, base::Rng(2), kPods,
                                        WatchOptions{namespace_, "asterism.dev/job=kube-rig", ""},
                                        DecodePod, InformerEvents<Pod>{}, tuning);
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

TEST_F(RigTest, InformerSurvivesEarlyEndsCutsAndSilence) {
  const size_t colon = config_.server.rfind(':');
  TcpProxy proxy(std::stoi(config_.server.substr(colon + 1)));
  CurlOptions options = CurlOptions::From(config_);
  options.server = fmt::format("https://127.0.0.1:{}", proxy.port());
  CurlHttpClient http(options);
  auto client = std::make_unique<HttpApiClient>(*executor_, base::Rng(3), http, config_,
                                                HttpApiClientOptions());
  WatcherTuning tuning;
  tuning.timeout_min = tuning.timeout_max = absl::Seconds(1);
  tuning.silence_max = absl::Seconds(3);
  auto pods = Follow(*client, tuning);
  ASSERT_TRUE(CreatePod("a").ok());
  EXPECT_TRUE(Sees(*pods, "a", absl::Seconds(10)));
  EXPECT_TRUE(Eventually([&] { return pods->stats().watches >= 4; }));  // ended, opened again
  ASSERT_TRUE(CreatePod("b").ok());
  EXPECT_TRUE(Sees(*pods, "b", absl::Seconds(10)));
  proxy.Cut();
  ASSERT_TRUE(CreatePod("c").ok());
  EXPECT_TRUE(Sees(*pods, "c", absl::Seconds(10)));
  proxy.Swallow(true);
  ASSERT_TRUE(CreatePod("d").ok());
  EXPECT_TRUE(Eventually([&] { return pods->stats().silent >= 1; }));
  EXPECT_FALSE(Sees(*pods, "d", absl::ZeroDuration()));
  proxy.Swallow(false);
  proxy.Cut();  // bytes are missing in what was open
  EXPECT_TRUE(Sees(*pods, "d", absl::Seconds(40)));
  OnExecutor([&] {
    EXPECT_EQ(pods->store().size(), 4u);
    pods.reset();
    client.reset();
  });
}

TEST_F(RigTest, SurvivesARestartOfTheApiServer) {
  const char* rig = std::getenv("ASTERISM_RIG_NAME");
  if (rig == nullptr) {
    GTEST_SKIP() << "ASTERISM_RIG_NAME is not set";
  }
  auto pods = Follow(*client_, {});
  ASSERT_TRUE(CreatePod("before").ok());
  ASSERT_TRUE(Sees(*pods, "before", absl::Seconds(10)));
  const std::string command = fmt::format("{}/test/rig/apiserver restart --name {} > /dev/null",
                                          asterism::test_paths::SourceTree(), rig);
  absl::Notification restarted;
  // Creates go on all the while; each must end in one answer, and an unknown outcome is settled by
  // creating again under the same name.
  std::atomic<int> open{0};
  std::atomic<int> created{0};
  std::function<void(int)> create = [&](int i) {
    client_->Create(kPods, namespace_, SmallPod(fmt::format("p{}", i)), {}, Lane::kWrite,
                    [&, i](const absl::StatusOr<Reply>& reply) {
                      if (reply.ok() || absl::IsAlreadyExists(reply.status())) {
                        ++created;
                        --open;
                        return;
                      }
                      executor_->PostAfter(absl::Milliseconds(200), [&, i] { create(i); });
                    });
  };
  constexpr int kCreates = 300;
  OnExecutor([&] {
    for (int i = 0; i < kCreates; ++i) {
      ++open;
      executor_->PostAfter(absl::Milliseconds(10 * i), [&, i] { create(i); });
    }
  });
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(Eventually([&] { return open == 0; }, absl::Seconds(60)));
  EXPECT_EQ(created, kCreates);
  EXPECT_TRUE(Eventually([&] { return pods->store().size() == kCreates + 1; }, absl::Seconds(60)));
  OnExecutor([&] { pods.reset(); });
}

TEST_F(RigTest, ARefusedTokenIsReadAgain) {
  ASSERT_TRUE(Call([&](ReplyCallback done) {
                client_->Create({"", "v1", "serviceaccounts", "ServiceAccount"}, namespace_,
                                R"({"metadata":{"name":"robot"}})", {}, Lane::kWrite,
                                std::move(done));
              }).ok());
  const auto made = Call([&](ReplyCallback done) {
    client_->Create({"", "v1", "serviceaccounts/robot/token", "TokenRequest"}, namespace_,
                    R"({"spec":{"expirationSeconds":600}})", {}, Lane::kWrite, std::move(done));
  });
  ASSERT_TRUE(made.ok()) << made.reply.status();
  const std::string path = ::testing::TempDir() + "/" + namespace_ + "-token";
  std::ofstream(path) << "expired";
  ApiConfig config = config_;
  config.credentials = FileCredentials(clock_, path, "");
  auto client = std::make_unique<HttpApiClient>(*executor_, base::Rng(3), *http_, config,
                                                HttpApiClientOptions());
  const auto get = [&] {
    return Call([&](ReplyCallback done) { client->GetPath("/api", std::move(done)); });
  };
  EXPECT_TRUE(absl::IsUnauthenticated(get().reply.status()));
  std::ofstream(path) << "expired too";
  EXPECT_TRUE(absl::IsUnauthenticated(get().reply.status()));
  std::ofstream(path) << json::parse(made.reply->body)["status"]["token"].get<std::string>();
  const auto read = get();
  EXPECT_TRUE(read.ok()) << read.reply.status();
  std::remove(path.c_str());
  OnExecutor([&] { client.reset(); });
}

TEST_F(RigTest, FairnessMayThrottleButLosesNothing) {
  const std::string user = fmt::format("system:serviceaccount:{}:robot", namespace_);
  const ResourceType levels{"flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations",
                            "PriorityLevelConfiguration", false};
  const ResourceType schemas{"flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema",
                             false};
  const ResourceType bindings{"rbac.authorization.k8s.io", "v1", "clusterrolebindings",
                              "ClusterRoleBinding", false};
  const auto create = [&](const ResourceType& type, const std::string& in, const json& body) {
    const auto result = Call([&](ReplyCallback done) {
      client_->Create(type, in, body.dump(), {}, Lane::kWrite, std::move(done));
    });
    EXPECT_TRUE(result.ok()) << result.reply.status();
    return result;
  };
  create({"", "v1", "serviceaccounts", "ServiceAccount"}, namespace_,
         {{"metadata", {{"name", "robot"}}}});
  create(
      bindings, "",
      {{"metadata", {{"name", namespace_}}},
       {"roleRef",
        {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", "admin"}}},
       {"subjects", {{{"kind", "ServiceAccount"}, {"name", "robot"}, {"namespace", namespace_}}}}});
  create(levels, "",
         {{"metadata", {{"name", namespace_}}},
          {"spec",
           {{"type", "Limited"},
            {"limited",
             {{"nominalConcurrencyShares", 1},
              {"borrowingLimitPercent", 0},
              {"limitResponse", {{"type", "Reject"}}}}}}}});
  create(schemas, "",
         {{"metadata", {{"name", namespace_}}},
          {"spec",
           {{"priorityLevelConfiguration", {{"name", namespace_}}},
            {"matchingPrecedence", 50},
            {"rules",
             {{{"subjects",
                {{{"kind", "ServiceAccount"},
                  {"serviceAccount", {{"name", "robot"}, {"namespace", namespace_}}}}}},
               {"resourceRules",
                {{{"verbs", {"*"}},
                  {"apiGroups", {"*"}},
                  {"resources", {"*"}},
                  {"namespaces", {"*"}}}}}}}}}}});
  const auto made = create({"", "v1", "serviceaccounts/robot/token", "TokenRequest"}, namespace_,
                           {{"spec", {{"expirationSeconds", 600}}}});
  Credentials credentials;
  credentials.bearer_token = json::parse(made.reply->body)["status"]["token"];
  ApiConfig config = config_;
  config.credentials = FixedCredentials(credentials);
  CurlHttpClient http(CurlOptions::From(config));
  auto client = std::make_unique<HttpApiClient>(*executor_, base::Rng(3), http, config,
                                                HttpApiClientOptions{.tries_max = 30});
  std::atomic<int> good{0};
  std::atomic<int> bad{0};
  constexpr int kCreates = 600;
  for (int i = 0; i < kCreates; ++i) {
    client->Create(kConfigMaps, namespace_, ConfigMap(fmt::format("m{}", i), "x"), {}, Lane::kWrite,
                   [&](const absl::StatusOr<Reply>& reply) {
                     EXPECT_TRUE(reply.ok()) << reply.status();
                     ++(reply.ok() ? good : bad);
                   });
  }
  EXPECT_TRUE(Eventually([&] { return good + bad == kCreates; }, absl::Minutes(2)));
  EXPECT_EQ(good, kCreates);
  OnExecutor([&] {
    RecordProperty("throttled", static_cast<int>(client->stats().throttled));
    EXPECT_GT(client->stats().throttled, 0u);
    EXPECT_LT(client->stats().in_flight_cap, 256);
    client.reset();
  });
  for (const ResourceType& type : {schemas, levels, bindings}) {
    Call([&](ReplyCallback done) {
      client_->Delete(type, {"", namespace_}, {}, std::move(done));
    }).IgnoreError();
  }
}

TEST_F(RigTest, CreatesPodsFasterThanTheServerTakesThem) {
  std::atomic<int> good{0};
  std::atomic<int> ended{0};
  constexpr int kCreates = 1280;
  const base::SteadyTime begin = clock_.SteadyNow();
  for (int i = 0; i < kCreates; ++i) {
    client_->Create(kPods, namespace_, SmallPod(fmt::format("p{}", i)), {}, Lane::kWrite,
                    [&](const absl::StatusOr<Reply>& reply) {
                      EXPECT_TRUE(reply.ok()) << reply.status();
                      good += reply.ok() ? 1 : 0;
                      ++ended;
                    });
  }
  EXPECT_TRUE(Eventually([&] { return ended == kCreates; }, absl::Minutes(2)));
  EXPECT_EQ(good, kCreates);
  RecordProperty("creates_per_second",
                 static_cast<int>(kCreates / absl::ToDoubleSeconds(clock_.SteadyNow() - begin)));
}

}  // namespace
}  // namespace asterism::kube
