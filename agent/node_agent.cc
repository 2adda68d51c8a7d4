#include "agent/node_agent.h"

#include <algorithm>
#include <utility>

#include "agent/device_report.h"
#include "agent/health_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

constexpr absl::Duration kKeepReports = absl::Minutes(10);
constexpr size_t kReportsMax = 2000;

// Measurements are numbered upwards within a boot, and an agent that starts anew goes on above the
// one before: nobody sends a change each millisecond.
ControllerLinkOptions WithFirstGeneration(ControllerLinkOptions link, const base::Clock& clock) {
  link.first_generation = static_cast<uint64_t>(clock.SteadyNow().nanos / 1'000'000);
  return link;
}

}  // namespace

NodeAgent::NodeAgent(Dependencies dependencies, NodeAgentOptions options)
    : clock_(dependencies.clock),
      executor_(dependencies.executor),
      options_(std::move(options)),
      link_(executor_, dependencies.rng, WithFirstGeneration(options_.link, clock_)),
      memory_(options_.state_folder.empty() ? "" : options_.state_folder + "/devices.json",
              options_.link.hello.boot_id()),
      read_timer_(executor_),
      resources_(options_.kubelet_root + "/pod-resources/kubelet.sock", options_.resources) {
  measurer_ = std::make_unique<NodeMeasurer>(
      executor_, MakeProbes(options_.probes), NodeMeasurerOptions{},
      [this](const v1::NodeMeasurement& measured) { link_.Tell(measured); });
}

NodeAgent::~NodeAgent() {
  measurer_.reset();
  port_.reset();
  port_plugin_.reset();
  reader_.Stop();
}

absl::Status NodeAgent::Start() {
  ASSIGN_OR_RETURN(
      port_, PodPort::Open({.folder = options_.port_folder, .proc = options_.proc}, clock_,
                           executor_, [this](const WorkerReport& report) { OnReport(report); }));
  Grant grant{
      .environment = {{"ASTERISM_PORT", fmt::format("{}/{}", kPortFolderInPod, kPortSocketName)}},
      // The folder, not the socket: an agent that starts anew makes a new socket in it.
      .mounts = {{.host_path = options_.port_folder, .container_path = kPortFolderInPod}}};
  ASSIGN_OR_RETURN(port_plugin_,
                   DevicePlugin::Start({.resource = kPortResource,
                                        .folder = options_.kubelet_root + "/device-plugins",
                                        .socket = "asterism-port.sock"},
                                       [grant](const std::vector<std::string>&) { return grant; }));
  std::vector<PluginDevice> ports;
  ports.reserve(static_cast<size_t>(options_.ports));
  for (int i = 0; i < options_.ports; ++i) {
    ports.push_back({.id = fmt::format("port-{}", i)});
  }
  port_plugin_->SetDevices(std::move(ports));
  executor_.Post([this] {
    link_.Start();
    measurer_->Start();
    ReadDevices();
  });
  return absl::OkStatus();
}

std::vector<std::string> NodeAgent::Complaints() const {
  std::vector<std::string> complaints;
  if (!link_.attached()) {
    complaints.emplace_back("not attached to the controller");
  }
  if (!port_plugin_->registered()) {
    complaints.emplace_back("kubelet has not taken the device plug-in of the port yet");
  }
  if (!problem_.empty()) {
    complaints.push_back(problem_);
  }
  for (std::string& complaint : measurer_->Complaints()) {
    complaints.push_back(std::move(complaint));
  }
  return complaints;
}

void NodeAgent::TellHealth() {
  if (options_.health_file.empty()) {
    return;
  }
  const absl::Status written = WriteHealth(options_.health_file, Complaints(), clock_.SteadyNow());
  if (!written.ok()) {
    base::LogWarning("health_not_written", {{"error", std::string(written.message())}});
  }
}

void NodeAgent::ReadDevices() {
  read_timer_.Start(options_.read_period, [this] { ReadDevices(); });
  TellHealth();
  ForgetOld();
  if (std::exchange(reading_, true)) {
    return;  // kubelet has not answered the last time yet
  }
  reader_.Post([this] {
    executor_.Post(
        [this, devices = resources_.Read()]() mutable { OnDevices(std::move(devices)); });
  });
}

void NodeAgent::OnDevices(absl::StatusOr<std::vector<HeldDevice>> devices) {
  reading_ = false;
  const std::string problem = devices.ok() ? "" : std::string(devices.status().message());
  if (problem != problem_) {
    problem_ = problem;
    if (!problem.empty()) {
      base::LogWarning("devices_unknown", {{"error", problem}});
    }
  }
  v1::DeviceReport report;
  if (devices.ok()) {
    report = DeviceReportOf(memory_.Complete(*devices, clock_.SteadyNow()));
  } else {
    report.set_problem(problem);
  }
  link_.Tell(std::move(report));
}

void NodeAgent::OnReport(const WorkerReport& report) {
  const bool first = !pods_.contains(report.pod.uid);
  pods_[report.pod.uid] = {.connected = report.connected, .last = clock_.SteadyNow()};
  if (first) {
    base::LogInfo("pod_speaks", {{"pod_uid", report.pod.uid}, {"says_job", report.state.job()}});
  }
  v1::PodReport told;
  told.set_pod_uid(report.pod.uid);
  *told.mutable_state() = report.state;
  told.set_connected(report.connected);
  link_.Tell(std::move(told));
  ForgetOld();
}

void NodeAgent::ForgetOld() {
  const base::SteadyTime now = clock_.SteadyNow();
  std::erase_if(pods_, [&](const auto& entry) {
    const bool old = !entry.second.connected && now - entry.second.last > kKeepReports;
    if (old) {
      link_.Forget(entry.first);
    }
    return old;
  });
  while (pods_.size() > kReportsMax) {
    // Rather one that has ended than one that runs; among these the oldest.
    const auto least = std::ranges::min_element(pods_, {}, [](const auto& entry) {
      return std::pair(entry.second.connected, entry.second.last);
    });
    link_.Forget(least->first);
    pods_.erase(least);
  }
}

}  // namespace asterism::agent
