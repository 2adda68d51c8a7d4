// asterism-controller: reads its options and its configuration, builds the concrete parts, and runs
// until it is told to end.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/open_files.h"
#include "base/program_options.h"
#include "base/rng.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "controller/agent_edge.h"
#include "controller/configuration.h"
#include "controller/control_plane.h"
#include "controller/grpc_server.h"
#include "controller/grpc_services.h"
#include "controller/heartbeat.h"
#include "controller/http_edge.h"
#include "controller/placement_edge.h"
#include "controller/serving_certificate.h"
#include "fmt/format.h"
#include "kube/curl_http_client.h"
#include "kube/http_api_client.h"
#include "kube/kubeconfig.h"
#include "server/http_server.h"

ABSL_FLAG(std::string, config, "", "AsterismConfiguration file; without it all defaults hold");
ABSL_FLAG(std::string, kubeconfig, "",
          "kubeconfig file; default: $KUBECONFIG, the pod's service account, ~/.kube/config");
ABSL_FLAG(std::string, namespace, "",
          "namespace of the Lease; default: $POD_NAMESPACE, else asterism-system");
ABSL_FLAG(std::string, identity, "",
          "unique name in the Lease; default: host name and random letters");
ABSL_FLAG(std::string, bind_address, "0.0.0.0",
          "IP address that all ports listen on; \"::\" takes IPv4 too");
ABSL_FLAG(std::string, log_format, "text", "text or json");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning or error");
ABSL_FLAG(bool, help_configuration, false, "describe every field of the configuration and end");

namespace asterism::controller {
namespace {

constexpr absl::Duration kReloadInterval = absl::Seconds(10);
constexpr absl::Duration kStopPatience = absl::Seconds(10);
// Below it connections of the ports are few enough to matter.
constexpr size_t kOpenFilesWanted = 4096;
// 12,800 agents are known again after a minute.
constexpr absl::Duration kAgentTokenPeriod = absl::Milliseconds(5);

std::string Environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
  return value == nullptr ? "" : value;
}

absl::StatusOr<Configuration> LoadConfiguration() {
  const std::string path = absl::GetFlag(FLAGS_config);
  if (path.empty()) {
    return Configuration{};
  }
  const absl::StatusOr<std::string> text = base::ReadSmallFile(path);
  if (!text.ok()) {
    return absl::NotFoundError(fmt::format("--config: {}", base::ToStd(text.status().message())));
  }
  return ParseConfiguration(*text);
}

Identity MakeIdentity(base::Rng& rng) {
  Identity identity;
  char host[256] = "unknown";
  gethostname(host, sizeof(host) - 1);
  identity.name = absl::GetFlag(FLAGS_identity);
  if (identity.name.empty()) {
    identity.name = fmt::format("{}_{}", host, rng.Name(12));
  }
  identity.namespace_name = absl::GetFlag(FLAGS_namespace);
  if (identity.namespace_name.empty()) {
    identity.namespace_name = Environment("POD_NAMESPACE");
  }
  if (identity.namespace_name.empty()) {
    identity.namespace_name = "asterism-system";
  }
  identity.pod_ip = Environment("POD_IP");
  identity.pod_name = Environment("POD_NAME");
  return identity;
}

absl::Status SetUpLogFromFlags() {
  const std::string format = absl::GetFlag(FLAGS_log_format);
  const std::string level = absl::GetFlag(FLAGS_log_level);
  const std::vector<std::string> levels = {"debug", "info", "warning", "error"};
  const auto found = std::find(levels.begin(), levels.end(), level);
  if (found == levels.end()) {
    return absl::InvalidArgumentError(
        fmt::format("--log-level: \"{}\" is none of debug, info, warning, error", level));
  }
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError(
        fmt::format("--log-format: \"{}\" is not text or json", format));
  }
  base::SetUpLog(format == "json" ? base::LogFormat::kJson : base::LogFormat::kText,
                 static_cast<base::LogLevel>(found - levels.begin()));
  return absl::OkStatus();
}

// Reads the file again now and then: a mounted ConfigMap is replaced under a running program.
class ConfigurationReloader {
 public:
  ConfigurationReloader(base::Executor& executor, Configuration running, ControlPlane& plane)
      : running_(std::move(running)), plane_(plane), timer_(executor) {}

  void Start() {
    timer_.Start(kReloadInterval, [this] {
      Look();
      Start();
    });
  }

 private:
  void Look() {
    const absl::StatusOr<Configuration> wanted = LoadConfiguration();
    const std::string error = wanted.ok() ? "" : std::string(wanted.status().message());
    if (error != last_error_ && !error.empty()) {
      base::LogError("configuration_rejected", {{"error", error}});
    }
    last_error_ = error;
    if (!wanted.ok() || *wanted == last_wanted_) {
      return;
    }
    last_wanted_ = *wanted;
    const ReloadDifference difference = DiffForReload(running_, *wanted);
    for (const std::string& field : difference.applied) {
      base::LogInfo("configuration_applied", {{"field", field}});
    }
    for (const std::string& field : difference.needs_restart) {
      base::LogWarning("configuration_needs_restart", {{"field", field}});
    }
    running_ = difference.result;
    plane_.Reload(running_);
  }

  Configuration running_;
  Configuration last_wanted_ = running_;
  std::string last_error_;
  ControlPlane& plane_;
  base::OwnedTimer timer_;
};

// They are taken by sigwait; every thread that starts later inherits the mask.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void PrepareForManyConnections() {
  std::signal(SIGPIPE, SIG_IGN);
  if (const size_t files = base::RaiseOpenFileLimit(); files < kOpenFilesWanted) {
    base::LogWarning("open_files_limit_low",
                     {{"limit", uint64_t{files}},
                      {"remedy", "raise the hard limit (RLIMIT_NOFILE) of the container runtime"}});
  }
}

AgentEdgeOptions AgentEdgeOptionsOf(const Configuration& configuration) {
  return {.certificate_needed = configuration.tls.mode != TlsMode::kPlain,
          .user = fmt::format("system:serviceaccount:{}:{}", configuration.agents.namespace_name,
                              configuration.agents.service_account),
          .streams_max = StreamsMax(configuration.agents.relays),
          .identity = {.new_token_period = kAgentTokenPeriod},
          .relays = configuration.agents.relays};
}

absl::Status Run() {
  RETURN_IF_ERROR(SetUpLogFromFlags());
  ASSIGN_OR_RETURN(const Configuration configuration, LoadConfiguration());
  const sigset_t signals = BlockStopSignals();
  PrepareForManyConnections();

  base::SystemClock clock;
  base::Rng rng(base::Rng::SystemSeed());
  base::MetricRegistry registry;
  kube::KubeconfigOptions kubeconfig = kube::KubeconfigOptions::FromEnvironment();
  kubeconfig.path = absl::GetFlag(FLAGS_kubeconfig);
  ASSIGN_OR_RETURN(const kube::ApiConfig api, kube::LoadApiConfig(clock, kubeconfig));
  const Identity identity = MakeIdentity(rng);

  kube::RequestMetrics request_metrics(clock, registry);
  kube::CurlHttpClient http(kube::CurlOptions::From(api));
  base::ThreadExecutor core("core");
  base::ThreadExecutor planner("planner");
  base::ThreadExecutor work("import");
  // Objects of the core are built before it has work, and end after it has stopped.
  auto client = std::make_unique<kube::HttpApiClient>(
      core, rng.Fork("client"), http, api, kube::HttpApiClientOptions{.metrics = &request_metrics});
  auto plane = std::make_unique<ControlPlane>(
      ControlPlane::Dependencies{clock, core, rng.Fork("plane"), *client, *client, registry,
                                 &planner, &work},
      configuration, identity);
  client->set_may_send([&plane] { return plane->MayWrite(); });
  auto heartbeat = std::make_unique<Heartbeat>(clock, core);
  ConfigurationReloader reloader(core, configuration, *plane);

  server::HttpServerMetrics http_metrics(registry);
  ASSIGN_OR_RETURN(const auto certificate,
                   ServingCertificate::Make({clock, core, *client, registry, http_metrics,
                                             [&plane] { return plane->MayWrite(); }},
                                            configuration, identity.namespace_name));
  ASSIGN_OR_RETURN(const auto edge,
                   HttpEdge::Start({clock, registry, http_metrics, *plane, *certificate,
                                    [&heartbeat] { return heartbeat->Complaints(); }},
                                   configuration, absl::GetFlag(FLAGS_bind_address)));
  PlacementEdge placement({clock, core, *client, *plane, registry}, {});
  AgentEdge agent_edge({clock, core, *client, *plane, plane->agents(), registry},
                       AgentEdgeOptionsOf(configuration));
  ASSIGN_OR_RETURN(
      const auto grpc_server,
      GrpcServer::Start(ServicesOf(placement, configuration.agents.enabled ? &agent_edge : nullptr),
                        [&plane] { return plane->leading(); },
                        {.listener = {.address = absl::GetFlag(FLAGS_bind_address),
                                      .port = static_cast<uint16_t>(configuration.ports.grpc)},
                         .certificates = certificate->source(),
                         .plain = configuration.tls.mode == TlsMode::kPlain}));
  base::LogInfo("started", {{"identity", identity.name},
                            {"server", api.server},
                            {"extender_port", int{edge->extender_port()}},
                            {"metrics_port", int{edge->metrics_port()}},
                            {"grpc_port", int{grpc_server->port()}}});
  core.Post([&] {
    plane->Start();
    certificate->Start();
    reloader.Start();
    heartbeat->Start();
  });

  int signal = 0;
  sigwait(&signals, &signal);
  base::LogInfo("stopping", {{"signal", signal}});
  absl::Notification stopped;
  core.Post([&] { plane->Stop([&] { stopped.Notify(); }); });
  if (!stopped.WaitForNotificationWithTimeout(kStopPatience)) {
    base::LogError("core_stuck", {{"remedy", "the Lease runs out by itself; ending without it"}});
    std::_Exit(1);  // joining the core would wait for it, too
  }
  grpc_server->Stop();
  edge->Stop();
  work.Stop();
  core.Stop();
  planner.Stop();
  placement.Stop();
  agent_edge.Stop();
  heartbeat.reset();
  plane.reset();
  client.reset();
  return absl::OkStatus();
}

}  // namespace
}  // namespace asterism::controller

int main(int argc, char** argv) {
  const std::optional<int> ended = asterism::base::ParseProgramOptions(
      argc, argv,
      {.name = "asterism-controller",
       .usage = "places training gangs beside a stock kube-scheduler",
       .main_file = "controller/main.cc",
       .version = ASTERISM_VERSION});
  if (ended.has_value()) {
    return *ended;
  }
  if (absl::GetFlag(FLAGS_help_configuration)) {
    std::cout << asterism::controller::ConfigurationHelp();
    return 0;
  }
  if (const absl::Status status = asterism::controller::Run(); !status.ok()) {
    std::cerr << "asterism-controller: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
