#include "controller/agent_registry.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/cut_text.h"
#include "base/log.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

constexpr int kDevicesMax = 4096;
constexpr size_t kNameMax = 253;
constexpr size_t kUidMax = 64;

std::optional<operators::ProcessEnd> EndOf(bool has, const v1::ProcessEnd& end) {
  if (!has) {
    return std::nullopt;
  }
  operators::ProcessEnd result{.time = absl::FromUnixNanos(end.time_unix_nanos())};
  if (end.rank() >= 0) {
    result.rank = end.rank();
  }
  if (end.exit_code() >= 0 && end.exit_code() <= 255) {
    result.exit_code = end.exit_code();
  }
  if (end.signal() > 0 && end.signal() <= 64) {
    result.signal = end.signal();
  }
  return result;
}

// JSON has no other numbers, and the status of a job is JSON.
double FiniteOf(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

operators::WorkerReport ReportOf(const v1::PodReport& report, std::string node) {
  const v1::WorkerState& state = report.state();
  operators::WorkerReport result{
      .first_cause = EndOf(state.has_first_cause(), state.first_cause()),
      .exit = EndOf(state.has_exit(), state.exit()),
      .progress_problem = std::string(base::CutText(state.progress_problem(), 512)),
      .connected = report.connected(),
      .node = std::move(node)};
  if (state.has_progress() && state.progress().step() >= 0) {
    result.progress = operators::WorkerProgress{
        .step = state.progress().step(),
        .step_time_milliseconds = FiniteOf(state.progress().step_time_milliseconds()),
        .tokens_per_second = FiniteOf(state.progress().tokens_per_second())};
  }
  return result;
}

}  // namespace

AgentRegistry::AgentRegistry(Dependencies dependencies, std::vector<std::string> gpu_resources)
    : dependencies_(std::move(dependencies)),
      gpu_resources_(std::move(gpu_resources)),
      attached_gauge_(
          dependencies_.registry
              .AddGauge("asterism_agents_attached",
                        "Agents that speak to this process, over a stream of their own or "
                        "through a relay.")
              .With({})),
      unhealthy_gauge_(dependencies_.registry
                           .AddGauge("asterism_unhealthy_devices",
                                     "GPUs that kubelet does not offer any more, as the agents of "
                                     "their nodes tell.")
                           .With({})),
      frames_(dependencies_.registry.AddCounter("asterism_agent_frames_total",
                                                "Frames from agents, by kind and result.",
                                                {"kind", "result"})) {}

void AgentRegistry::Attach(uint64_t stream, const v1::AgentHello& hello) {
  Node& node = nodes_[hello.node()];
  if (node.stream != 0) {
    node_of_stream_.erase(node.stream);
    dependencies_.reports.Silence(hello.node());
  }
  if (node.boot_id != hello.boot_id()) {
    // Another boot is another set of processes, and perhaps of devices: what is well again will be
    // told from what was not.
    std::set<std::string> unhealthy = std::move(node.unhealthy);
    node = {};
    node.boot_id = hello.boot_id();
    node.unhealthy = std::move(unhealthy);
    PutHolders(hello.node(), {});
  }
  if (node.measured != nullptr) {
    node.measured->ExpectAll();
  }
  node.asked = false;
  node.gone = false;
  node.stream = stream;
  node_of_stream_[stream] = hello.node();
  attached_gauge_.Set(static_cast<double>(node_of_stream_.size()));
  base::LogInfo(
      "agent_attached",
      {{"node", hello.node()}, {"boot_id", hello.boot_id()}, {"version", hello.agent_version()}});
}

void AgentRegistry::Detach(uint64_t stream) {
  const auto found = node_of_stream_.find(stream);
  if (found == node_of_stream_.end()) {
    return;
  }
  base::LogInfo("agent_detached", {{"node", found->second}});
  nodes_[found->second].stream = 0;
  dependencies_.reports.Silence(found->second);
  const std::string name = std::move(found->second);
  node_of_stream_.erase(found);
  if (nodes_[name].gone) {
    ForgetNode(name);
  }
  attached_gauge_.Set(static_cast<double>(node_of_stream_.size()));
}

void AgentRegistry::Hear(uint64_t stream) {
  if (const auto found = node_of_stream_.find(stream); found != node_of_stream_.end()) {
    dependencies_.reports.Hear(found->second, dependencies_.clock.SteadyNow());
    dependencies_.on_heard(found->second);
  }
}

AgentRegistry::Node* AgentRegistry::NodeOf(uint64_t stream) {
  const auto found = node_of_stream_.find(stream);
  return found == node_of_stream_.end() ? nullptr : &nodes_[found->second];
}

absl::Status AgentRegistry::OnDevices(uint64_t stream, const v1::DeviceReport& report) {
  Node* node = NodeOf(stream);
  if (node == nullptr || !report.problem().empty()) {
    frames_.With({"devices", node == nullptr ? "replaced" : "unknown"}).Add();
    return absl::OkStatus();
  }
  if (report.devices_size() > kDevicesMax) {
    frames_.With({"devices", "refused"}).Add();
    return absl::InvalidArgumentError(
        fmt::format("devices: {} of one node, more than {}", report.devices_size(), kDevicesMax));
  }
  const std::string& name = node_of_stream_.at(stream);
  HoldersOfNode holders;
  std::set<std::string> unhealthy;
  std::vector<GpuDevice> gpus;
  for (const v1::Device& device : report.devices()) {
    const bool is_gpu =
        std::ranges::find(gpu_resources_, device.resource()) != gpu_resources_.end();
    if (!is_gpu || device.id().empty() || device.id().size() > kNameMax ||
        device.pod_name().size() > kNameMax || device.pod_namespace().size() > kNameMax) {
      continue;
    }
    gpus.push_back(
        {.id = device.id(), .numa_node = device.numa_node(), .unhealthy = device.unhealthy()});
    if (!device.pod_name().empty()) {
      std::string pod = device.pod_namespace() + "/" + device.pod_name();
      if (!dependencies_.has_ended(name, pod)) {
        holders.push_back({std::move(pod), device.id()});
      }
    }
    if (device.unhealthy()) {
      unhealthy.insert(device.id());
    }
  }
  frames_.With({"devices", "ok"}).Add();
  TellHealth(name, *node, std::move(unhealthy));
  node->islands.TakeDevices(gpus);
  PutHolders(name, std::move(holders));
  return absl::OkStatus();
}

void AgentRegistry::TellHealth(const std::string& name, Node& node,
                               std::set<std::string> unhealthy) {
  if (unhealthy == node.unhealthy) {
    return;
  }
  for (const std::string& id : unhealthy) {
    if (!node.unhealthy.contains(id)) {
      dependencies_.tell(
          {.node = name,
           .warning = true,
           .reason = "DeviceUnhealthy",
           .message = fmt::format(
               "device {} of node {} is not offered any more: no new pod gets it", id, name)});
    }
  }
  for (const std::string& id : node.unhealthy) {
    if (!unhealthy.contains(id)) {
      dependencies_.tell(
          {.node = name,
           .reason = "DeviceHealthy",
           .message = fmt::format("device {} of node {} is offered again", id, name)});
    }
  }
  node.unhealthy = std::move(unhealthy);
  CountUnhealthy();
}

void AgentRegistry::CountUnhealthy() {
  size_t count = 0;
  for (const auto& [name, node] : nodes_) {
    count += node.unhealthy.size();
  }
  unhealthy_gauge_.Set(static_cast<double>(count));
}

absl::Status AgentRegistry::OnPod(uint64_t stream, const v1::PodReport& report) {
  if (NodeOf(stream) == nullptr) {
    frames_.With({"pod", "replaced"}).Add();
    return absl::OkStatus();
  }
  if (report.pod_uid().empty() || report.pod_uid().size() > kUidMax) {
    frames_.With({"pod", "refused"}).Add();
    return absl::InvalidArgumentError("pod_uid: is missing, or no UID");
  }
  const std::string& node = node_of_stream_.at(stream);
  frames_.With({"pod", "ok"}).Add();
  dependencies_.reports.Put(report.pod_uid(), ReportOf(report, node),
                            dependencies_.clock.SteadyNow());
  dependencies_.on_report(report.pod_uid());
  return absl::OkStatus();
}

bool AgentRegistry::OnMeasurement(uint64_t stream, const v1::NodeMeasurement& measurement) {
  Node* node = NodeOf(stream);
  if (node == nullptr) {
    frames_.With({"measurement", "replaced"}).Add();
    return false;
  }
  const std::string& name = node_of_stream_.at(stream);
  if (node->measured == nullptr) {
    node->measured = std::make_unique<MeasuredNode>(name, node->boot_id);
  }
  const absl::StatusOr<MeasuredNode::Taken> taken = node->measured->Take(measurement);
  if (!taken.ok()) {
    frames_.With({"measurement", "refused"}).Add();
    base::LogWarning("measurement_refused",
                     {{"node", name}, {"error", std::string(taken.status().message())}});
    return false;
  }
  switch (*taken) {
    case MeasuredNode::Taken::kLost:
      frames_.With({"measurement", "lost"}).Add();
      return !std::exchange(node->asked, true);
    case MeasuredNode::Taken::kNews: {
      topology::NodeReport report = node->measured->report();
      report.generation = ++measurements_;
      dependencies_.on_measured(std::move(report));
      if (measurement.has_gpus()) {
        node->islands.TakeGpus(measurement.gpus());
        TellIslands(name);
      }
      break;
    }
    case MeasuredNode::Taken::kSame:
      break;
  }
  node->asked = false;
  frames_.With({"measurement", "ok"}).Add();
  return false;
}

void AgentRegistry::OnBeat(uint64_t stream) {
  if (node_of_stream_.contains(stream)) {
    frames_.With({"beat", "ok"}).Add();
  }
}

void AgentRegistry::ForgetNode(std::string_view name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) {
    return;
  }
  found->second.gone = true;
  if (found->second.stream != 0) {
    return;  // with the stream
  }
  nodes_.erase(found);
  CountUnhealthy();
  PutHolders(std::string(name), {});
}

void AgentRegistry::ForgetPod(std::string_view node, std::string_view pod) {
  HoldersOfNode rest;
  {
    absl::MutexLock lock(&holders_mutex_);
    const auto known = holders_.find(node);
    if (known == holders_.end() ||
        std::ranges::none_of(*known->second, [pod](const Held& each) { return each.pod == pod; })) {
      return;
    }
    rest = *known->second;
  }
  std::erase_if(rest, [pod](const Held& each) { return each.pod == pod; });
  PutHolders(std::string(node), std::move(rest));
}

bool AgentRegistry::HasAgent(std::string_view node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.stream != 0;
}

void AgentRegistry::Clear() {
  nodes_.clear();
  node_of_stream_.clear();
  attached_gauge_.Set(0);
  CountUnhealthy();
  absl::MutexLock lock(&holders_mutex_);
  holders_.clear();
}

void AgentRegistry::PutHolders(const std::string& node, HoldersOfNode holders) {
  auto shared = std::make_shared<const HoldersOfNode>(std::move(holders));
  {
    absl::MutexLock lock(&holders_mutex_);
    if (shared->empty()) {
      holders_.erase(node);
    } else {
      holders_[node] = std::move(shared);
    }
  }
  TellIslands(node);
}

void AgentRegistry::TellIslands(const std::string& node) {
  const auto known = nodes_.find(node);
  std::set<std::string> taken;
  {
    absl::MutexLock lock(&holders_mutex_);
    if (const auto held = holders_.find(node); held != holders_.end()) {
      for (const Held& each : *held->second) {
        taken.insert(each.id);
      }
    }
  }
  dependencies_.on_islands(
      node, known == nodes_.end() ? scheduler::GpuIslands() : known->second.islands.With(taken));
}

DeviceHolders AgentRegistry::Holders() const {
  std::vector<std::shared_ptr<const HoldersOfNode>> nodes;
  {
    absl::MutexLock lock(&holders_mutex_);
    nodes.reserve(holders_.size());
    for (const auto& [name, holders] : holders_) {
      nodes.push_back(holders);
    }
  }
  DeviceHolders result;
  for (const auto& holders : nodes) {
    for (const Held& held : *holders) {
      result[held.pod].push_back(held.id);
    }
  }
  for (auto& [holder, ids] : result) {
    std::ranges::sort(ids);
  }
  return result;
}

}  // namespace asterism::controller
