#include "operator/cluster_feed.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "operator/direct_commit.h"
#include "operator/failure_policy.h"
#include "operator/launcher.h"
#include "operator/pod_builder.h"
#include "operator/training_job.h"
#include "scheduler/gang_pod.h"

namespace asterism::operators {
namespace {

// GPU models are told by these node labels, the first present wins.
constexpr std::string_view kProductLabels[] = {"nvidia.com/gpu.product", "amd.com/gpu.product-name",
                                               "beta.amd.com/gpu.product-name"};

// More than the pods of one gang on one node: those that are being created are not counted yet.
constexpr int64_t kPortsKept = 32;

bool IsUsable(const kube::Node& node) {
  return node.Ready() && !node.unschedulable && !node.meta.deletion_time;
}

bool HasManagedTaint(const kube::Node& node) {
  return std::any_of(node.taints.begin(), node.taints.end(), [](const kube::Taint& taint) {
    return taint.key == kManagedTaint && taint.effect == "NoSchedule";
  });
}

std::string ProductOf(const kube::Node& node) {
  for (const std::string_view label : kProductLabels) {
    if (const std::string_view value = node.meta.Label(label); !value.empty()) {
      return std::string(value);
    }
  }
  return "";
}

int64_t AmountOf(const kube::ResourceAmounts& amounts, std::string_view name) {
  const auto found = std::find_if(amounts.begin(), amounts.end(),
                                  [&](const auto& amount) { return amount.name == name; });
  return found == amounts.end() ? 0 : std::max<int64_t>(0, found->amount);
}

struct Amounts {
  scheduler::ResourceVector amounts;
  bool complete = true;  // false: one of them has no slot
};

Amounts ToVector(const kube::ResourceAmounts& amounts, const scheduler::ResourceTable& table) {
  Amounts vector;
  for (const kube::ResourceAmount& amount : amounts) {
    if (const std::optional<size_t> slot = table.Find(amount.name)) {
      vector.amounts[*slot] = std::max<int64_t>(0, amount.amount);
    } else if (amount.amount > 0) {
      vector.complete = false;
    }
  }
  return vector;
}

topology::KeeperOptions KeeperOptionsOf(const ClusterFeed::Options& options) {
  topology::KeeperOptions keeper = options.topology;
  keeper.levels.clear();
  keeper.outermost.clear();
  for (size_t i = 0; i < options.levels.size(); ++i) {
    const LevelSource& level = options.levels[i];
    if (i == 0) {
      keeper.innermost = level.name;
    } else if (i + 1 == options.levels.size()) {
      keeper.outermost = level.name;
    } else {
      keeper.levels.push_back({.name = level.name,
                               .kind = level.kind,
                               .label = level.label,
                               .slice_nodes = level.slice_nodes});
    }
  }
  return keeper;
}

}  // namespace

bool ReadGangPodMark(const kube::Pod& pod, GangPodMark& mark) {
  const kube::OwnerReference* owner = pod.meta.Controller();
  if (owner == nullptr || owner->kind != kTrainingJobs.kind ||
      !std::string_view(owner->api_version).starts_with(kTrainingJobs.group)) {
    return false;
  }
  const std::optional<scheduler::GangPodNumbers> numbers =
      scheduler::ReadGangPodName(pod.meta.name, owner->name, owner->uid);
  if (!numbers) {
    return false;
  }
  mark = {.job_uid = owner->uid, .first_rank = numbers->first_rank, .epoch = numbers->epoch};
  return true;
}

ClusterFeed::ClusterFeed(Options options, base::SnapshotCell<scheduler::LedgerView>& cell)
    : options_(std::move(options)),
      cell_(cell),
      ledger_(resources_),
      node_classes_(
          [this](const kube::Node& node, uint32_t node_class) { SetLedgerNode(node, node_class); }),
      gpu_counts_(options_.resource_names.size()),
      topology_(KeeperOptionsOf(options_)) {
  for (const std::string& name : options_.resource_names) {
    CHECK_THAT(resources_.SlotOf(name).has_value(), "too many GPU resource names");
  }
}

bool ClusterFeed::HasGpus(const kube::Node& node) const {
  if (!options_.node_selector.empty() &&
      !Accepts({.terms = {options_.node_selector}}, node.meta.labels, {})) {
    return false;
  }
  return std::any_of(node.allocatable.begin(), node.allocatable.end(), [&](const auto& amount) {
    return std::find(options_.resource_names.begin(), options_.resource_names.end(), amount.name) !=
           options_.resource_names.end();
  });
}

void ClusterFeed::RemoveNode(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) {
    return;
  }
  CountGpus(found->second, {});
  nodes_.erase(found);
  node_classes_.Remove(name);
  ledger_.RemoveNode(name);
  topology_.DropNode(name);
  ailing_.erase(name);
}

void ClusterFeed::CountGpus(const NodeEntry& before, const NodeEntry& after) {
  gpu_nodes_ += (after.gpu_node ? 1 : 0) - (before.gpu_node ? 1 : 0);
  if (before.gpus == after.gpus) {
    return;
  }
  for (size_t i = 0; i < gpu_counts_.size(); ++i) {
    gpu_counts_[i].Remove(before.gpus.empty() ? 0 : before.gpus[i]);
    gpu_counts_[i].Add(after.gpus.empty() ? 0 : after.gpus[i]);
  }
}

void ClusterFeed::OnNode(const kube::Change<kube::Node>& change) {
  if (change.after == nullptr) {
    RemoveNode(change.before->meta.name);
    return;
  }
  const kube::Node& node = *change.after;
  NodeEntry entry{.product = ProductOf(node),
                  .ready = node.Ready(),
                  .gpu_node = HasGpus(node),
                  .closed = HasManagedTaint(node),
                  .usable = IsUsable(node),
                  .port = AmountOf(node.allocatable, kPortResource) > 0};
  for (const std::string& name : options_.resource_names) {
    entry.gpus.push_back(AmountOf(node.capacity, name));
  }
  const auto [slot, added] = nodes_.try_emplace(node.meta.name);
  const bool was_in_model = slot->second.gpu_node;
  CountGpus(slot->second, entry);
  slot->second = std::move(entry);
  if (!slot->second.gpu_node) {
    node_classes_.Remove(node.meta.name);
    ledger_.RemoveNode(node.meta.name);
    topology_.DropNode(node.meta.name);
    ailing_.erase(node.meta.name);
    return;
  }
  // What nodes say of their health each few minutes is no news here.
  if (!was_in_model || change.before == nullptr || change.before->meta.labels != node.meta.labels ||
      slot->second.gpus != GpusOf(change.before->capacity) ||
      GpusOf(change.before->allocatable) != GpusOf(node.allocatable)) {
    topology_.PutNode(LabelledNodeOf(node));
  }
  GiveSlots(node);
  SetLedgerNode(node, node_classes_.Put(change.after));
}

void ClusterFeed::SetLedgerNode(const kube::Node& node, uint32_t node_class) {
  ledger_.SetNode({.name = node.meta.name,
                   .allocatable = ToVector(node.allocatable, resources_).amounts,
                   .usable = IsUsable(node) && !IsUnhealthy(node.meta.name),
                   .degraded = HealthOf(node.meta.name) == topology::NodeHealth::kDegraded,
                   .product = ProductOf(node),
                   .node_class = node_class});
  if (const auto found = gpu_islands_.find(node.meta.name); found != gpu_islands_.end()) {
    ledger_.SetGpuIslands(node.meta.name, found->second);
  }
}

void ClusterFeed::PutGpuIslands(const std::string& node, scheduler::GpuIslands islands) {
  ledger_.SetGpuIslands(node, islands);
  if (islands.split()) {
    gpu_islands_[node] = std::move(islands);
  } else {
    gpu_islands_.erase(node);
  }
}

void ClusterFeed::GiveSlots(const kube::Node& node) {
  const size_t slots_before = resources_.size();
  for (const kube::ResourceAmount& amount : node.allocatable) {
    if (amount.amount > 0) {
      resources_.SlotOf(amount.name);
    }
  }
  if (resources_.size() == slots_before) {
    return;
  }
  const auto pods = std::exchange(pods_without_slot_, {});
  for (const auto& [uid, pod] : pods) {
    PutPod(pod);
  }
}

void ClusterFeed::OnPod(const kube::Change<kube::Pod>& change) {
  if (change.before != nullptr &&
      (change.after == nullptr || change.before->meta.uid != change.after->meta.uid)) {
    // Gone, or deleted and created again under the same name.
    pods_without_slot_.erase(change.before->meta.uid);
    ledger_.RemovePod(change.before->meta.uid);
  }
  if (change.after != nullptr) {
    PutPod(change.after);
  }
}

void ClusterFeed::PutPod(const kube::Shared<kube::Pod>& shared) {
  const kube::Pod& pod = *shared;
  if (RefusedByKubelet(pod) && pod.message.find(kPortResource) != std::string::npos) {
    // The agent starts anew, and kubelet has not taken its offer back yet.
    if (const auto node = nodes_.find(pod.node_name); node != nodes_.end()) {
      node->second.port = false;
    }
  }
  const Amounts requests = ToVector(pod.requests, resources_);
  if (requests.complete || pod.Terminal()) {
    pods_without_slot_.erase(pod.meta.uid);
  } else {
    pods_without_slot_.insert_or_assign(pod.meta.uid, shared);
  }
  scheduler::PodState state{.uid = pod.meta.uid,
                            .name = pod.meta.Key(),
                            .node = pod.node_name,
                            .pinned_node = pod.pinned_node_name,
                            .requests = requests.amounts,
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

std::vector<int64_t> ClusterFeed::GpusOf(const kube::ResourceAmounts& amounts) const {
  std::vector<int64_t> gpus;
  for (const std::string& name : options_.resource_names) {
    gpus.push_back(AmountOf(amounts, name));
  }
  return gpus;
}

topology::LabelledNode ClusterFeed::LabelledNodeOf(const kube::Node& node) const {
  topology::Labels labels;
  for (const auto& [key, value] : node.meta.labels) {
    labels.emplace_back(key, value);
  }
  topology::NodeResources resources{.told = true};
  for (const std::string& name : options_.resource_names) {
    resources.gpu_capacity += AmountOf(node.capacity, name);
    resources.gpu_allocatable += AmountOf(node.allocatable, name);
  }
  topology::LabelledNode labelled = topology::ReadNodeLabels(node.meta.name, labels, resources);
  // What was declared or labelled once says nothing about now.
  const auto measured = node.meta.annotations.find(topology::kMeasuredLevels);
  const std::string levels =
      measured == node.meta.annotations.end() ? "" : fmt::format(",{},", measured->second);
  std::erase_if(labelled.former, [&levels](const topology::LabelLevel& former) {
    const std::string_view level =
        std::string_view(former.key).substr(topology::kDomainLabelPrefix.size());
    return levels.find(fmt::format(",{},", level)) == std::string::npos;
  });
  // Labels that the site names.
  for (const LevelSource& level : options_.levels) {
    if (!level.label.empty() && !level.label.starts_with(topology::kDeclaredPrefix)) {
      if (const std::string_view value = node.meta.Label(level.label); !value.empty()) {
        labelled.declared.push_back({level.label, std::string(value)});
      }
    }
  }
  return labelled;
}

void ClusterFeed::PutReport(topology::NodeReport report, absl::Time now) {
  reports_.push_back(std::move(report));
  reports_time_ = now;
}

void ClusterFeed::PutFabric(std::string source, topology::Fabric fabric, absl::Time now) {
  topology_.PutFabric(std::move(source), std::move(fabric), now);
}

void ClusterFeed::Tick(absl::Time now) {
  topology_.Tick(now);
}

void ClusterFeed::Refresh() {
  if (!reports_.empty()) {
    topology_.PutReports(std::exchange(reports_, {}), reports_time_);
  }
  topology_.Settle();
  const std::shared_ptr<const topology::TopologySnapshot> snapshot = topology_.snapshot();
  if (snapshot == taken_) {
    return;
  }
  const auto before = std::exchange(taken_, snapshot);
  if (before == nullptr || before->cluster != snapshot->cluster) {
    ledger_.SetCluster(snapshot->cluster);
  }
  if (before == nullptr || before->conditions != snapshot->conditions) {
    TakeHealth(*snapshot);
  }
}

topology::NodeHealth ClusterFeed::HealthOf(std::string_view name) const {
  const auto found = ailing_.find(name);
  return found == ailing_.end() ? topology::NodeHealth::kHealthy : found->second;
}

size_t ClusterFeed::unhealthy_count() const {
  return static_cast<size_t>(std::count_if(ailing_.begin(), ailing_.end(), [](const auto& node) {
    return node.second == topology::NodeHealth::kUnhealthy;
  }));
}

// Holders stay; on an unhealthy node nothing new is placed, on a degraded one what has no other
// place.
void ClusterFeed::TakeHealth(const topology::TopologySnapshot& snapshot) {
  using topology::NodeHealth;
  for (size_t index = 0; index < snapshot.conditions->size(); ++index) {
    const topology::NodeId node(index);
    const std::string& name = snapshot.cluster->node_name(node);
    NodeHealth health = (*snapshot.conditions)[index].health;
    if (health != NodeHealth::kUnhealthy && health != NodeHealth::kDegraded) {
      health = NodeHealth::kHealthy;
    }
    const NodeEntry* entry = FindEntry(name);
    if (entry == nullptr || health == HealthOf(name)) {
      continue;
    }
    if (health == NodeHealth::kHealthy) {
      ailing_.erase(name);
    } else {
      ailing_[name] = health;
    }
    scheduler::NodeState state = ledger_.node_state(node);
    state.usable = entry->usable && health != NodeHealth::kUnhealthy;
    state.degraded = health == NodeHealth::kDegraded;
    ledger_.SetNode(state);
    base::LogWarning("node_health", {{"node", name},
                                     {"health", health == NodeHealth::kUnhealthy  ? "unhealthy"
                                                : health == NodeHealth::kDegraded ? "degraded"
                                                                                  : "fit again"}});
  }
}

void ClusterFeed::Publish() {
  Refresh();
  cell_.Publish(ledger_.View());
}

const ClusterFeed::NodeEntry* ClusterFeed::FindEntry(std::string_view name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

bool ClusterFeed::NodeReady(std::string_view name) const {
  const NodeEntry* entry = FindEntry(name);
  return entry != nullptr && entry->ready;
}

bool ClusterFeed::IsGpuNode(std::string_view name) const {
  const NodeEntry* entry = FindEntry(name);
  return entry != nullptr && entry->gpu_node;
}

bool ClusterFeed::IsClosed(std::string_view name) const {
  const NodeEntry* entry = FindEntry(name);
  return entry != nullptr && entry->closed;
}

bool ClusterFeed::TakesBoundPods(std::string_view name, const TemplateFit& fit) const {
  const NodeEntry* entry = FindEntry(name);
  return entry != nullptr && entry->closed && entry->usable && !IsUnhealthy(name) &&
         node_classes_.Accepts(name, fit);
}

bool ClusterFeed::IsOverbooked(std::string_view name) const {
  const topology::NodeId node = ledger_.cluster().FindNode(name);
  if (!node.valid()) {
    return false;
  }
  const scheduler::ResourceVector free = ledger_.Free(node);
  for (size_t slot = 0; slot < scheduler::kResourceSlots; ++slot) {
    if (free[slot] < 0) {
      return true;
    }
  }
  return false;
}

bool ClusterFeed::OffersPort(std::string_view name) const {
  const NodeEntry* entry = FindEntry(name);
  const std::optional<size_t> slot = resources_.Find(kPortResource);
  const topology::NodeId node = ledger_.cluster().FindNode(name);
  return entry != nullptr && entry->port && slot.has_value() && node.valid() &&
         ledger_.Free(node)[*slot] >= kPortsKept;
}

NodeGpus ClusterFeed::GpusOfNode(std::string_view resource_name) const {
  const auto& names = options_.resource_names;
  const auto found = std::find(names.begin(), names.end(), resource_name);
  return found == names.end() ? NodeGpus()
                              : gpu_counts_[static_cast<size_t>(found - names.begin())].gpus();
}

std::map<std::string, int64_t> ClusterFeed::GpusByProduct() const {
  std::map<std::string, int64_t> gpus;
  for (const auto& [name, entry] : nodes_) {
    if (entry.gpu_node) {
      gpus[entry.product] += std::accumulate(entry.gpus.begin(), entry.gpus.end(), int64_t{0});
    }
  }
  return gpus;
}

}  // namespace asterism::operators
