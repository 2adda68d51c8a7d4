// The server around the service: certificates, limits, deadlines, health, and who leads.
#include "controller/grpc_server.h"

#include <atomic>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "asterism/v1/agent.grpc.pb.h"
#include "controller/grpc_services.h"
#include "gmock/gmock.h"
#include "grpc_fixture.h"
#include "grpcpp/generic/generic_stub.h"
#include "test/server/test_certificates.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadPem(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Hands out what the test says.
class TestSource final : public server::CertificateSource {
 public:
  explicit TestSource(server::TlsMaterial material) { Set(std::move(material)); }
  std::shared_ptr<const server::TlsMaterial> Current() override {
    absl::MutexLock lock(&mutex_);
    return material_;
  }
  void Set(server::TlsMaterial material) {
    absl::MutexLock lock(&mutex_);
    material_ = std::make_shared<const server::TlsMaterial>(std::move(material));
  }

 private:
  absl::Mutex mutex_;
  std::shared_ptr<const server::TlsMaterial> material_ ABSL_GUARDED_BY(mutex_);
};

class GrpcServerTest : public GrpcFixture {
 protected:
  using Authority = server::testing::TestAuthority;

  ~GrpcServerTest() override { StopServing(); }  // before its source goes

  TestSource* Source(server::TlsMaterial material) {
    source_ = std::make_unique<TestSource>(std::move(material));
    return source_.get();
  }

  static server::TlsMaterial Material(Authority& authority, const std::string& client_authorities) {
    const server::testing::PemFiles files = authority.Issue("localhost");
    return {.certificate = ReadPem(files.certificate_file),
            .key = ReadPem(files.key_file),
            .client_authorities = client_authorities};
  }
  // Of somebody who trusts `server`, with a certificate of `client` where that is not null.
  static std::shared_ptr<grpc::ChannelCredentials> Tls(const Authority& server,
                                                       Authority* client = nullptr,
                                                       const std::string& name = "") {
    grpc::SslCredentialsOptions options{.pem_root_certs = ReadPem(server.ca_file())};
    if (client != nullptr) {
      const server::testing::PemFiles files = client->Issue(name, server::CertificateUse::kClient);
      options.pem_private_key = ReadPem(files.key_file);
      options.pem_cert_chain = ReadPem(files.certificate_file);
    }
    return grpc::SslCredentials(options);
  }
  grpc::Status PlaceOver(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                         const CallOptions& options) {
    const auto stub = v1::Placement::NewStub(Channel(credentials));
    return PlaceWith(*stub, options);
  }
  grpc::Status PlaceWith(v1::Placement::Stub& stub, const CallOptions& options = {}) {
    v1::PlaceRequest request;
    request.set_training_job_json(JobJson(8));
    v1::PlaceResponse response;
    return CallOn(
        stub,
        [&](auto* async, auto* context, auto done) {
          async->Place(context, &request, &response, std::move(done));
        },
        options);
  }
  // SERVING, NOT_SERVING or the error, as grpc.health.v1 says it.
  std::string Health(const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                         grpc::InsecureChannelCredentials()) {
    grpc::ClientContext context;
    const auto channel = Channel(credentials);
    // Field 1 of both messages: the service's name, and the state.
    grpc::GenericStub stub(channel);
    grpc::Slice empty("", 0);
    const grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    absl::Notification done;
    grpc::Status status;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request,
                   &response, [&](grpc::Status result) {
                     status = std::move(result);
                     done.Notify();
                   });
    EXPECT_TRUE(Eventually([&] { return done.HasBeenNotified(); }));
    grpc::Slice slice;
    if (!status.ok() || !response.DumpToSingleSlice(&slice).ok()) {
      return status.error_message();
    }
    const std::string bytes(reinterpret_cast<const char*>(slice.begin()), slice.size());
    return bytes == std::string("\x08\x01")   ? "SERVING"
           : bytes == std::string("\x08\x02") ? "NOT_SERVING"
                                              : "another";
  }

  std::unique_ptr<TestSource> source_;
  Authority authority_{"server-ca"};
  Authority clients_{"client-ca"};
};

TEST_F(GrpcServerTest, WithoutACertificateItServesOnlyWherePlainTextIsAskedFor) {
  ControlPlane& plane = *cluster_.leader();
  PlacementEdge edge({cluster_.clock(), core_, cluster_.server(), plane, cluster_.registry("a")},
                     {});
  const auto server = GrpcServer::Start(ServicesOf(edge, nullptr), [] { return true; },
                                        {.listener = {.address = "127.0.0.1"}});
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("has no certificate"));
}

TEST_F(GrpcServerTest, APortThatIsTakenIsAnError) {
  Serve();
  const auto second = GrpcServer::Start(
      ServicesOf(*edge_, nullptr), [] { return true; },
      {.listener = {.address = "127.0.0.1", .port = server_->port()}, .plain = true});
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("the port is taken"));
  const auto nowhere =
      GrpcServer::Start(ServicesOf(*edge_, nullptr), [] { return true; },
                        {.listener = {.address = "here", .port = 1}, .plain = true});
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("is not an IP address"));
}

TEST_F(GrpcServerTest, ACertificateGrpcDoesNotTakeIsAnError) {
  ControlPlane& plane = *cluster_.leader();
  PlacementEdge edge({cluster_.clock(), core_, cluster_.server(), plane, cluster_.registry("a")},
                     {});
  TestSource none({"none", "none", ""});
  const auto server =
      GrpcServer::Start(ServicesOf(edge, nullptr), [] { return true; },
                        {.listener = {.address = "127.0.0.1"}, .certificates = &none});
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("does not take the certificate"));
}

TEST_F(GrpcServerTest, AComponentIsKnownByItsCertificate) {
  Serve({}, {.certificates = Source(Material(authority_, ReadPem(clients_.ca_file())))});
  const CallOptions nobody{.token = ""};
  EXPECT_EQ(PlaceOver(Tls(authority_, &clients_, "asterism-scheduler"), nobody).error_code(),
            grpc::StatusCode::OK);
  EXPECT_EQ(reviews_.token_reviews() + reviews_.access_reviews(), 0);
  EXPECT_EQ(PlaceOver(Tls(authority_, &clients_, "somebody"), nobody).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(PlaceOver(Tls(authority_, &clients_, "somebody"), {}).error_code(),
            grpc::StatusCode::OK)
      << "with a token, as everybody";
  EXPECT_EQ(PlaceOver(Tls(authority_), {}).error_code(), grpc::StatusCode::OK);
  EXPECT_EQ(PlaceOver(Tls(authority_), nobody).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  Authority strangers("strangers");
  EXPECT_EQ(PlaceOver(Tls(authority_, &strangers, "asterism-scheduler"), {}).error_code(),
            grpc::StatusCode::UNAVAILABLE)
      << "no handshake";
  EXPECT_EQ(PlaceOver(grpc::InsecureChannelCredentials(), {}).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, WithoutClientAuthoritiesACertificateIsNoIdentity) {
  Serve({}, {.certificates = Source(Material(authority_, ""))});
  EXPECT_EQ(PlaceOver(Tls(authority_, &clients_, "asterism-scheduler"), {.token = ""}).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(PlaceOver(Tls(authority_), {}).error_code(), grpc::StatusCode::OK);
}

TEST_F(GrpcServerTest, ANewCertificateTakesThePortOver) {
  TestSource* const source = Source(Material(authority_, ""));
  Serve({}, {.certificates = source, .look_period = absl::Milliseconds(20)});
  const uint16_t port = server_->port();
  stub_ = v1::Placement::NewStub(Channel(Tls(authority_)));
  const auto before = Watch(kAda);
  ASSERT_TRUE(Eventually([&] { return !before->messages().empty(); }));

  Authority next("next-ca");
  source->Set(Material(next, ""));
  // Who trusts the new authority only is served soon, on the same port.
  ASSERT_TRUE(Eventually([&] { return PlaceOver(Tls(next), {}).ok(); }));
  EXPECT_EQ(server_->port(), port);
  ASSERT_TRUE(Eventually([&] { return before->done(); }));
  EXPECT_EQ(before->status().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(before->status().error_message(), HasSubstr("connect and call again"));
  EXPECT_EQ(PlaceOver(Tls(authority_), {}).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "the old certificate is gone";

  // One that gRPC does not take leaves the last one in use.
  source->Set({"none", "none", ""});
  PumpFor(absl::Milliseconds(100));
  EXPECT_TRUE(PlaceOver(Tls(next), {}).ok());
  source->Set(Material(authority_, ""));
  EXPECT_TRUE(Eventually([&] { return PlaceOver(Tls(authority_), {}).ok(); }));
}

// A call of the old connection goes on, and health tells the truth meanwhile.
TEST_F(GrpcServerTest, ARenewalThatDrainsDoesNotHoldHealth) {
  TestSource* const source = Source(Material(authority_, ""));
  Serve();
  std::atomic<bool> leads = true;
  auto server = GrpcServer::Start(ServicesOf(*edge_, nullptr), [&] { return leads.load(); },
                                  {.listener = {.address = "127.0.0.1"},
                                   .certificates = source,
                                   .look_period = absl::Milliseconds(20)});
  ASSERT_TRUE(server.ok());
  server_ = *std::move(server);
  cluster_.server().InjectFault({.verb = "create", .plural = "tokenreviews", .no_answer = true});
  const auto stub = v1::Placement::NewStub(Channel(Tls(authority_)));
  v1::PlaceRequest request;
  v1::PlaceResponse response;
  request.set_training_job_json(JobJson(8));
  grpc::ClientContext context;
  context.AddMetadata("authorization", std::string("Bearer ") + kAda);
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(8, GPR_TIMESPAN)));
  absl::Notification done;
  stub->async()->Place(&context, &request, &response,
                       [&](const grpc::Status& /*status*/) { done.Notify(); });
  absl::Notification never;
  never.WaitForNotificationWithTimeout(absl::Milliseconds(300));  // it has come
  Authority next("next-ca");
  source->Set(Material(next, ""));
  ASSERT_TRUE(Eventually([&] { return Health(Tls(next)) == "SERVING"; }));
  leads = false;
  const base::SystemClock clock;
  const base::SteadyTime begin = clock.SteadyNow();
  ASSERT_TRUE(Eventually([&] { return Health(Tls(next)) == "NOT_SERVING"; }));
  EXPECT_LT(clock.SteadyNow() - begin, absl::Seconds(3));
  EXPECT_FALSE(done.HasBeenNotified()) << "it is still being drained";
  context.TryCancel();
  done.WaitForNotification();
}

TEST_F(GrpcServerTest, AStrangerTakesNoRoomOfAgents) {
  Serve({}, {.certificates = Source(Material(authority_, ReadPem(clients_.ca_file())))});
  const auto attach = [&](const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    const auto stub = v1::Agents::NewStub(Channel(credentials));
    grpc::ClientContext context;
    const auto stream = stub->Attach(&context);  // and says nothing
    v1::ControllerFrame frame;
    stream->Read(&frame);
    return stream->Finish();
  };
  EXPECT_EQ(attach(Tls(authority_)).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(attach(Tls(authority_, &clients_, "asterism-scheduler")).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(attach(Tls(authority_, &clients_, "asterism-agent")).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED)
      << "it may say hello";
}

// The API server does not answer, and nobody waits for it longer than the deadline.
TEST_F(GrpcServerTest, DeadlinesHoldAndACallWithoutOneGetsOne) {
  Serve({.default_deadline = absl::Milliseconds(50)});
  v1::PlaceRequest request;
  request.set_training_job_json(JobJson(8));
  for (const bool stated : {false, true}) {
    cluster_.server().InjectFault({.verb = "create", .plural = "tokenreviews", .no_answer = true});
    v1::PlaceResponse response;
    grpc::ClientContext context;
    context.AddMetadata("authorization", std::string("Bearer ") + kAda);
    if (stated) {
      context.set_deadline(
          gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(50, GPR_TIMESPAN)));
    }
    grpc::Status status;
    absl::Notification done;
    stub_->async()->Place(&context, &request, &response, [&](const grpc::Status& result) {
      status = result;
      done.Notify();
    });
    PumpFor(absl::Milliseconds(20));
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(10)));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << stated;
    EXPECT_EQ(!stated, status.error_message().starts_with("a call without a deadline"));
    cluster_.Run(absl::Seconds(20));  // the answer that comes late is dropped
  }
  cluster_.server().ClearFaults();
  EXPECT_TRUE(PlaceWith(*stub_, {.deadline = absl::Seconds(10)}).ok());
}

TEST_F(GrpcServerTest, AMessageThatIsTooLargeIsRefused) {
  Serve();
  v1::PlaceRequest request;
  request.set_training_job_json(std::string((1 << 20) + 100, ' '));
  v1::PlaceResponse response;
  const grpc::Status status = Call([&](auto* async, auto* context, auto done) {
    async->Place(context, &request, &response, std::move(done));
  });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(PlaceWith(*stub_).ok());
}

TEST_F(GrpcServerTest, HeadersThatAreTooLargeAreRefused) {
  Serve();
  EXPECT_EQ(PlaceWith(*stub_, {.token = std::string(40'000, 'x')}).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServerTest, CallsAreBounded) {
  Serve({.admission = {.calls_max = 0}});
  EXPECT_EQ(PlaceWith(*stub_).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(last_status().error_message(), HasSubstr("which is the limit"));
}

TEST_F(GrpcServerTest, AHundredStreamsAreServedAndNoMore) {
  Serve({.admission = {.streams_max = 100, .streams_per_caller_max = 100}});
  cluster_.CreateJob("mine", 8 * 17);
  cluster_.Run(absl::Seconds(1));
  std::vector<std::unique_ptr<QueueReader>> readers;
  for (int i = 0; i < 100; ++i) {
    readers.push_back(Watch(kAda));
  }
  ASSERT_TRUE(Eventually([&] {
    return std::all_of(readers.begin(), readers.end(),
                       [](const auto& reader) { return reader->jobs().size() == 1; });
  }));
  const auto one_more = Watch(kAda);
  ASSERT_TRUE(Eventually([&] { return one_more->done(); }));
  EXPECT_EQ(one_more->status().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(PlaceWith(*stub_).ok()) << "streams take no room from calls";
  EXPECT_EQ(reviews_.token_reviews(), 1) << "of one caller";
  cluster_.DeleteJob("mine");
  ASSERT_TRUE(Eventually([&] {
    return std::all_of(readers.begin(), readers.end(),
                       [](const auto& reader) { return reader->jobs().empty(); });
  }));
  for (const auto& reader : readers) {
    reader->Cancel();
  }
  ASSERT_TRUE(Eventually([&] {
    return std::all_of(readers.begin(), readers.end(),
                       [](const auto& reader) { return reader->done(); });
  }));
  // The server hears of it a little later.
  std::unique_ptr<QueueReader> again;
  EXPECT_TRUE(Eventually([&] {
    again = Watch(kAda);
    EXPECT_TRUE(Eventually([&] { return again->done() || !again->messages().empty(); }));
    return !again->done();
  })) << "their room is free";
  again->Cancel();
  EXPECT_TRUE(Eventually([&] { return again->done(); }));
}

TEST_F(GrpcServerTest, ASlowReaderCatchesUpInOneStep) {
  Serve();
  const int waiting = 300;
  const int rounds = 60;
  int next = 0;
  while (next < waiting) {
    cluster_.CreateJob("job" + std::to_string(next++), 8 * 17);
  }
  cluster_.Run(absl::Seconds(5));
  const auto reader = Watch(kAda, {}, /*reads_by_itself=*/false);
  PumpFor(absl::Milliseconds(200));
  // Each round all get another place: far more than a connection takes without a reader.
  for (int round = 0; round < rounds; ++round) {
    cluster_.DeleteJob("job" + std::to_string(next - waiting));
    cluster_.CreateJob("job" + std::to_string(next++), 8 * 17);
    cluster_.Run(absl::Seconds(1));
    PumpFor(absl::Milliseconds(2));
  }
  int reads = 0;
  const std::string last = "research/job" + std::to_string(next - 1);
  while (!reader->jobs().contains(last) && reads < rounds) {
    const size_t before = reader->messages().size();
    reader->ReadOne();
    ++reads;
    ASSERT_TRUE(Eventually([&] { return reader->messages().size() > before; }));
  }
  EXPECT_EQ(reader->jobs().size(), static_cast<size_t>(waiting));
  EXPECT_LT(reads, rounds / 3);
  reader->Cancel();
  EXPECT_TRUE(Eventually([&] { return reader->done(); }));
}

TEST_F(GrpcServerTest, AStandbyPointsToTheLeader) {
  cluster_.StartController("b");
  cluster_.Run(absl::Seconds(2));
  Serve();
  const auto reader = Watch(kAda);
  ASSERT_TRUE(Eventually([&] { return !reader->messages().empty(); }));
  ASSERT_TRUE(Eventually([&] { return Health() == "SERVING"; }));
  ControlPlane& served = *cluster_.leader();
  cluster_.server().SetAdmission(
      [](const kube::ResourceType& type, std::string_view, nlohmann::json& object) -> absl::Status {
        return type.plural == "leases" && object["spec"]["holderIdentity"] == "a"
                   ? absl::PermissionDeniedError("not for a")
                   : absl::OkStatus();
      });
  ASSERT_TRUE(
      Eventually([&] { return cluster_.leader() != nullptr && cluster_.leader() != &served; }));
  ASSERT_TRUE(Eventually([&] { return reader->done(); }));
  EXPECT_EQ(reader->status().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(reader->status().error_message(), Not(HasSubstr("a holds the Lease")))
      << "it does not send the caller to itself";
  EXPECT_TRUE(Eventually([&] { return Health() == "NOT_SERVING"; }));
  const int reviews = reviews_.token_reviews();
  ASSERT_TRUE(Eventually([&] { return served.leader() == "b"; }));
  EXPECT_EQ(PlaceWith(*stub_, {.token = "anything"}).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(last_status().error_message(), HasSubstr("b holds the Lease"));
  ASSERT_EQ(last_trailers_.count("asterism-leader"), 1u);
  EXPECT_EQ(last_trailers_.find("asterism-leader")->second, "b");
  EXPECT_EQ(reviews_.token_reviews(), reviews) << "a standby looks at no token";
  const auto late = Watch(kAda);
  ASSERT_TRUE(Eventually([&] { return late->done(); }));
  EXPECT_EQ(late->status().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, StoppingEndsStreams) {
  Serve();
  const auto reader = Watch(kAda);
  ASSERT_TRUE(Eventually([&] { return !reader->messages().empty(); }));
  server_->Stop();
  EXPECT_TRUE(Eventually([&] { return reader->done(); }));
  EXPECT_FALSE(reader->status().ok());
}

}  // namespace
}  // namespace asterism::controller
