#include "controller/grpc_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
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
    {GRPC_ARG_ALLOW_REUSEPORT, 1},
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

std::string HostAndPort(std::string_view address, uint16_t port) {
  const bool ipv6 = address.find(':') != std::string_view::npos;
  return ipv6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

absl::Status CannotListen(const GrpcServerOptions& options, std::string_view why) {
  return absl::FailedPreconditionError(
      fmt::format("ports.grpc: cannot listen on {}: {}: end what uses the port, or choose another",
                  HostAndPort(options.address, options.port), why));
}

// A port that is shared on purpose would be shared by accident, too: another program with the same
// user could take half of the calls unseen. So we ask for it alone first.
absl::Status CheckPortIsFree(const GrpcServerOptions& options) {
  if (options.port == 0) {
    return absl::OkStatus();
  }
  sockaddr_storage storage{};
  socklen_t size = 0;
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, options.address.c_str(), &ipv4->sin_addr) == 1) {
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(options.port);
    size = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, options.address.c_str(), &ipv6->sin6_addr) == 1) {
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(options.port);
    size = sizeof(sockaddr_in6);
  } else {
    return absl::InvalidArgumentError(
        fmt::format("--bind-address: \"{}\" is not an IP address: use 0.0.0.0, or :: for IPv6 too",
                    options.address));
  }
  const int probe = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  // What a closed connection leaves behind does not count.
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool free = probe >= 0 &&
                    bind(probe, reinterpret_cast<const sockaddr*>(&storage), size) == 0 &&
                    listen(probe, 1) == 0;
  const int error = errno;
  close(probe);
  return free ? absl::OkStatus()
              : CannotListen(options, error == EADDRINUSE ? "the port is taken"
                                                          : "the system refuses the address");
}

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
  std::shared_ptr<const server::TlsMaterial> material;
  std::shared_ptr<std::atomic<bool>> retired = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(GrpcServices services,
                                                              std::function<bool()> serving,
                                                              GrpcServerOptions options) {
  if (options.certificates == nullptr && !options.plain) {
    return absl::FailedPreconditionError(
        "tls: the gRPC service has no certificate: configure one, or plain text where the network "
        "is closed to strangers");
  }
  RETURN_IF_ERROR(CheckPortIsFree(options));
  SetUpGrpc();
  std::unique_ptr<GrpcServer> server(
      new GrpcServer(std::move(services), std::move(serving), std::move(options)));
  server::CertificateSource* const source = server->options_.certificates;
  ASSIGN_OR_RETURN(server->current_,
                   server->Listen(source == nullptr ? nullptr : source->Current()));
  server->options_.port = static_cast<uint16_t>(server->current_->port);
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

absl::StatusOr<std::unique_ptr<GrpcServer::Generation>> GrpcServer::Listen(
    std::shared_ptr<const server::TlsMaterial> material) {
  auto generation = std::make_unique<Generation>();
  generation->material = std::move(material);
  generation->services = services_.make(generation->retired);
  grpc::ServerBuilder builder;
  for (const Setting& setting : kSettings) {
    builder.AddChannelArgument(setting.name, setting.value);
  }
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetResourceQuota(grpc::ResourceQuota("placement").Resize(kBufferBytesMax));
  builder.AddListeningPort(HostAndPort(options_.address, options_.port),
                           CredentialsFor(generation->material.get()), &generation->port);
  for (const auto& service : generation->services) {
    builder.RegisterService(service.get());
  }
  generation->server = builder.BuildAndStart();
  if (generation->server == nullptr || generation->port == 0) {
    return generation->material == nullptr
               ? CannotListen(options_, "gRPC could not start")
               : absl::FailedPreconditionError(
                     "tls: gRPC does not take the certificate: give a chain and its key, both PEM");
  }
  generation->server->GetHealthCheckService()->SetServingStatus(serving_());
  return generation;
}

void GrpcServer::TellHealth() {
  grpc::HealthCheckServiceInterface* health = current_->server->GetHealthCheckService();
  const bool serving = serving_();
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
  if (material == current_->material || material == refused_) {
    return;
  }
  absl::StatusOr<std::unique_ptr<Generation>> next = Listen(material);
  if (!next.ok()) {
    refused_ = std::move(material);
    base::LogWarning("grpc_certificate_refused", {{"error", std::string(next.status().message())}});
    return;
  }
  const std::unique_ptr<Generation> before = std::exchange(current_, *std::move(next));
  TellHealth();
  base::LogInfo("grpc_certificate_renewed", {{"port", int{options_.port}}});
  Retire(*before, options_.drain);
}

// Closes the listening socket at once; returns when all calls have ended, or `drain` is over.
void GrpcServer::Retire(Generation& generation, absl::Duration drain) {
  *generation.retired = true;
  generation.server->GetHealthCheckService()->Shutdown();
  generation.server->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                   gpr_time_from_millis(absl::ToInt64Milliseconds(drain), GPR_TIMESPAN)));
}

void GrpcServer::Stop() {
  if (std::exchange(stopped_, true)) {
    return;
  }
  executor_.Stop();
  if (current_ != nullptr) {
    Retire(*current_, kStopGrace);
    current_.reset();
  }
}

}  // namespace asterism::controller
