// asterism-agent: one on each GPU node; see agent/node_agent.h.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "agent/health_file.h"
#include "agent/node_agent.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/open_files.h"
#include "base/program_options.h"
#include "base/rng.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "google/protobuf/util/json_util.h"

ABSL_FLAG(std::string, node, "", "name of this node; default: $NODE_NAME");
ABSL_FLAG(std::string, controller, "asterism-extender.asterism-system.svc:9443",
          "address of the controller, host:port");
ABSL_FLAG(std::string, tls_folder, "",
          "folder with ca.crt, tls.crt and tls.key; empty: plain text, where the network is closed "
          "to strangers");
ABSL_FLAG(std::string, server_name, "",
          "name in the controller's certificate; default: the host of --controller");
ABSL_FLAG(
    std::string, relay_host, "",
    "IP address of this agent where others reach it when it is their relay; default: $POD_IP; "
    "without one it is never a relay");
ABSL_FLAG(uint16_t, relay_port, 9444, "port at that address; 0: any free one");
ABSL_FLAG(std::string, token, "/var/run/secrets/kubernetes.io/serviceaccount/token",
          "file with the token of the agent's ServiceAccount");
ABSL_FLAG(std::string, kubelet_root, "/var/lib/kubelet", "kubelet's --root-dir");
ABSL_FLAG(std::string, boot_id_file, "/proc/sys/kernel/random/boot_id",
          "tells one boot of the node from the next");
ABSL_FLAG(std::string, proc, "/proc", "the host's /proc");
ABSL_FLAG(std::string, port_folder, "/run/asterism",
          "folder of the socket for pods; the same path on the host");
ABSL_FLAG(std::string, state_folder, "/var/lib/asterism", "what is kept over restarts");
ABSL_FLAG(std::string, resources, "nvidia.com/gpu",
          "extended resources that count GPUs, with commas");
ABSL_FLAG(std::string, sysfs, "/sys",
          "the host's /sys; that of a container lacks the host's network devices");
ABSL_FLAG(absl::Duration, probe_period, absl::Seconds(30),
          "how often GPUs and the PCI bus are looked at; 1 s to 1 h");
ABSL_FLAG(std::string, nvml_libraries, "",
          "files to try for libnvidia-ml.so.1, with commas; a * stands for a folder; default: what "
          "the loader finds, then the driver container's tree");
ABSL_FLAG(std::string, pci_overlay, "",
          "file in NCCL's topology format that says where the devices of a guest really are");
ABSL_FLAG(std::string, lldp_file, "", "file with the output of lldpctl -f json0");
ABSL_FLAG(std::string, lldp_command, "",
          "program that prints the same, with its arguments; not with --lldp-file");
ABSL_FLAG(std::string, npu_topology_file, "", "file with the output of npu-smi info -t topo");
ABSL_FLAG(std::string, npu_topology_command, "",
          "program that prints the same, with its arguments; not with --npu-topology-file");
ABSL_FLAG(std::string, clouds, "",
          "metadata services to ask for the node's place, with commas: aws, gcp, oci");
ABSL_FLAG(std::string, health_file, "",
          "written every ten seconds, for --healthy; give it a folder that nobody else writes to");
ABSL_FLAG(std::string, healthy, "",
          "live or ready: ask the agent that writes --health-file, and end: 0 yes, 1 no");
ABSL_FLAG(bool, measure, false,
          "measure this node once, print what was found as JSON, and end; needs no controller");
ABSL_FLAG(std::string, log_format, "text", "text or json");

namespace asterism::agent {
namespace {

absl::StatusOr<TextSource> SourceFromFlags(std::string_view name, std::string file,
                                           const std::string& command) {
  TextSource source{.file = std::move(file),
                    .command = absl::StrSplit(command, ' ', absl::SkipEmpty())};
  if (!source.file.empty() && !source.command.empty()) {
    return absl::InvalidArgumentError(fmt::format("--{0}-command: goes without --{0}-file", name));
  }
  return source;
}

absl::StatusOr<ProbeSetOptions> ProbesFromFlags() {
  ProbeSetOptions probes;
  probes.roots = {.sysfs = absl::GetFlag(FLAGS_sysfs), .proc = absl::GetFlag(FLAGS_proc)};
  probes.period = absl::GetFlag(FLAGS_probe_period);
  if (probes.period < absl::Seconds(1) || probes.period > absl::Hours(1)) {
    return absl::InvalidArgumentError("--probe-period: is to be from 1s to 1h");
  }
  probes.nvml_libraries =
      absl::StrSplit(absl::GetFlag(FLAGS_nvml_libraries), ',', absl::SkipEmpty());
  probes.overlay_file = absl::GetFlag(FLAGS_pci_overlay);
  ASSIGN_OR_RETURN(probes.lldp, SourceFromFlags("lldp", absl::GetFlag(FLAGS_lldp_file),
                                                absl::GetFlag(FLAGS_lldp_command)));
  ASSIGN_OR_RETURN(probes.npu_topology,
                   SourceFromFlags("npu-topology", absl::GetFlag(FLAGS_npu_topology_file),
                                   absl::GetFlag(FLAGS_npu_topology_command)));
  for (const absl::string_view name :
       absl::StrSplit(absl::GetFlag(FLAGS_clouds), ',', absl::SkipEmpty())) {
    const absl::StatusOr<Cloud> cloud = CloudNamed(base::ToStd(name));
    if (!cloud.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--clouds: ", cloud.status().message()));
    }
    probes.clouds.push_back(*cloud);
  }
  return probes;
}

absl::StatusOr<NodeAgentOptions> OptionsFromFlags() {
  NodeAgentOptions options;
  std::string node = absl::GetFlag(FLAGS_node);
  if (const char* name = std::getenv("NODE_NAME"); node.empty() && name != nullptr) {
    node = name;
  }
  if (node.empty()) {
    return absl::InvalidArgumentError("--node: is missing, and NODE_NAME is not set");
  }
  options.proc = absl::GetFlag(FLAGS_proc);
  ASSIGN_OR_RETURN(std::string boot_id, base::ReadSmallFile(absl::GetFlag(FLAGS_boot_id_file)));
  boot_id.erase(boot_id.find_last_not_of("\n") + 1);
  options.link.address = absl::GetFlag(FLAGS_controller);
  options.link.server_name = absl::GetFlag(FLAGS_server_name);
  if (const std::string folder = absl::GetFlag(FLAGS_tls_folder); !folder.empty()) {
    options.link.authority_path = folder + "/ca.crt";
    options.link.certificate_path = folder + "/tls.crt";
    options.link.key_path = folder + "/tls.key";
  }
  options.link.token_path = absl::GetFlag(FLAGS_token);
  options.link.relay_host = absl::GetFlag(FLAGS_relay_host);
  if (const char* address = std::getenv("POD_IP");
      options.link.relay_host.empty() && address != nullptr) {
    options.link.relay_host = address;
  }
  options.link.relay_port = absl::GetFlag(FLAGS_relay_port);
  options.link.hello.set_node(node);
  options.link.hello.set_boot_id(boot_id);
  options.link.hello.set_agent_version(ASTERISM_VERSION);
  options.kubelet_root = absl::GetFlag(FLAGS_kubelet_root);
  options.port_folder = absl::GetFlag(FLAGS_port_folder);
  options.state_folder = absl::GetFlag(FLAGS_state_folder);
  options.health_file = absl::GetFlag(FLAGS_health_file);
  options.resources.clear();
  for (const absl::string_view resource :
       absl::StrSplit(absl::GetFlag(FLAGS_resources), ',', absl::SkipEmpty())) {
    options.resources.emplace(resource);
  }
  ASSIGN_OR_RETURN(options.probes, ProbesFromFlags());
  return options;
}

// For people: the log goes to the standard error stream, so the output is JSON alone.
absl::Status MeasureOnce() {
  ASSIGN_OR_RETURN(const ProbeSetOptions options, ProbesFromFlags());
  v1::NodeMeasurement measured;
  absl::Notification done;
  base::ThreadExecutor core("core");
  NodeMeasurer measurer(core, MakeProbes(options), {}, [&](v1::NodeMeasurement now) {
    if (!done.HasBeenNotified()) {
      measured = std::move(now);
      done.Notify();
    }
  });
  core.Post([&measurer] { measurer.Start(); });
  done.WaitForNotification();  // every probe has a deadline
  core.Stop();
  google::protobuf::util::JsonPrintOptions print;
  print.add_whitespace = true;
  print.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(measured, &json, print).ok()) {
    return absl::InternalError("what was measured cannot be written as JSON");
  }
  std::cout << json << std::flush;
  return absl::OkStatus();
}

absl::Status AnswerHealth(const std::string& question) {
  if (question != "live" && question != "ready") {
    return absl::InvalidArgumentError("--healthy: is to be live or ready");
  }
  return CheckHealth(absl::GetFlag(FLAGS_health_file),
                     question == "live" ? HealthQuestion::kLive : HealthQuestion::kReady,
                     base::SystemClock().SteadyNow());
}

absl::Status Run() {
  if (const std::string question = absl::GetFlag(FLAGS_healthy); !question.empty()) {
    return AnswerHealth(question);
  }
  base::SetUpLog(
      absl::GetFlag(FLAGS_log_format) == "json" ? base::LogFormat::kJson : base::LogFormat::kText,
      base::LogLevel::kInfo);
  if (absl::GetFlag(FLAGS_measure)) {
    return MeasureOnce();
  }
  // Pods connect to it.
  base::RaiseOpenFileLimit();
  ASSIGN_OR_RETURN(NodeAgentOptions options, OptionsFromFlags());
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  const std::string node = options.link.hello.node();
  base::SystemClock clock;
  base::ThreadExecutor core("core");
  auto agent = std::make_unique<NodeAgent>(
      NodeAgent::Dependencies{clock, core, base::Rng(base::Rng::SystemSeed())}, std::move(options));
  RETURN_IF_ERROR(agent->Start());
  base::LogInfo("started", {{"node", node}, {"version", ASTERISM_VERSION}});

  int signal = 0;
  sigwait(&signals, &signal);
  base::LogInfo("stopping", {{"signal", signal}});
  core.Stop();
  agent.reset();
  return absl::OkStatus();
}

}  // namespace
}  // namespace asterism::agent

int main(int argc, char** argv) {
  const std::optional<int> ended =
      asterism::base::ParseProgramOptions(argc, argv,
                                          {.name = "asterism-agent",
                                           .usage = "tells asterism-controller about one node",
                                           .main_file = "agent/main.cc",
                                           .version = ASTERISM_VERSION});
  if (ended.has_value()) {
    return *ended;
  }
  if (const absl::Status status = asterism::agent::Run(); !status.ok()) {
    std::cerr << "asterism-agent: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
