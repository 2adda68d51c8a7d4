#include "agent/relay_port.h"

#include <chrono>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "agent/controller_stream.h"
#include "asterism/v1/relay.grpc.pb.h"
#include "base/log.h"
#include "fmt/format.h"
#include "grpc/support/log.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace asterism::agent {
namespace {

// A frame with what is around it fits into a message to the controller.
constexpr int kFrameBytesMax = (1 << 20) - 64;
// Of what comes back for a member; a controller does not say more at a time.
constexpr size_t kUnreadMax = 16;
constexpr unsigned kCertificateLookSeconds = 10;

struct Setting {
  const char* name;
  int value;
};
constexpr Setting kSettings[] = {
    {GRPC_ARG_MAX_METADATA_SIZE, 8 << 10},
    {GRPC_ARG_MAX_CONCURRENT_STREAMS, 4},
    {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5'000},
    {GRPC_ARG_KEEPALIVE_TIME_MS, 5'000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000},
    {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500},
    {GRPC_ARG_ALLOW_REUSEPORT, 0},
};

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const RelayPortOptions& options) {
  if (options.authority_path.empty()) {
    return grpc::InsecureServerCredentials();
  }
  grpc::experimental::TlsServerCredentialsOptions tls(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          options.key_path, options.certificate_path, options.authority_path,
          kCertificateLookSeconds));
  tls.watch_root_certs();
  tls.watch_identity_key_cert_pairs();
  tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(tls);
}

// IPv6 addresses stand in brackets before a port.
std::string HostPort(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

// gRPC's own lines, for example of each handshake that fails, would break a log of JSON, and
// whoever reaches the port could fill it.
void KeepGrpcQuiet() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    base::LogDebug("grpc", {{"message", line->message}});
  });
}

bool ShowsTheAgentsCertificate(const grpc::CallbackServerContext& context) {
  const auto connection = context.auth_context();
  if (connection == nullptr || !connection->IsPeerAuthenticated()) {
    return false;
  }
  const auto names = connection->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  return names.size() == 1 && std::string(names.front().data(), names.front().size()) == kAgentName;
}

}  // namespace

// Lives until gRPC is done with it and the members have forgotten it.
class RelayPort::Stream final : public grpc::ServerBidiReactor<v1::SealedFrame, v1::SealedFrame>,
                                public MemberStream,
                                public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(RelayPort& port) : port_(port) {}

  void Begin() { self_ = shared_from_this(); }
  void ReadNext() override {
    const absl::MutexLock lock(&mutex_);
    if (!ended_) {
      StartRead(&frame_);
    }
  }
  bool Write(v1::SealedFrame frame) override {
    const absl::MutexLock lock(&mutex_);
    if (ended_) {
      return true;
    }
    if (unread_.size() >= kUnreadMax) {
      return false;
    }
    unread_.push_back(std::move(frame));
    if (unread_.size() == 1) {
      StartWrite(&unread_.front());
    }
    return true;
  }
  void End(const absl::Status& status) override {
    const absl::MutexLock lock(&mutex_);
    if (!std::exchange(ended_, true)) {
      Finish(grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                          std::string(status.message())));
    }
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      End(absl::OkStatus());
      return;
    }
    port_.executor_.Post(port_.alive_.Wrap(
        [&port = port_, self = shared_from_this(), frame = std::move(frame_)]() mutable {
          port.members_.OnFrame(self, std::move(frame));
          port.on_waiting_();
        }));
  }
  void OnWriteDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    unread_.pop_front();
    if (!ok) {
      unread_.clear();
    } else if (!ended_ && !unread_.empty()) {
      StartWrite(&unread_.front());
    }
  }
  void OnCancel() override { End(absl::CancelledError("the member has gone")); }
  void OnDone() override {
    port_.executor_.Post(
        port_.alive_.Wrap([&port = port_, self = std::exchange(self_, nullptr)]() mutable {
          port.members_.OnEnd(self);
          port.on_waiting_();
        }));
  }

  RelayPort& port_;
  std::shared_ptr<Stream> self_;
  v1::SealedFrame frame_;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::SealedFrame> unread_ ABSL_GUARDED_BY(mutex_);  // the first is being written
};

class RelayPort::Service final : public v1::Relay::CallbackService {
 public:
  explicit Service(RelayPort& port) : port_(port) {}

  grpc::ServerBidiReactor<v1::SealedFrame, v1::SealedFrame>* Join(
      grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<Stream>(port_);
    stream->Begin();
    if (port_.certificate_needed_ && !ShowsTheAgentsCertificate(*context)) {
      stream->End(
          absl::UnauthenticatedError(fmt::format("show the certificate of {}", kAgentName)));
    } else {
      stream->ReadNext();
    }
    return stream.get();
  }

 private:
  RelayPort& port_;
};

RelayPort::RelayPort(base::Executor& executor, std::function<void()> on_waiting,
                     bool certificate_needed)
    : executor_(executor),
      on_waiting_(std::move(on_waiting)),
      certificate_needed_(certificate_needed),
      service_(std::make_unique<Service>(*this)) {}

absl::StatusOr<std::unique_ptr<RelayPort>> RelayPort::Open(const RelayPortOptions& options,
                                                           base::Executor& executor,
                                                           std::function<void()> on_waiting) {
  if (options.host.empty()) {
    return absl::FailedPreconditionError(
        "the agent knows no address of its own: set POD_IP or --relay-host");
  }
  KeepGrpcQuiet();
  std::unique_ptr<RelayPort> port(
      new RelayPort(executor, std::move(on_waiting), !options.authority_path.empty()));
  grpc::ServerBuilder builder;
  for (const Setting& setting : kSettings) {
    builder.AddChannelArgument(setting.name, setting.value);
  }
  builder.SetMaxReceiveMessageSize(kFrameBytesMax);
  int bound = 0;
  builder.AddListeningPort(HostPort(options.host, options.port), ServerCredentialsOf(options),
                           &bound);
  builder.RegisterService(port->service_.get());
  port->server_ = builder.BuildAndStart();
  if (port->server_ == nullptr || bound == 0) {
    return absl::UnavailableError(
        fmt::format("cannot listen at {}: is the port taken, or the address another machine's?",
                    HostPort(options.host, options.port)));
  }
  port->address_ = HostPort(options.host, bound);
  return port;
}

RelayPort::~RelayPort() {
  members_.EndAll(absl::UnavailableError("the relay ends"));
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::time_point());
  }
}

}  // namespace asterism::agent
