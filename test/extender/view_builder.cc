#include "test/extender/view_builder.h"

#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "scheduler/gang_pod.h"

namespace asterism::scheduler::testing {

ViewBuilder::ViewBuilder(ViewShape shape) : shape_(std::move(shape)) {
  std::vector<topology::NodeFacts> facts;
  for (size_t supernode = 0; supernode < shape_.supernodes; ++supernode) {
    for (size_t node = 0; node < shape_.nodes_per_supernode; ++node) {
      facts.push_back({NodeName(supernode, node), {fmt::format("s{}", supernode)}});
    }
  }
  auto cluster = topology::BuildCluster({"node", "supernode", "cluster"}, std::move(facts));
  CHECK_THAT(cluster.ok(), cluster.status().ToString());
  view_.cluster = std::make_shared<const topology::Cluster>(*std::move(cluster));
  view_.resource_names = {"cpu", "memory", "pods", "nvidia.com/gpu"};
  for (size_t i = 0; i < view_.cluster->node_count(); ++i) {
    NodeView& node = view_.nodes.emplace_back();
    node.name = view_.cluster->node_name(NodeId(i));
    node.allocatable[kCpuSlot] = 96'000;
    node.allocatable[kMemorySlot] = int64_t{1} << 40;
    node.allocatable[kPodsSlot] = 110;
    node.allocatable[kGpuSlot] = shape_.gpus;
  }
}

std::string ViewBuilder::NodeName(size_t supernode, size_t node) const {
  return fmt::format("{}-{}-{}", shape_.name_prefix, supernode, node);
}

std::vector<std::string> ViewBuilder::NodeNames() const {
  std::vector<std::string> names;
  for (const NodeView& node : view_.nodes) {
    names.push_back(node.name);
  }
  return names;
}

NodeView& ViewBuilder::Node(std::string_view name) {
  const NodeId id = view_.cluster->FindNode(name);
  CHECK_THAT(id.valid(), std::string(name));
  return view_.nodes[id.index()];
}

void ViewBuilder::Split(std::string_view name, GpuIslands islands) {
  view_.gpu_islands.resize(view_.nodes.size());
  view_.gpu_islands[view_.cluster->FindNode(name).index()] = std::move(islands);
}

void ViewBuilder::Use(std::string_view name, size_t slot, int64_t amount) {
  Node(name).used[slot] += amount;
}

void ViewBuilder::AddBlock(std::string_view gang_uid, int64_t first_rank, std::string_view node,
                           int64_t epoch, std::string_view pod_uid) {
  GangView& gang = gangs_[std::string(gang_uid)];
  gang.uid = gang_uid;
  gang.name = fmt::format("research/{}", gang_uid);
  gang.epoch = std::max(gang.epoch, epoch);
  gang.gpus_per_block = shape_.gpus;
  gang.blocks.push_back({first_rank, std::string(node), epoch,
                         pod_uid.empty() ? BlockState::kReserved : BlockState::kPinned,
                         std::string(pod_uid)});
  Use(node, kGpuSlot, shape_.gpus);
}

std::shared_ptr<const LedgerView> ViewBuilder::Build() {
  ++view_.version;
  auto view = std::make_shared<LedgerView>(view_);
  for (const auto& [uid, gang] : gangs_) {
    view->gangs.emplace(uid, std::make_shared<const GangView>(gang));
  }
  return view;
}

std::string PodJson(const PodShape& pod) {
  std::string labels = R"("app":"train")";
  std::string annotations;
  if (!pod.job_uid.empty()) {
    labels += fmt::format(R"(,"asterism.dev/job":"{0}","asterism.dev/job-uid":"{0}")", pod.job_uid);
    annotations =
        fmt::format(R"("asterism.dev/ranks":"{}","asterism.dev/epoch":"{}")", pod.ranks, pod.epoch);
  }
  const std::string name =
      !pod.name.empty()     ? pod.name
      : pod.job_uid.empty() ? "pod"
                            : GangPodName(pod.job_uid, pod.job_uid, std::atoll(pod.ranks.c_str()),
                                          std::atoll(pod.epoch.c_str()));
  std::string environment;
  for (size_t i = 0; environment.size() < pod.extra_bytes; ++i) {
    environment += fmt::format(R"({}{{"name":"VARIABLE_{}","value":"some value of \"{}\""}})",
                               i == 0 ? "" : ",", i, i * i);
  }
  return fmt::format(
      R"({{"metadata":{{"name":"{0}","namespace":"{5}","uid":"uid-{0}",)"
      R"("resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z",)"
      R"("labels":{{{1}}},"annotations":{{{2}}}}},)"
      R"("spec":{{"containers":[{{"name":"trainer","image":"registry.example/train:1",)"
      R"("env":[{3}],"resources":{{"limits":{{"nvidia.com/gpu":"{4}"}},)"
      R"("requests":{{"cpu":"4","memory":"32Gi","nvidia.com/gpu":"{4}"}}}}}}],)"
      R"("schedulerName":"asterism","tolerations":[{{"operator":"Exists"}}]}},)"
      R"("status":{{"phase":"Pending"}}}})",
      name, labels, annotations, environment, pod.gpus, pod.namespace_name);
}

std::string ArgsJson(const PodShape& pod, const std::vector<std::string>& node_names) {
  std::string json = fmt::format(R"({{"Pod":{},"Nodes":null,"NodeNames":[)", PodJson(pod));
  for (const std::string& name : node_names) {
    json += '"' + name + "\",";
  }
  if (!node_names.empty()) {
    json.pop_back();
  }
  json += "]}";
  return json;
}

}  // namespace asterism::scheduler::testing
