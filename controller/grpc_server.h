// File: controller/grpc_server.h
//
// The gRPC server: listens, presents the certificate of the moment, tells over grpc.health.v1
// whether this process leads, and describes itself by reflection.
//
//   const GrpcServices services{.names = {"asterism.v1.Placement"}, .make = [&](auto retired)
//   {...}}; ASSIGN_OR_RETURN(auto server, GrpcServer::Start(services, [&] { return plane.leading();
//   },
//                                                   {.listener = {.port = 9443},
//                                                    .certificates = source}));
//   server->Stop();
//
// A connection keeps the certificate that it began with. When the source hands out another, a
// second server gets the connections that come, streams of the first are asked to connect again,
// its calls end within `drain`, and whatever is left then is cut. Material that gRPC does not take
// leaves the old one in use, with one warning.
//
// Health of "" and of each service: SERVING while `serving` says so, looked at every
// `health_period`. Health and reflection need no identity.
//
// Bounds: 1 MiB a message, 24 KiB of headers, 128 calls a connection, 64 MiB for buffers of all; a
// silent peer is asked every 60 s and dropped after 20 s more; one that pings more often than every
// 10 s is cut off. A stream of reflection takes a thread: there are kReflectionThreadsMax, and who
// comes then is told kResourceExhausted. Connections are bounded by grpc_listener.h, calls by
// call_admission.h.
//
// Thread-safety: Start, Stop and the destructor belong to one owner. Cost: three threads of ours
// beside those of gRPC.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "controller/grpc_listener.h"
#include "server/certificate_source.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace asterism::controller {

inline constexpr int kReflectionThreadsMax = 8;

// What is served.
struct GrpcServices {
  std::vector<std::string> names;  // full ones, for the health service
  // One of each for every server; streams end soon after `retired` becomes true.
  std::function<std::vector<std::unique_ptr<grpc::Service>>(
      std::shared_ptr<const std::atomic<bool>> retired)>
      make;
};

struct GrpcServerOptions {
  GrpcListenerOptions listener;
  // Outlives the server. Null: only with `plain`, and then nothing is encrypted.
  server::CertificateSource* certificates = nullptr;
  bool plain = false;
  absl::Duration look_period = absl::Milliseconds(250);  // at the certificates
  absl::Duration health_period = absl::Milliseconds(500);
  absl::Duration drain = absl::Seconds(10);
};

class GrpcServer {
 public:
  // Listens when it returns. Errors name what is wrong and what to do.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(GrpcServices services,
                                                           std::function<bool()> serving,
                                                           GrpcServerOptions options);
  ~GrpcServer();  // Stop

  uint16_t port() const { return listener_->port(); }
  // Takes no new call, ends streams, lets calls that have begun finish within a second, cuts the
  // rest. Again is harmless.
  void Stop();

 private:
  struct Generation;

  GrpcServer(GrpcServices services, std::function<bool()> serving, GrpcServerOptions options);
  absl::StatusOr<std::unique_ptr<Generation>> Make(
      std::shared_ptr<const server::TlsMaterial> material);
  void Connect(int socket);
  void Look();
  void TellHealth();
  static void Retire(Generation& generation);
  static void ShutDown(Generation& generation, absl::Duration drain);

  const GrpcServices services_;
  const std::function<bool()> serving_;
  const GrpcServerOptions options_;
  std::unique_ptr<GrpcListener> listener_;
  absl::Mutex mutex_;
  // Changes on the executor only.
  std::unique_ptr<Generation> current_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const server::TlsMaterial> refused_;  // told about already
  bool stopped_ = false;
  base::ThreadExecutor executor_{"grpc"};
  base::ThreadExecutor drain_{"grpc-drain"};  // where old ones end, which takes a while
  base::OwnedTimer look_timer_;
  base::OwnedTimer health_timer_;
};

}  // namespace asterism::controller
