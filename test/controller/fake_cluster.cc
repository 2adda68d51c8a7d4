#include "fake_cluster.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kube/decoder.h"
#include "operator/pod_builder.h"

namespace asterism::controller {
namespace {

using nlohmann::json;

constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr char kNamespace[] = "research";
constexpr char kGpu[] = "nvidia.com/gpu";

json NodeJson(const std::string& name, const std::string& supernode) {
  const json resources = {{"cpu", "192"}, {"memory", "2Ti"}, {"pods", "110"}, {kGpu, "8"}};
  return {{"metadata",
           {{"name", name},
            {"labels",
             {{"asterism.dev/declared-supernode", supernode},
              {"nvidia.com/gpu.product", "H100"},
              {"kubernetes.io/hostname", name}}}}},
          {"spec", json::object()},
          {"status",
           {{"capacity", resources},
            {"allocatable", resources},
            {"conditions", json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
}

kube::Pod DecodePodJson(const json& object) {
  const std::string text = object.dump();
  absl::StatusOr<kube::Pod> pod = kube::DecodePod({kube::Encoding::kJson, text});
  return pod.ok() ? *pod : kube::Pod{};
}

int64_t GpusOf(const kube::Pod& pod) {
  for (const kube::ResourceAmount& amount : pod.requests) {
    if (amount.name == kGpu) {
      return amount.amount;
    }
  }
  return 0;
}

}  // namespace

struct FakeCluster::Controller {
  base::MetricRegistry registry;
  std::unique_ptr<ControlPlane> plane;
};

FakeCluster::FakeCluster(uint64_t seed)
    : rng_(seed),
      executor_(clock_),
      server_(std::make_unique<kube::testing::FakeApiServer>(
          clock_, executor_, kube::testing::FakeApiServerOptions{})) {
  server_->Put(kube::kNamespaces, {{"metadata", {{"name", kNamespace}}}});
  server_->Put(kube::kNamespaces, {{"metadata", {{"name", "asterism-system"}}}});
  AddQueue("default");
  Tick();
}

FakeCluster::~FakeCluster() {
  controllers_.clear();
}

void FakeCluster::AddNodes(int count, int nodes_per_supernode) {
  for (int i = 0; i < count; ++i) {
    server_->Put(kube::kNodes, NodeJson(fmt::format("node-{:03}", i),
                                        fmt::format("sn-{:02}", i / nodes_per_supernode)));
  }
}

void FakeCluster::AddQueue(const std::string& name) {
  server_->Put(operators::kQueues, {{"apiVersion", "asterism.dev/v1alpha1"},
                                    {"kind", "Queue"},
                                    {"metadata", {{"name", name}}},
                                    {"spec", {{"namespaceSelector", json::object()}}}});
}

void FakeCluster::RemoveNode(const std::string& name) {
  server_->Remove(kube::kNodes, {"", name});
}

void FakeCluster::SetUnschedulable(const std::string& node, bool unschedulable) {
  server_->Merge(kube::kNodes, {"", node}, {{"spec", {{"unschedulable", unschedulable}}}});
}

void FakeCluster::StartController(const std::string& name) {
  auto controller = std::make_unique<Controller>();
  configuration_.leader_election = {.lease_duration = absl::Seconds(3),
                                    .renew_deadline = absl::Seconds(2),
                                    .retry_period = absl::Milliseconds(500)};
  controller->plane = std::make_unique<ControlPlane>(
      ControlPlane::Dependencies{clock_, executor_, rng_.Fork(name), *server_, *server_,
                                 controller->registry},
      configuration_,
      Identity{.namespace_name = "asterism-system",
               .name = name,
               .pod_ip = fmt::format("10.0.0.{}", ++addresses_)});
  controller->plane->Start();
  controllers_[name] = std::move(controller);
}

void FakeCluster::KillController(const std::string& name) {
  controllers_.erase(name);
}

void FakeCluster::StopController(const std::string& name) {
  bool stopped = false;
  controllers_.at(name)->plane->Stop([&] { stopped = true; });
  RunUntil([&] { return stopped; }, absl::Seconds(5));
  controllers_.erase(name);
}

ControlPlane* FakeCluster::leader() {
  for (const auto& [name, controller] : controllers_) {
    if (controller->plane->leading()) {
      return controller->plane.get();
    }
  }
  return nullptr;
}

base::MetricRegistry& FakeCluster::registry(const std::string& name) {
  return controllers_.at(name)->registry;
}

void FakeCluster::CreateJob(const std::string& name, int gpus, const json& spec_patch) {
  json spec = {{"queue", "default"},
               {"gpus", gpus},
               {"framework", "TorchRun"},
               {"container", {{"image", "train:1"}, {"command", {"torchrun", "train.py"}}}}};
  spec.merge_patch(spec_patch.is_null() ? json::object() : spec_patch);
  server_->Put(operators::kTrainingJobs, {{"apiVersion", "asterism.dev/v1alpha1"},
                                          {"kind", "TrainingJob"},
                                          {"metadata", {{"namespace", kNamespace}, {"name", name}}},
                                          {"spec", spec}});
}

void FakeCluster::PatchJob(const std::string& name, const json& patch) {
  server_->Merge(operators::kTrainingJobs, {kNamespace, name}, patch);
}

void FakeCluster::DeleteJob(const std::string& name) {
  server_->Remove(operators::kTrainingJobs, {kNamespace, name});
}

json FakeCluster::Job(const std::string& name) const {
  const auto object = server_->Find(operators::kTrainingJobs, {kNamespace, name});
  return object == nullptr ? json() : *object;
}

json FakeCluster::StatusOf(const std::string& name) const {
  return Job(name).value("status", json::object());
}

std::string FakeCluster::StateOf(const std::string& name) const {
  const json job = Job(name);
  return job.is_null() ? "absent" : job.value("status", json::object()).value("state", "");
}

std::map<std::string, json> FakeCluster::PodsOf(const std::string& name) const {
  std::map<std::string, json> pods;
  for (const auto& pod : server_->All(kube::kPods)) {
    const json labels = pod->at("metadata").value("labels", json::object());
    if (labels.value(std::string(operators::kJobLabel), "") == name) {
      pods[pod->at("metadata").at("name")] = *pod;
    }
  }
  return pods;
}

void FakeCluster::EndPods(const std::string& job, int exit_code) {
  for (const auto& [name, pod] : PodsOf(job)) {
    EndPod(name, exit_code);
  }
}

void FakeCluster::EndPod(const std::string& pod, int exit_code) {
  const std::string now = absl::FormatTime(absl::RFC3339_sec, clock_.Now(), absl::UTCTimeZone());
  const json terminated = {{"exitCode", exit_code},
                           {"reason", exit_code == 0 ? "Completed" : "Error"},
                           {"finishedAt", now}};
  server_->Merge(
      kube::kPods, {kNamespace, pod},
      {{"status",
        {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
         {"containerStatuses",
          json::array({{{"name", "trainer"}, {"state", {{"terminated", terminated}}}}})}}}});
}

bool FakeCluster::RunUntil(const std::function<bool()>& reached, absl::Duration limit) {
  const base::SteadyTime end = clock_.SteadyNow() + limit;
  while (clock_.SteadyNow() < end) {
    if (reached()) {
      return true;
    }
    executor_.RunFor(absl::Milliseconds(20));
  }
  return reached();
}

void FakeCluster::Run(absl::Duration duration) {
  executor_.RunFor(duration);
}

void FakeCluster::Tick() {
  ScheduleAndRunPods();
  executor_.PostAfter(kTick, [this] { Tick(); });
}

// Binds pinned pods where GPUs are free, tells the others why not, and lets bound ones run. Nodes
// that are gone keep their pods until somebody removes them, as in a cluster without pod collector.
void FakeCluster::ScheduleAndRunPods() {
  std::map<std::string, int64_t> free;
  for (const auto& node : server_->All(kube::kNodes)) {
    if (!node->value("spec", json::object()).value("unschedulable", false)) {
      free[node->at("metadata").at("name")] = 8;
    }
  }
  std::vector<kube::Pod> pods;
  for (const auto& object : server_->All(kube::kPods)) {
    // A pod that has ended or runs asks for nothing; reading it again would cost most of a test.
    const json& metadata = object->at("metadata");
    kube::Pod& known = decoded_[metadata.at("uid")];
    if (known.meta.resource_version != metadata.at("resourceVersion")) {
      known = DecodePodJson(*object);
    }
    pods.push_back(known);
    if (!pods.back().node_name.empty() && !pods.back().Terminal()) {
      free[pods.back().node_name] -= GpusOf(pods.back());
    }
  }
  for (const kube::Pod& pod : pods) {
    const kube::ObjectName name{pod.meta.namespace_name, pod.meta.name};
    if (!pod.node_name.empty()) {
      if (pod.phase == "Pending" && !pod.Deleting()) {
        server_->Merge(kube::kPods, name, {{"status", {{"phase", "Running"}}}});
      }
      continue;
    }
    if (!bind_pods_) {
      continue;
    }
    const std::string& node = pod.pinned_node_name;
    const bool fits = free.contains(node) && free[node] >= GpusOf(pod) && !refusing_.contains(node);
    if (fits) {
      free[node] -= GpusOf(pod);
      server_->Merge(kube::kPods, name,
                     {{"spec", {{"nodeName", node}}}, {"status", {{"phase", "Pending"}}}});
    } else if (kube::FindCondition(pod.conditions, "PodScheduled") == nullptr) {
      const std::string why =
          refusing_.contains(node) ? refusing_[node] : "Insufficient " + std::string(kGpu);
      server_->Merge(kube::kPods, name,
                     {{"status",
                       {{"phase", "Pending"},
                        {"conditions", json::array({{{"type", "PodScheduled"},
                                                     {"status", "False"},
                                                     {"reason", "Unschedulable"},
                                                     {"message", why}}})}}}});
    }
  }
}

std::string FakeCluster::Violations() const {
  std::map<std::string, int64_t> held;
  std::map<std::string, std::string> ranks;  // job uid + first rank + epoch -> pod
  for (const auto& object : server_->All(kube::kPods)) {
    const kube::Pod pod = DecodePodJson(*object);
    if (!pod.node_name.empty() && pod.node_name != pod.pinned_node_name &&
        !pod.pinned_node_name.empty()) {
      return fmt::format("pod {} is on {}, its pin is {}", pod.meta.name, pod.node_name,
                         pod.pinned_node_name);
    }
    if (pod.node_name.empty() || pod.Terminal()) {
      continue;
    }
    if ((held[pod.node_name] += GpusOf(pod)) > 8) {
      return fmt::format("node {} has {} GPUs given out", pod.node_name, held[pod.node_name]);
    }
    // Two live pods of one rank block at once would train the same ranks twice.
    operators::GangPodMark mark;
    if (operators::ReadGangPodMark(pod, mark) && !pod.Deleting()) {
      const std::string key = fmt::format("{}/{}", mark.job_uid, mark.first_rank);
      if (ranks.contains(key)) {
        return fmt::format("rank {} runs twice: {} and {}", mark.first_rank, ranks[key],
                           pod.meta.name);
      }
      ranks[key] = pod.meta.name;
    }
  }
  return "";
}

std::string FakeCluster::GangsNotWhole() const {
  std::map<std::string, std::pair<int, int>> gangs;  // bound, all wanted
  for (const auto& object : server_->All(operators::kTrainingJobs)) {
    const std::string uid = object->at("metadata").at("uid");
    const json status = object->value("status", json::object());
    gangs[uid] = {0, status.value("effective", json::object()).value("pods", 0)};
  }
  for (const auto& object : server_->All(kube::kPods)) {
    const kube::Pod pod = DecodePodJson(*object);
    const std::string uid(pod.meta.Label(operators::kJobUidLabel));
    if (!gangs.contains(uid)) {
      return fmt::format("pod {} has no job", pod.meta.name);
    }
    gangs[uid].first += pod.node_name.empty() || pod.Terminal() ? 0 : 1;
  }
  for (const auto& [uid, counts] : gangs) {
    if (counts.first != 0 && counts.first != counts.second) {
      return fmt::format("job {} has {} of {} pods", uid, counts.first, counts.second);
    }
  }
  return "";
}

}  // namespace asterism::controller
