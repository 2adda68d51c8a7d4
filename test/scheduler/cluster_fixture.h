// File: test/scheduler/cluster_fixture.h
//
// Small clusters with a ledger for the scheduler's tests.
//
//   TestCluster cluster({"node", "leaf", "cluster"}, 8);
//   cluster.AddNode("n1", {"L1"});          // 8 GPUs, product "", class 0
//   cluster.Build();
//   cluster.Occupy("n1", 4);                // a foreign pod of 4 GPUs
//   PlacementOutcome outcome = Place(cluster.Gang(4, 8), cluster.ledger());
//
// Thread-safety: none. Cost: a rebuild of the model at Build.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/ledger.h"
#include "scheduler/placement.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

inline std::string Describe(const PlacementOutcome& outcome) {
  if (const auto* placed = std::get_if<Placed>(&outcome)) {
    std::string text = "Placed";
    for (const NodeId node : placed->nodes) {
      text += " " + std::to_string(node.index());
    }
    return text;
  }
  if (const auto* not_now = std::get_if<NotNow>(&outcome)) {
    return "NotNow " + not_now->message;
  }
  return "Never " + std::get<Never>(outcome).message;
}

class TestCluster {
 public:
  TestCluster(std::vector<std::string> levels, int64_t gpus_per_node)
      : levels_(std::move(levels)),
        gpus_per_node_(gpus_per_node),
        table_(std::make_unique<ResourceTable>()),
        gpu_slot_(*table_->SlotOf("nvidia.com/gpu")),
        ledger_(std::make_unique<Ledger>(*table_)) {}

  void AddNode(const std::string& name, std::vector<std::string> domains,
               const std::string& product = "", uint32_t node_class = 0) {
    facts_.push_back({name, std::move(domains)});
    NodeState state;
    state.name = name;
    state.allocatable = Amounts(gpus_per_node_, 110);
    state.product = product;
    state.node_class = node_class;
    states_.push_back(state);
  }

  void Build() {
    auto built = topology::BuildCluster(levels_, facts_);
    if (!built.ok()) {
      throw std::runtime_error(built.status().ToString());
    }
    ledger_->SetCluster(std::make_shared<const topology::Cluster>(*std::move(built)));
    for (const NodeState& state : states_) {
      ledger_->SetNode(state);
    }
  }

  void SetUsable(const std::string& name, bool usable) {
    for (NodeState& state : states_) {
      if (state.name == name) {
        state.usable = usable;
        ledger_->SetNode(state);
      }
    }
  }

  void Occupy(const std::string& node, int64_t gpus) {
    PodState pod;
    pod.uid = "foreign-" + std::to_string(next_pod_++);
    pod.name = "default/" + pod.uid;
    pod.node = node;
    pod.requests = Amounts(gpus, 1);
    ledger_->PutPod(pod);
  }

  PlacementRequest Request(int64_t pods, int64_t gpus) const {
    PlacementRequest request;
    request.gang_uid = "gang";
    request.pods = pods;
    request.request = Amounts(gpus, 1);
    request.gpu_slot = gpu_slot_;
    return request;
  }

  // Books a placement as a gang, as the operator does.
  void Book(const std::string& uid, const PlacementRequest& request, const Placed& placed) {
    Gang gang;
    gang.uid = uid;
    gang.name = "default/" + uid;
    gang.queue = "default";
    gang.gpu_slot = gpu_slot_;
    gang.gpus_per_block = request.request[gpu_slot_];
    gang.request = request.request;
    for (size_t pod = 0; pod < placed.nodes.size(); ++pod) {
      gang.blocks.push_back({static_cast<int64_t>(pod), Name(placed.nodes[pod]), 1});
    }
    ledger_->PutGang(gang);
  }

  ResourceVector Amounts(int64_t gpus, int64_t pods) const {
    ResourceVector amounts;
    amounts[gpu_slot_] = gpus;
    amounts[kPodsSlot] = pods;
    return amounts;
  }

  const std::string& Name(NodeId node) const { return ledger_->cluster().node_name(node); }
  std::vector<std::string> Names(const PlacementOutcome& outcome) const {
    std::vector<std::string> names;
    if (const auto* placed = std::get_if<Placed>(&outcome)) {
      for (const NodeId node : placed->nodes) {
        names.push_back(Name(node));
      }
    }
    return names;
  }

  Ledger& ledger() { return *ledger_; }
  const Ledger& ledger() const { return *ledger_; }
  size_t gpu_slot() const { return gpu_slot_; }
  std::vector<NodeState>& states() { return states_; }

 private:
  std::vector<std::string> levels_;
  int64_t gpus_per_node_;
  std::unique_ptr<ResourceTable> table_;
  size_t gpu_slot_ = 0;
  std::unique_ptr<Ledger> ledger_;
  std::vector<topology::NodeFacts> facts_;
  std::vector<NodeState> states_;
  int next_pod_ = 0;
};

}  // namespace asterism::scheduler
