#include "controller/grpc_server.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "grpc/support/log.h"
#include "grpc/support/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/tls_context.h"

namespace asterism::controller {
namespace {

constexpr int kMessageBytesMax = 1 << 20;
constexpr size_t kBufferBytesMax = size_t{64} << 20;
constexpr absl::Duration kStopGrace = absl::Seconds(1);

struct Setting {
  const char* name;
  int value;
};
constexpr Setting kSettings[] = {
    {GRPC_ARG_MAX_METADATA_SIZE, 24 << 10},
    {GRPC_ARG_MAX_CONCURRENT_STREAMS, 128},
    {GRPC_ARG_MAX_CONNECTION_IDLE_MS, 300'000},
    {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000},
    {GRPC_ARG_KEEPALIVE_TIME_MS, 60'000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000},
    {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
    {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000},
    {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2},
};

std::shared_ptr<grpc::ServerCredentials> CredentialsFor(const server::TlsMaterial* material) {
  if (material == nullptr) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions options(material->client_authorities.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                // Who shows none is asked for a token.
                                                : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = material->client_authorities;
  options.pem_key_cert_pairs.push_back({material->key, material->certificate});
  return grpc::SslServerCredentials(options);
}

// gRPC's own lines, for example of each handshake that fails, would break a log of JSON, and
// anybody could fill it.
void LogAsDebug(gpr_log_func_args* line) {
  base::LogDebug("grpc", {{"message", line->message}});
}

void SetUpGrpc() {
  static const bool once = [] {
    gpr_set_log_function(LogAsDebug);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

// One server with one certificate.
struct GrpcServer::Generation {
  ~Generation() {
    if (server != nullptr) {
      ShutDown(*this, kStopGrace);  // nothing to do where it has been
    }
  }

  std::shared_ptr<const server::TlsMaterial> material;
  std::shared_ptr<std::atomic<bool>> retired = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(GrpcServices services,
                                                              std::function<bool()> serving,
                                                              GrpcServerOptions options) {
  if (options.certificates == nullptr && !options.plain) {
    return absl::FailedPreconditionError(
        "tls: the gRPC service has no certificate: configure one, or plain text where the network "
        "is closed to strangers");
  }
  SetUpGrpc();
  std::unique_ptr<GrpcServer> server(
      new GrpcServer(std::move(services), std::move(serving), std::move(options)));
  ASSIGN_OR_RETURN(server->listener_, GrpcListener::Listen(server->options_.listener));
  server::CertificateSource* const source = server->options_.certificates;
  ASSIGN_OR_RETURN(std::unique_ptr<Generation> first,
                   server->Make(source == nullptr ? nullptr : source->Current()));
  {
    absl::MutexLock lock(&server->mutex_);
    server->current_ = std::move(first);
  }
  server->listener_->Start([self = server.get()](int socket) { self->Connect(socket); });
  server->executor_.Post([self = server.get()] {
    self->TellHealth();
    self->Look();
  });
  return server;
}

GrpcServer::GrpcServer(GrpcServices services, std::function<bool()> serving,
                       GrpcServerOptions options)
    : services_(std::move(services)),
      serving_(std::move(serving)),
      options_(std::move(options)),
      look_timer_(executor_),
      health_timer_(executor_) {}

GrpcServer::~GrpcServer() {
  Stop();
}

absl::StatusOr<std::unique_ptr<GrpcServer::Generation>> GrpcServer::Make(
    std::shared_ptr<const server::TlsMaterial> material) {
  // gRPC would take anything here, and fail each handshake.
  if (material != nullptr) {
    const auto clients = material->client_authorities.empty() ? server::Clients::kAnybody
                                                              : server::Clients::kVerified;
    if (const auto context = server::MakeTlsContext(*material, clients); !context.ok()) {
      return absl::FailedPreconditionError(fmt::format(
          "tls: gRPC does not take the certificate: {}", base::ToStd(context.status().message())));
    }
  }
  auto generation = std::make_unique<Generation>();
  generation->material = std::move(material);
  generation->services = services_.make(generation->retired);
  grpc::ServerBuilder builder;
  for (const Setting& setting : kSettings) {
    builder.AddChannelArgument(setting.name, setting.value);
  }
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetResourceQuota(
      grpc::ResourceQuota("grpc").Resize(kBufferBytesMax).SetMaxThreads(kReflectionThreadsMax));
  generation->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      CredentialsFor(generation->material.get()));
  for (const auto& service : generation->services) {
    builder.RegisterService(service.get());
  }
  generation->server = builder.BuildAndStart();
  if (generation->server == nullptr) {
    return absl::InternalError("ports.grpc: gRPC could not start: see the log at level debug");
  }
  generation->server->GetHealthCheckService()->SetServingStatus(serving_());
  return generation;
}

void GrpcServer::Connect(int socket) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket;
  // Under the lock, since one that is shutting down would leave the socket open.
  absl::MutexLock lock(&mutex_);
  current_->acceptor->HandleNewConnection(&connection);
}

void GrpcServer::TellHealth() {
  const bool serving = serving_();
  absl::MutexLock lock(&mutex_);
  grpc::HealthCheckServiceInterface* health = current_->server->GetHealthCheckService();
  health->SetServingStatus("", serving);
  for (const std::string& name : services_.names) {
    health->SetServingStatus(name, serving);
  }
  health_timer_.Start(options_.health_period, [this] { TellHealth(); });
}

void GrpcServer::Look() {
  if (options_.certificates == nullptr) {
    return;
  }
  look_timer_.Start(options_.look_period, [this] { Look(); });
  std::shared_ptr<const server::TlsMaterial> material = options_.certificates->Current();
  {
    absl::MutexLock lock(&mutex_);
    if (material == current_->material || material == refused_) {
      return;
    }
  }
  absl::StatusOr<std::unique_ptr<Generation>> next = Make(material);
  if (!next.ok()) {
    refused_ = std::move(material);
    base::LogWarning("grpc_certificate_refused", {{"error", std::string(next.status().message())}});
    return;
  }
  std::shared_ptr<Generation> before;
  {
    absl::MutexLock lock(&mutex_);
    before = std::exchange(current_, *std::move(next));
  }
  TellHealth();
  base::LogInfo("grpc_certificate_renewed", {{"port", int{port()}}});
  Retire(*before);
  drain_.Post([before, drain = options_.drain] { ShutDown(*before, drain); });
}

// It gets no connection any more.
void GrpcServer::Retire(Generation& generation) {
  *generation.retired = true;
  generation.server->GetHealthCheckService()->Shutdown();
}

// Returns when all calls have ended, or `drain` is over.
void GrpcServer::ShutDown(Generation& generation, absl::Duration drain) {
  generation.server->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                   gpr_time_from_millis(absl::ToInt64Milliseconds(drain), GPR_TIMESPAN)));
}

void GrpcServer::Stop() {
  if (std::exchange(stopped_, true)) {
    return;
  }
  if (listener_ != nullptr) {
    listener_->Stop();
  }
  executor_.Stop();
  std::unique_ptr<Generation> last;
  {
    absl::MutexLock lock(&mutex_);
    last = std::move(current_);
  }
  if (last != nullptr) {
    Retire(*last);
    ShutDown(*last, kStopGrace);
  }
  drain_.Stop();  // those that wait there end with it
}

}  // namespace asterism::controller
