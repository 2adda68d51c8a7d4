#include "kube/http_api_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

using nlohmann::json;

HttpResult Answer(int code, std::string body = "{}",
                  std::string content_type = "application/json") {
  HttpResult result;
  result.code = code;
  result.body = std::move(body);
  result.content_type = std::move(content_type);
  return result;
}

HttpResult Lost(bool maybe_sent) {
  HttpResult result;
  result.error = absl::UnavailableError("connection broken");
  result.maybe_sent = maybe_sent;
  return result;
}

// Answers with what was prepared, then with 200; or keeps requests until they are answered by hand.
class FakeHttpClient final : public HttpClient {
 public:
  explicit FakeHttpClient(base::Executor& executor) : executor_(executor) {}

  void Send(HttpRequest request, HttpCallback done) override {
    requests.push_back(std::move(request));
    if (manual) {
      open.push_back(std::move(done));
      return;
    }
    HttpResult result = Answer(200);
    if (!answers.empty()) {
      result = std::move(answers.front());
      answers.pop_front();
    }
    executor_.PostAfter(absl::Milliseconds(1),
                        [done = std::move(done), result = std::move(result)]() mutable {
                          done(std::move(result));
                        });
  }
  std::unique_ptr<HttpStream> Open(HttpRequest request,
                                   std::shared_ptr<HttpStreamHandler> handler) override {
    requests.push_back(std::move(request));
    stream = std::move(handler);
    return std::make_unique<HttpStream>();
  }

  std::vector<HttpRequest> requests;
  std::deque<HttpResult> answers;
  bool manual = false;
  std::deque<HttpCallback> open;
  std::shared_ptr<HttpStreamHandler> stream;

 private:
  base::Executor& executor_;
};

class RotatingToken final : public CredentialSource {
 public:
  void Get(CredentialsCallback done) override {
    if (held) {
      waiting.push_back(std::move(done));
      return;
    }
    done(Now());
  }
  void Refuse(const CredentialsPtr&) override { ++version; }

  absl::StatusOr<CredentialsPtr> Now() const {
    Credentials credentials;
    credentials.bearer_token = fmt::format("token-{}", version);
    return std::make_shared<const Credentials>(std::move(credentials));
  }
  void Release(const absl::StatusOr<CredentialsPtr>& answer) {
    held = false;
    for (CredentialsCallback& done : std::exchange(waiting, {})) {
      done(answer);
    }
  }

  int version = 1;
  bool held = false;
  std::vector<CredentialsCallback> waiting;
};

class Events final : public WatchHandler {
 public:
  void OnEvent(WatchEventType type, const RawObject& object) override {
    types.push_back(type);
    bodies.emplace_back(object.bytes);
  }
  void OnBatchEnd() override { ++batches; }
  void OnEnd(absl::Status status) override { ends.push_back(std::move(status)); }

  std::vector<WatchEventType> types;
  std::vector<std::string> bodies;
  int batches = 0;
  std::vector<absl::Status> ends;
};

class HttpApiClientTest : public ::testing::Test {
 protected:
  HttpApiClientTest() {
    ApiConfig config;
    config.server = "https://api";
    config.credentials = token_;
    client_ = std::make_unique<HttpApiClient>(executor_, base::Rng(1), http_, std::move(config),
                                              HttpApiClientOptions());
  }

  ReplyCallback Keep() {
    return [this](absl::StatusOr<Reply> reply) { replies_.push_back(std::move(reply)); };
  }
  void Get(Lane lane = Lane::kWrite) { client_->Get(kPods, {"ns", "p"}, lane, Keep()); }
  void Create(Lane lane = Lane::kWrite) { client_->Create(kPods, "ns", "{}", {}, lane, Keep()); }

  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  std::shared_ptr<RotatingToken> token_ = std::make_shared<RotatingToken>();
  FakeHttpClient http_{executor_};
  base::MetricRegistry registry_;
  RequestMetrics metrics_{clock_, registry_};
  std::unique_ptr<HttpApiClient> client_;
  std::vector<absl::StatusOr<Reply>> replies_;
};

TEST_F(HttpApiClientTest, SaysWhatItMeans) {
  client_->Get(kNodes, {"", "n1"}, Lane::kWrite, Keep());
  client_->Create(kPods, "ns", "{}", {.dry_run = true}, Lane::kWrite, Keep());
  client_->Update(kLeases, {"ns", "l"}, "{}", Lane::kLease, Keep());
  const ResourceType jobs{"asterism.dev", "v1alpha1", "trainingjobs", "TrainingJob", true, false};
  client_->Patch(jobs, {"ns", "j"}, "{}",
                 {.type = PatchType::kApply, .subresource = "status", .field_manager = "me & you"},
                 Keep());
  client_->Patch(kConfigMaps, {"ns", "c"}, "[]", {.type = PatchType::kJson}, Keep());
  client_->Delete(kPods, {"ns", "p/../x"},
                  {.uid = "u", .grace_period_seconds = 0, .propagation = "Background"}, Keep());
  executor_.RunFor(absl::Seconds(1));
  ASSERT_EQ(http_.requests.size(), 6u);
  EXPECT_EQ(http_.requests[0].target, "/api/v1/nodes/n1");
  EXPECT_EQ(http_.requests[0].accept, "application/vnd.kubernetes.protobuf, application/json");
  EXPECT_EQ(http_.requests[0].credentials->bearer_token, "token-1");
  EXPECT_EQ(http_.requests[1].target, "/api/v1/namespaces/ns/pods?dryRun=All");
  EXPECT_EQ(http_.requests[1].method, "POST");
  EXPECT_EQ(http_.requests[1].content_type, "application/json");
  EXPECT_EQ(http_.requests[2].target, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l");
  EXPECT_EQ(http_.requests[2].method, "PUT");
  EXPECT_EQ(http_.requests[2].timeout, absl::Seconds(5));
  EXPECT_EQ(http_.requests[3].target,
            "/apis/asterism.dev/v1alpha1/namespaces/ns/trainingjobs/j/status"
            "?fieldManager=me%20%26%20you&force=true");
  EXPECT_EQ(http_.requests[3].content_type, "application/apply-patch+yaml");
  EXPECT_EQ(http_.requests[3].accept, "application/json");
  EXPECT_EQ(http_.requests[4].content_type, "application/json-patch+json");
  EXPECT_EQ(http_.requests[5].target, "/api/v1/namespaces/ns/pods/p%2F..%2Fx");
  EXPECT_EQ(json::parse(http_.requests[5].body),
            json::parse(R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,)"
                        R"("preconditions":{"uid":"u"},"propagationPolicy":"Background"})"));
  EXPECT_EQ(replies_.size(), 6u);
}

// Rows of the table of error rules: how often a read, a create and a lease write are sent.
TEST_F(HttpApiClientTest, RetriesWhatIsSafe) {
  struct Row {
    HttpResult result;
    size_t reads;
    size_t writes;
    size_t leases;
    absl::StatusCode code;
  };
  const std::vector<Row> rows = {
      {Answer(400), 1, 1, 1, absl::StatusCode::kInvalidArgument},
      {Answer(401), 2, 2, 2, absl::StatusCode::kUnauthenticated},
      {Answer(403), 1, 1, 1, absl::StatusCode::kPermissionDenied},
      {Answer(404), 1, 1, 1, absl::StatusCode::kNotFound},
      {Answer(409), 1, 1, 1, absl::StatusCode::kAborted},
      {Answer(410), 1, 1, 1, absl::StatusCode::kOutOfRange},
      {Answer(413), 1, 1, 1, absl::StatusCode::kInvalidArgument},
      {Answer(422), 1, 1, 1, absl::StatusCode::kInvalidArgument},
      {Answer(429), 10, 10, 1, absl::StatusCode::kResourceExhausted},
      {Answer(500), 4, 1, 1, absl::StatusCode::kInternal},
      {Answer(503), 10, 10, 1, absl::StatusCode::kUnavailable},
      {Answer(504), 4, 1, 1, absl::StatusCode::kDeadlineExceeded},
      {Lost(/*maybe_sent=*/false), 10, 10, 1, absl::StatusCode::kUnavailable},
      {Lost(/*maybe_sent=*/true), 4, 1, 1, absl::StatusCode::kUnavailable},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{} {}", row.result.code, row.result.maybe_sent));
    for (const auto& [start, sent] : std::vector<std::pair<std::function<void()>, size_t>>{
             {[&] { Get(); }, row.reads},
             {[&] { Create(); }, row.writes},
             {[&] { Create(Lane::kLease); }, row.leases}}) {
      http_.answers.assign(20, row.result);
      http_.requests.clear();
      replies_.clear();
      start();
      executor_.RunFor(absl::Minutes(5));
      EXPECT_EQ(http_.requests.size(), sent);
      ASSERT_EQ(replies_.size(), 1u);
      EXPECT_EQ(replies_[0].status().code(), row.code) << replies_[0].status();
      EXPECT_EQ(GetErrorDetails(replies_[0].status()).http_code, row.result.code);
    }
  }
}

TEST_F(HttpApiClientTest, WaitsForRetryAfterAndSucceeds) {
  HttpResult busy = Answer(429, "Too many requests, please try again later.", "text/plain");
  busy.retry_after = absl::Seconds(3);
  http_.answers.push_back(busy);
  Create();
  executor_.RunFor(absl::Milliseconds(3000));
  EXPECT_EQ(http_.requests.size(), 1u);
  executor_.RunFor(absl::Milliseconds(500));
  EXPECT_EQ(http_.requests.size(), 2u);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(replies_[0].ok());
}

TEST_F(HttpApiClientTest, ReadsTheTokenAgainAfter401) {
  http_.answers.push_back(Answer(401));
  Create();
  executor_.RunFor(absl::Seconds(1));
  ASSERT_EQ(http_.requests.size(), 2u);
  EXPECT_EQ(http_.requests[1].credentials->bearer_token, "token-2");
  EXPECT_TRUE(replies_[0].ok());
}

TEST_F(HttpApiClientTest, FallsBackToJsonOnceAndRemembers) {
  http_.answers.push_back(Answer(406));
  Get();
  executor_.RunFor(absl::Seconds(1));
  Get();
  executor_.RunFor(absl::Seconds(1));
  ASSERT_EQ(http_.requests.size(), 3u);
  EXPECT_EQ(http_.requests[1].accept, "application/json");
  EXPECT_EQ(http_.requests[2].accept, "application/json");
  client_->Get(kNodes, {"", "n"}, Lane::kWrite, Keep());  // another kind is not concerned
  EXPECT_NE(http_.requests[3].accept, "application/json");
}

TEST_F(HttpApiClientTest, ADeletionOfWhatIsGoneIsDone) {
  http_.answers.push_back(Answer(404, R"({"kind":"Status","reason":"NotFound","code":404})"));
  client_->Delete(kPods, {"ns", "p"}, {}, Keep());
  executor_.RunFor(absl::Seconds(1));
  ASSERT_TRUE(replies_[0].ok());
  EXPECT_EQ(replies_[0]->code, 404);
}

TEST_F(HttpApiClientTest, ErrorsCarryReasonAndCauses) {
  http_.answers.push_back(Answer(
      422,
      R"({"kind":"Status","status":"Failure","message":"Pod \"x\" is invalid","reason":"Invalid",)"
      R"("details":{"causes":[{"reason":"FieldValueRequired","message":"Required value",)"
      R"("field":"spec.containers"}],"retryAfterSeconds":2},"code":422})"));
  Create();
  executor_.RunFor(absl::Seconds(1));
  const absl::Status status = replies_[0].status();
  EXPECT_EQ(std::string(status.message()), "Pod \"x\" is invalid");
  const ErrorDetails details = GetErrorDetails(status);
  EXPECT_EQ(details.http_code, 422);
  EXPECT_EQ(details.reason, "Invalid");
  EXPECT_EQ(details.retry_after, absl::Seconds(2));
  ASSERT_EQ(details.causes.size(), 1u);
  EXPECT_EQ(details.causes[0].field, "spec.containers");
}

TEST_F(HttpApiClientTest, KeepsTheInFlightCapHalvesItOn429AndRaisesItSlowly) {
  http_.manual = true;
  for (int i = 0; i < 600; ++i) {
    Create();
  }
  EXPECT_EQ(http_.open.size(), 256u);
  EXPECT_EQ(client_->stats().waiting, 344u);
  const auto answer = [&](int code, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      HttpCallback done = std::move(http_.open.front());
      http_.open.pop_front();
      done(Answer(code));
      executor_.RunUntilIdle();
    }
  };
  answer(429, 10);  // one overload, one cut
  EXPECT_EQ(client_->stats().in_flight_cap, 128);
  answer(200, 118);
  EXPECT_EQ(client_->stats().in_flight, 128 + 118 / 16);
  answer(200, 64);
  EXPECT_EQ(client_->stats().in_flight_cap, 128 + (118 + 64) / 16);
  http_.manual = false;
}

TEST_F(HttpApiClientTest, LeasesDoNotWaitBehindWrites) {
  http_.manual = true;
  for (int i = 0; i < 300; ++i) {
    Create();
  }
  Create(Lane::kLease);
  EXPECT_EQ(http_.requests.back().lane, Lane::kLease);
  EXPECT_EQ(http_.open.size(), 257u);
}

TEST_F(HttpApiClientTest, NothingIsCalledAfterItsEnd) {
  Create();
  http_.answers.push_back(Answer(429));
  Create();
  client_.reset();
  executor_.RunFor(absl::Minutes(1));
  EXPECT_TRUE(replies_.empty());
}

// What waits in the queue, or for another try, must not go out under another leader.
TEST_F(HttpApiClientTest, WritesThatWaitAreNotSentOnceTheyMayNot) {
  bool may_send = true;
  client_->set_may_send([&] { return may_send; });
  http_.manual = true;
  for (int i = 0; i < 300; ++i) {
    Create();
  }
  ASSERT_EQ(http_.open.size(), 256u);
  may_send = false;
  for (int i = 0; i < 2; ++i) {
    std::exchange(http_.open[i], nullptr)(Answer(i == 0 ? 429 : 200));
  }
  while (http_.open.size() > 2) {
    std::exchange(http_.open.back(), nullptr)(Answer(200));
    http_.open.pop_back();
  }
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(http_.requests.size(), 256u);
  ASSERT_EQ(replies_.size(), 300u);
  EXPECT_EQ(std::count_if(replies_.begin(), replies_.end(),
                          [](const auto& reply) { return absl::IsCancelled(reply.status()); }),
            45);
  EXPECT_EQ(client_->stats().in_flight, 0);
  EXPECT_EQ(client_->stats().waiting, 0u);

  Get();
  Create(Lane::kLease);
  EXPECT_EQ(http_.requests.size(), 258u) << "reads and the Lease are exempt";
  may_send = true;
  Create();
  EXPECT_EQ(http_.requests.size(), 259u);
}

TEST_F(HttpApiClientTest, WaitsForCredentialsWithoutHoldingUpTheExecutor) {
  const auto events = std::make_shared<Events>();
  token_->held = true;
  for (int i = 0; i < 300; ++i) {
    Create();
  }
  Create(Lane::kLease);
  client_->List(kPods, {}, Keep());
  auto stream = client_->Watch(kPods, {}, events);
  auto unwanted = client_->Watch(kNodes, {}, events);
  unwanted.reset();
  executor_.RunFor(absl::Seconds(10));
  EXPECT_TRUE(http_.requests.empty());
  EXPECT_EQ(token_->waiting.size(), 256u + 4u) << "the rest waits in the client";
  token_->Release(token_->Now());
  executor_.RunFor(absl::Seconds(10));
  EXPECT_EQ(http_.requests.size(), 300u + 3u) << "all but the watch that nobody wants";
  EXPECT_EQ(replies_.size(), 302u);

  token_->held = true;
  replies_.clear();
  for (int i = 0; i < 300; ++i) {
    Create();
  }
  client_->List(kPods, {}, Keep());
  stream = client_->Watch(kPods, {}, events);
  token_->Release(absl::UnauthenticatedError("no token"));
  executor_.RunFor(absl::Seconds(10));
  EXPECT_EQ(replies_.size(), 301u);
  EXPECT_TRUE(absl::IsUnauthenticated(replies_[0].status()));
  EXPECT_EQ(client_->stats().in_flight, 0);
  ASSERT_EQ(events->ends.size(), 1u);
  EXPECT_TRUE(absl::IsUnauthenticated(events->ends[0]));
}

TEST_F(HttpApiClientTest, EachTryIsCountedAndTimed) {
  HttpApiClientOptions options;
  options.metrics = &metrics_;
  ApiConfig config;
  config.credentials = token_;
  client_ = std::make_unique<HttpApiClient>(executor_, base::Rng(1), http_, config, options);
  http_.answers.push_back(Answer(503));
  Create();
  executor_.RunFor(absl::Seconds(1));
  http_.answers.push_back(Lost(/*maybe_sent=*/true));
  Create();
  client_->List(kNodes, {}, Keep());
  executor_.RunFor(absl::Seconds(1));
  const std::string page = registry_.Expose();
  for (const char* line :
       {R"(asterism_kube_requests_total{verb="create",resource="pods",code="503"} 1)",
        R"(asterism_kube_requests_total{verb="create",resource="pods",code="200"} 1)",
        R"(asterism_kube_requests_total{verb="create",resource="pods",code="error"} 1)",
        R"(asterism_kube_requests_total{verb="list",resource="nodes",code="200"} 1)",
        R"(asterism_kube_request_seconds_count{verb="create"} 3)"}) {
    EXPECT_THAT(page, ::testing::HasSubstr(line));
  }
}

// The transport and the source of credentials live longer than the executor.
TEST_F(HttpApiClientTest, AfterItsEndTheExecutorIsLeftAlone) {
  http_.manual = true;
  Create();
  client_->List(kPods, {}, Keep());
  token_->held = true;
  Create();
  client_.reset();
  ASSERT_TRUE(executor_.empty());
  for (HttpCallback& done : http_.open) {
    done(Answer(401));
  }
  token_->Release(token_->Now());
  EXPECT_TRUE(executor_.empty());
  EXPECT_EQ(http_.requests.size(), 2u);
}

TEST_F(HttpApiClientTest, WatchesInFramesOfAnyCut) {
  const auto events = std::make_shared<Events>();
  auto stream = client_->Watch(
      kServices, {.namespace_name = "ns", .label_selector = "a=b", .resource_version = "5"},
      events);
  EXPECT_EQ(http_.requests[0].target,
            "/api/v1/namespaces/ns/services?watch=true&allowWatchBookmarks=true&timeoutSeconds=300"
            "&labelSelector=a%3Db&resourceVersion=5");
  EXPECT_EQ(http_.requests[0].lane, Lane::kWatch);
  http_.stream->OnBytes("application/json", "{\"type\":\"ADDED\",\"object\":{\"a\"");
  EXPECT_TRUE(events->types.empty());
  http_.stream->OnBytes("application/json", ":1}}\n\n{\"type\":\"DELETED\",\"object\":{}}\n");
  EXPECT_EQ(events->types, (std::vector{WatchEventType::kAdded, WatchEventType::kDeleted}));
  EXPECT_EQ(events->bodies[0], "{\"a\":1}");
  HttpResult end = Answer(200);
  http_.stream->OnEnd(end);
  ASSERT_EQ(events->ends.size(), 1u);
  EXPECT_TRUE(events->ends[0].ok());
}

TEST_F(HttpApiClientTest, ABrokenFrameEndsTheWatchWithAnError) {
  const auto events = std::make_shared<Events>();
  auto stream = client_->Watch(kPods, {}, events);
  http_.stream->OnBytes("application/json", "{\"type\":\"NEW\",\"object\":{}}\n");
  http_.stream->OnBytes("application/json", "{\"type\":\"ADDED\",\"object\":{}}\n");
  http_.stream->OnEnd(Answer(200));
  EXPECT_TRUE(events->types.empty());
  ASSERT_EQ(events->ends.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(events->ends[0]));
}

TEST_F(HttpApiClientTest, ARefusedWatchTellsWhy) {
  const auto events = std::make_shared<Events>();
  auto stream = client_->Watch(kPods, {.send_initial_events = true}, events);
  http_.stream->OnEnd(Answer(410, "gone", "text/plain"));
  EXPECT_EQ(events->ends[0].code(), absl::StatusCode::kOutOfRange);
  stream = client_->Watch(kPods, {}, events);
  http_.stream->OnEnd(Answer(401));
  EXPECT_EQ(token_->version, 2);
}

TEST_F(HttpApiClientTest, ListsWithSelectorsAndPages) {
  client_->List(kPods, {.field_selector = "spec.nodeName=n", .limit = 500}, Keep());
  client_->List(kPods, {.resource_version = "9"}, Keep());
  client_->List(kPods, {.resource_version = "9", .continue_token = "t", .limit = 5}, Keep());
  executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(http_.requests[0].target, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&limit=500");
  EXPECT_EQ(http_.requests[1].target,
            "/api/v1/pods?resourceVersion=9&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(http_.requests[2].target, "/api/v1/pods?limit=5&continue=t");
  http_.answers.push_back(Answer(401));
  client_->List(kPods, {}, Keep());
  executor_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(replies_.back().ok());
}

}  // namespace
}  // namespace asterism::kube
