#include "operator/cluster_feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "operator/pod_builder.h"
#include "operator/training_job.h"
#include "scheduler/gang_pod.h"

namespace asterism::operators {
namespace {

// GPU models are told by these node labels, the first present wins.
constexpr std::string_view kProductLabels[] = {"nvidia.com/gpu.product", "amd.com/gpu.product-name",
                                               "beta.amd.com/gpu.product-name"};

std::string ProductOf(const kube::Node& node) {
  for (const std::string_view label : kProductLabels) {
    if (const std::string_view value = node.meta.Label(label); !value.empty()) {
      return std::string(value);
    }
  }
  return "";
}

bool ParseRanks(std::string_view text, GangPodMark& mark) {
  const size_t dash = text.find('-');
  return dash != std::string_view::npos &&
         absl::SimpleAtoi(base::ToAbsl(text.substr(0, dash)), &mark.first_rank) &&
         absl::SimpleAtoi(base::ToAbsl(text.substr(dash + 1)), &mark.last_rank) &&
         mark.first_rank >= 0 && mark.last_rank >= mark.first_rank;
}

}  // namespace

bool ReadGangPodMark(const kube::Pod& pod, GangPodMark& mark) {
  mark.job_uid = std::string(pod.meta.Label(kJobUidLabel));
  if (mark.job_uid.empty() || !ParseRanks(pod.meta.Annotation(kRanksAnnotation), mark) ||
      !absl::SimpleAtoi(base::ToAbsl(pod.meta.Annotation(kEpochAnnotation)), &mark.epoch)) {
    return false;
  }
  const kube::OwnerReference* owner = pod.meta.Controller();
  return owner != nullptr && owner->uid == mark.job_uid && owner->kind == kTrainingJobs.kind &&
         pod.meta.name ==
             scheduler::GangPodName(owner->name, owner->uid, mark.first_rank, mark.epoch);
}

ClusterFeed::ClusterFeed(Options options, base::SnapshotCell<scheduler::LedgerView>& cell)
    : options_(std::move(options)), cell_(cell), ledger_(resources_) {
  for (const std::string& name : options_.resource_names) {
    CHECK_THAT(resources_.SlotOf(name).has_value(), "too many GPU resource names");
  }
}

bool ClusterFeed::IsGpuNode(const kube::Node& node) const {
  if (!options_.node_selector.empty() &&
      !Accepts({.terms = {options_.node_selector}}, node.meta.labels, {})) {
    return false;
  }
  return std::any_of(node.allocatable.begin(), node.allocatable.end(), [&](const auto& amount) {
    return std::find(options_.resource_names.begin(), options_.resource_names.end(), amount.name) !=
           options_.resource_names.end();
  });
}

scheduler::ResourceVector ClusterFeed::ToVector(const kube::ResourceAmounts& amounts) {
  scheduler::ResourceVector vector;
  for (const kube::ResourceAmount& amount : amounts) {
    if (const std::optional<size_t> slot = resources_.SlotOf(amount.name)) {
      vector[*slot] = std::max<int64_t>(0, amount.amount);
    }
  }
  return vector;
}

void ClusterFeed::OnNode(const kube::Change<kube::Node>& change) {
  if (change.after == nullptr) {
    if (const auto found = nodes_.find(change.before->meta.name); found != nodes_.end()) {
      gpu_nodes_ -= found->second.gpu_node ? 1 : 0;
      nodes_.erase(found);
      ledger_.RemoveNode(change.before->meta.name);
      model_stale_ = true;
    }
    return;
  }
  const kube::Node& node = *change.after;
  NodeEntry entry{.capacity = node.capacity, .ready = node.Ready(), .gpu_node = IsGpuNode(node)};
  for (size_t level = 1; level + 1 < options_.levels.size(); ++level) {
    entry.domains.emplace_back(node.meta.Label(options_.levels[level].label));
  }
  const auto [slot, added] = nodes_.try_emplace(node.meta.name);
  model_stale_ |=
      added || slot->second.domains != entry.domains || slot->second.gpu_node != entry.gpu_node;
  gpu_nodes_ += (entry.gpu_node ? 1 : 0) - (slot->second.gpu_node ? 1 : 0);
  slot->second = std::move(entry);
  if (!slot->second.gpu_node) {
    ledger_.RemoveNode(node.meta.name);
    return;
  }
  ledger_.SetNode({.name = node.meta.name,
                   .allocatable = ToVector(node.allocatable),
                   .usable = node.Ready() && !node.unschedulable && !node.meta.deletion_time,
                   .product = ProductOf(node),
                   .node_class = node_classes_.ClassOf(node)});
}

void ClusterFeed::OnPod(const kube::Change<kube::Pod>& change) {
  if (change.after == nullptr) {
    ledger_.RemovePod(change.before->meta.uid);
    return;
  }
  if (change.before != nullptr && change.before->meta.uid != change.after->meta.uid) {
    ledger_.RemovePod(change.before->meta.uid);  // deleted and created again under the same name
  }
  const kube::Pod& pod = *change.after;
  scheduler::PodState state{.uid = pod.meta.uid,
                            .name = pod.meta.Key(),
                            .node = pod.node_name,
                            .pinned_node = pod.pinned_node_name,
                            .requests = ToVector(pod.requests),
                            .ended = pod.Terminal(),
                            .deleting = pod.Deleting()};
  state.requests[scheduler::kPodsSlot] = 1;
  GangPodMark mark;
  if (ReadGangPodMark(pod, mark)) {
    state.gang_uid = mark.job_uid;
    state.first_rank = mark.first_rank;
    state.epoch = mark.epoch;
  }
  ledger_.PutPod(state);
}

void ClusterFeed::Refresh() {
  if (!model_stale_) {
    return;
  }
  std::vector<std::string> level_names;
  for (const LevelSource& level : options_.levels) {
    level_names.push_back(level.name);
  }
  std::vector<topology::NodeFacts> facts;
  for (const auto& [name, entry] : nodes_) {
    if (entry.gpu_node) {
      facts.push_back({name, entry.domains});
    }
  }
  absl::StatusOr<topology::Cluster> cluster =
      topology::BuildCluster(std::move(level_names), std::move(facts));
  if (!cluster.ok()) {
    // The last good model stays: a bad source never removes capacity.
    base::LogError("topology_rejected", {{"error", std::string(cluster.status().message())}});
    return;
  }
  ledger_.SetCluster(std::make_shared<const topology::Cluster>(*std::move(cluster)));
  model_stale_ = false;
}

void ClusterFeed::Publish() {
  Refresh();
  cell_.Publish(ledger_.View());
}

bool ClusterFeed::NodeReady(std::string_view name) const {
  const auto found = nodes_.find(std::string(name));
  return found != nodes_.end() && found->second.ready;
}

NodeGpus ClusterFeed::GpusOfNode(std::string_view resource_name) const {
  std::map<int64_t, int64_t> nodes_by_count;
  for (const auto& [name, entry] : nodes_) {
    for (const kube::ResourceAmount& amount : entry.capacity) {
      if (amount.name == resource_name && amount.amount > 0) {
        ++nodes_by_count[amount.amount];
      }
    }
  }
  NodeGpus gpus;
  int64_t nodes_max = 0;
  for (const auto& [count, nodes] : nodes_by_count) {
    gpus.largest = count;
    if (nodes >= nodes_max) {
      nodes_max = nodes;
      gpus.commonest = count;
    }
  }
  return gpus;
}

}  // namespace asterism::operators
