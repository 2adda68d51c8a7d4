// What callers cannot do to the gRPC service: take all room, have work done in vain, or keep what
// they were given.
#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "controller/access_review.h"
#include "gmock/gmock.h"
#include "grpc_fixture.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/client_callback.h"

namespace asterism::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A Place that is under way.
struct PendingPlace {
  v1::PlaceRequest request;
  v1::PlaceResponse response;
  grpc::ClientContext context;
  grpc::Status status;
  absl::Notification done;
};

class GrpcLimitsTest : public GrpcFixture {
 protected:
  std::unique_ptr<PendingPlace> Begin(const std::string& token, absl::Duration deadline) {
    auto call = std::make_unique<PendingPlace>();
    call->request.set_training_job_json(JobJson(8));
    call->context.AddMetadata("authorization", "Bearer " + token);
    call->context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                     gpr_time_from_millis(absl::ToInt64Milliseconds(deadline), GPR_TIMESPAN)));
    stub_->async()->Place(&call->context, &call->request, &call->response,
                          [&place = *call](const grpc::Status& status) {
                            place.status = status;
                            place.done.Notify();
                          });
    return call;
  }
  grpc::Status PlaceJob(const std::string& job_json, const std::string& token) {
    v1::PlaceRequest request;
    request.set_training_job_json(job_json);
    v1::PlaceResponse response;
    return Call([&](auto* async, auto* context,
                    auto done) { async->Place(context, &request, &response, std::move(done)); },
                {.token = token});
  }
  grpc::Status CallRaw(const std::string& method, const std::string& bytes) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", std::string("Bearer ") + kAda);
    grpc::GenericStub stub(Channel());
    grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    absl::Notification done;
    stub.UnaryCall(&context, "/asterism.v1.Placement/" + method, grpc::StubOptions(), &request,
                   &response, [&](grpc::Status result) {
                     status = std::move(result);
                     done.Notify();
                   });
    EXPECT_TRUE(Eventually([&] { return done.HasBeenNotified(); }));
    return status;
  }
  grpc::Status EndOf(QueueReader& reader) {
    EXPECT_TRUE(Eventually([&] { return reader.done(); }));
    return reader.status();
  }
};

// A stream of reflection that asks nothing.
class SilentStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit SilentStream(grpc::GenericStub& stub) {
    stub.PrepareBidiStreamingCall(&context_,
                                  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                  grpc::StubOptions(), this);
    StartRead(&message_);
    AddHold();
    StartCall();
  }
  void End() {
    context_.TryCancel();
    RemoveHold();
    done_.WaitForNotification();
  }

 private:
  void OnDone(const grpc::Status& /*status*/) override { done_.Notify(); }

  grpc::ClientContext context_;
  grpc::ByteBuffer message_;
  absl::Notification done_;
};

int ThreadsOfThisProcess() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) {
      return std::stoi(line.substr(8));
    }
  }
  return 0;
}

TEST_F(GrpcLimitsTest, StreamsOfReflectionTakeNoThreadsWithoutBound) {
  Serve();
  EXPECT_TRUE(PlaceJob(JobJson(8), kAda).ok());
  const int before = ThreadsOfThisProcess();
  grpc::GenericStub stub(Channel());
  std::vector<std::unique_ptr<SilentStream>> streams;
  for (int i = 0; i < 100; ++i) {
    streams.push_back(std::make_unique<SilentStream>(stub));
  }
  PumpFor(absl::Milliseconds(500));
  EXPECT_LE(ThreadsOfThisProcess() - before, kReflectionThreadsMax + 4);
  EXPECT_TRUE(PlaceJob(JobJson(8), kAda).ok());
  for (const auto& stream : streams) {
    stream->End();
  }
}

// The core stands still, as behind a long piece of work.
TEST_F(GrpcLimitsTest, CallsThatEndedKeepTheirRoomUntilTheirWorkIsOver) {
  Serve({.admission = {.calls_max = 4}});
  for (int i = 0; i < 4; ++i) {
    const auto call = Begin(kAda, absl::Milliseconds(50));
    ASSERT_TRUE(call->done.WaitForNotificationWithTimeout(absl::Seconds(10)));
    EXPECT_EQ(call->status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  const auto refused = Begin(kAda, absl::Seconds(10));
  ASSERT_TRUE(refused->done.WaitForNotificationWithTimeout(absl::Seconds(5)));
  EXPECT_EQ(refused->status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << "what was posted for the four is not over";
  EXPECT_TRUE(Eventually([&] { return PlaceJob(JobJson(8), kAda).ok(); }));
}

TEST_F(GrpcLimitsTest, NothingIsDoneForACallThatHasEnded) {
  Serve();
  ControlPlane& plane = *cluster_.leader();
  AccessReview access(cluster_.clock(), cluster_.server(), {});
  base::SimClock clock;
  base::SimExecutor worker(clock);
  CallerTurns turns(worker);
  PlacementDesk desk({cluster_.clock(), core_, turns, cluster_.server(), plane, access});
  base::MetricRegistry registry;
  CallAdmission admission(clock, registry, {});
  auto ada = std::make_shared<Caller>();
  ada->user = "ada";
  auto request = std::make_shared<v1::PlaceRequest>();
  request->set_training_job_json(JobJson(8));
  // Ends before each stage in turn: the review and the reading, the admission, the answer.
  for (int stages = 0; stages <= 3; ++stages) {
    const auto call = *admission.Admit(CallKind::kUnary, 1);
    ASSERT_TRUE(call->BelongTo(ada).ok());
    int answers = 0;
    const int reviews = reviews_.access_reviews();
    desk.Place(call, request, [&](const auto& answer) { answers += answer.ok() ? 1 : 0; });
    for (int stage = 0; stage < 4; ++stage) {
      if (stage == stages) {
        call->Drop();
      }
      core_.Pump();
      cluster_.Run(absl::Milliseconds(50));
      worker.RunUntilIdle();
    }
    EXPECT_EQ(answers, stages >= 3 ? 1 : 0) << stages;
    EXPECT_EQ(reviews_.access_reviews() - reviews, stages == 1 ? 1 : 0) << stages;
    EXPECT_EQ(call.use_count(), 1) << "nobody works for it any more";
  }
}

TEST_F(GrpcLimitsTest, OneCallerCannotTakeAllRoom) {
  Serve({.admission = {.calls_per_caller_max = 2}});
  cluster_.server().InjectFault(
      {.verb = "create", .plural = "subjectaccessreviews", .no_answer = true});
  const auto first = Begin(kAda, absl::Seconds(20));
  const auto second = Begin(kAda, absl::Seconds(20));
  PumpFor(absl::Milliseconds(300));
  const grpc::Status third = PlaceJob(JobJson(8), kAda);
  EXPECT_EQ(third.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(third.error_message(), HasSubstr("2 calls for one caller"));
  EXPECT_TRUE(PlaceJob(JobJson(8), kRoot).ok());
  for (const auto& call : {first.get(), second.get()}) {
    call->context.TryCancel();
    EXPECT_TRUE(Eventually([&] { return call->done.HasBeenNotified(); }));
  }
}

TEST_F(GrpcLimitsTest, RequestsOfOneCallerAreBoundedInBytes) {
  Serve({.admission = {.bytes_per_caller_max = 2000}});
  EXPECT_TRUE(PlaceJob(JobJson(8), kAda).ok());
  const grpc::Status status = PlaceJob(JobJson(8) + std::string(2000, ' '), kAda);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("bytes of requests for one caller"));
}

TEST_F(GrpcLimitsTest, RightsAreLookedAtBeforeTheJobIsRead) {
  Serve();
  const std::string broken = JobJson(8, {{"gpus", "eight"}});
  EXPECT_EQ(PlaceJob(broken, kAda).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(PlaceJob(broken, kBob).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  // Rights in one namespace, and the job in another.
  const std::string twice =
      R"({"kind":"TrainingJob","metadata":{"namespace":"secret","name":"x"},"spec":{"gpus":8},)"
      R"("metadata":{"namespace":"research","name":"x"}})";
  EXPECT_TRUE(PlaceJob(twice, kAda).ok());
  EXPECT_EQ(PlaceJob(twice, kBob).error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

// All scheduling waits while the core is held.
TEST_F(GrpcLimitsTest, ALargeJobDoesNotHoldTheCore) {
  Serve();
  ControlPlane& plane = *cluster_.leader();
  AccessReview access(cluster_.clock(), cluster_.server(), {});
  base::SimClock clock;
  base::SimExecutor worker(clock);
  CallerTurns turns(worker);
  PlacementDesk desk({cluster_.clock(), core_, turns, cluster_.server(), plane, access});
  base::MetricRegistry registry;
  CallAdmission admission(clock, registry, {});
  auto ada = std::make_shared<Caller>();
  ada->user = "ada";
  nlohmann::json env = nlohmann::json::array();
  for (int i = 0; i < 20'000; ++i) {
    env.push_back({{"name", "VARIABLE_" + std::to_string(i)}, {"value", "x"}});
  }
  auto request = std::make_shared<v1::PlaceRequest>();
  request->set_training_job_json(JobJson(8, {{"container", {{"env", env}}}}));
  ASSERT_GT(request->training_job_json().size(), 700'000u);
  const auto call = *admission.Admit(CallKind::kUnary, request->ByteSizeLong());
  ASSERT_TRUE(call->BelongTo(ada).ok());
  int answers = 0;
  absl::Duration of_core;
  absl::Duration of_worker;
  const base::SystemClock time;
  const auto measure = [&](absl::Duration& sum, const std::function<void()>& work) {
    const base::SteadyTime begin = time.SteadyNow();
    work();
    sum += time.SteadyNow() - begin;
  };
  measure(of_worker, [&] {
    desk.Place(call, std::move(request), [&](const auto& answer) { answers += answer.ok(); });
  });
  for (int i = 0; i < 5; ++i) {
    measure(of_core, [&] { core_.Pump(); });
    cluster_.Run(absl::Milliseconds(50));
    measure(of_worker, [&] { worker.RunUntilIdle(); });
  }
  EXPECT_EQ(answers, 1);
  EXPECT_LT(of_core, of_worker / 10) << of_core << " of " << of_worker;
}

TEST_F(GrpcLimitsTest, AJobWithManyRulesAboutNodesIsNotAskedAbout) {
  Serve();
  nlohmann::json tolerations = nlohmann::json::array();
  for (int i = 0; i < 1001; ++i) {
    tolerations.push_back({{"key", "k" + std::to_string(i)}, {"operator", "Exists"}});
  }
  const grpc::Status status =
      PlaceJob(JobJson(8, {{"template", {{"spec", {{"tolerations", tolerations}}}}}}), kAda);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("rules about nodes (selectors, affinities"));
}

TEST_F(GrpcLimitsTest, AllChangesTogetherAddNoMoreThanOneMay) {
  Serve();
  v1::Change more;
  more.mutable_add_nodes()->set_count(2048);
  EXPECT_EQ(WhatIf(8, {more, more}).outcome(), v1::Decision::PLACED);
  WhatIf(8, {more, more, more});
  EXPECT_EQ(last_status().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(last_status().error_message(),
              HasSubstr("changes[2].add_nodes.count: all changes together add 6144 nodes"));
}

TEST_F(GrpcLimitsTest, NamesThatNoObjectHasAreNeitherKeptNorRepeated) {
  Serve();
  const std::string huge(900'000, 'x');
  const auto refused = [](const grpc::Status& status, const std::string& field) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_THAT(status.error_message(), HasSubstr(field));
    EXPECT_LT(status.error_message().size(), 300u);
  };
  for (const auto& [name_space, name] : {std::pair(std::string(15'000, 'x'), std::string("x")),
                                         std::pair(std::string("x"), std::string(15'000, 'x')),
                                         std::pair(std::string("a\nb"), std::string("x"))}) {
    v1::ExplainRequest request;
    request.mutable_job()->set_namespace_(name_space);
    request.mutable_job()->set_name(name);
    v1::ExplainResponse response;
    refused(Call([&](auto* async, auto* context, auto done) {
              async->Explain(context, &request, &response, std::move(done));
            }),
            "job.name");
    v1::Change ended;
    *ended.mutable_remove_job() = request.job();
    WhatIf(8, {ended});
    refused(last_status(), "changes[0].remove_job.name");
  }
  v1::ExplainRequest large;
  large.mutable_job()->set_namespace_(huge);
  v1::ExplainResponse response;
  refused(Call([&](auto* async, auto* context, auto done) {
            async->Explain(context, &large, &response, std::move(done));
          }),
          "the request has 9");
  v1::WatchQueueRequest of_namespace;
  of_namespace.set_namespace_(std::string(1000, 'x'));
  refused(EndOf(*Watch(kAda, of_namespace)), "namespace: has 1000 characters");
  v1::WatchQueueRequest of_queue;
  of_queue.set_queue(std::string(1000, 'x'));
  refused(EndOf(*Watch(kAda, of_queue)), "queue: has 1000 characters");
  v1::Change like;
  like.mutable_add_nodes()->set_count(1);
  like.mutable_add_nodes()->set_like_node(huge);
  WhatIf(8, {like});
  refused(last_status(), "changes[0].add_nodes.like_node");
  like.mutable_add_nodes()->clear_like_node();
  like.mutable_add_nodes()->set_domain(huge);
  WhatIf(8, {like});
  refused(last_status(), "changes[0].add_nodes.domain");
  EXPECT_EQ(reviews_.access_reviews(), 1) << "that of WhatIf's own job";
}

TEST_F(GrpcLimitsTest, OneCallerCannotTakeAllStreams) {
  Serve();
  std::vector<std::unique_ptr<QueueReader>> readers;
  for (int i = 0; i < CallAdmissionOptions().streams_per_caller_max; ++i) {
    readers.push_back(Watch(kAda));
  }
  ASSERT_TRUE(Eventually([&] {
    return std::all_of(readers.begin(), readers.end(),
                       [](const auto& reader) { return !reader->messages().empty(); });
  }));
  const grpc::Status one_more = EndOf(*Watch(kAda));
  EXPECT_EQ(one_more.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(one_more.error_message(), HasSubstr("16 streams for one caller"));
  const auto other = Watch(kRoot);
  EXPECT_TRUE(Eventually([&] { return !other->messages().empty(); }));
  readers.push_back(Watch(kBob));
  for (const auto& reader : readers) {
    reader->Cancel();
    EndOf(*reader);
  }
  other->Cancel();
  EndOf(*other);
}

TEST_F(GrpcLimitsTest, AStreamThatIsNotReadEndsWithItsToken) {
  Serve({.admission = {.streams_max = 1}});
  // More than a connection takes without a reader.
  for (int i = 0; i < 1000; ++i) {
    cluster_.CreateJob("job" + std::to_string(i), 8 * 17);
  }
  cluster_.Run(absl::Seconds(5));
  const auto blocked = Watch(kRoot, {}, /*reads_by_itself=*/false);
  PumpFor(absl::Milliseconds(300));
  EXPECT_EQ(EndOf(*Watch(kAda)).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  reviews_.RemoveToken(kRoot);
  cluster_.Run(absl::Seconds(25));
  std::unique_ptr<QueueReader> next;
  EXPECT_TRUE(Eventually([&] {
    next = Watch(kAda);
    EXPECT_TRUE(Eventually([&] { return next->done() || !next->messages().empty(); }));
    return !next->done();
  })) << "the room is kept for one who is not known any more";
  next->Cancel();
  EndOf(*next);
  blocked->Cancel();
  EndOf(*blocked);
}

TEST_F(GrpcLimitsTest, BytesThatAreNoMessageAreToldSo) {
  Serve();
  for (const char* method : {"Place", "Explain", "WhatIf", "GetLedger", "WatchQueue"}) {
    const grpc::Status status = CallRaw(method, "\xff\xff\xff\xff");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(),
                HasSubstr(std::string("is no asterism.v1.") + method + "Request"));
  }
}

TEST_F(GrpcLimitsTest, ForeignTextsAreEscapedInErrors) {
  Serve();
  v1::GetLedgerRequest request;
  request.add_levels("\x1b[31mred\n");
  v1::GetLedgerResponse response;
  const grpc::Status status = Call([&](auto* async, auto* context, auto done) {
    async->GetLedger(context, &request, &response, std::move(done));
  });
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("\\x1b[31mred\\x0a"), Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace asterism::controller
