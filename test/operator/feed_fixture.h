// File: test/operator/feed_fixture.h
//
// A ClusterFeed with nodes and pods made by hand.
//
//   TestFeed feed;
//   feed.PutNode("n1", {.gpus = 8, .product = "H100"});
//   feed.PutPod("p1", {.node = "n1", .requests = {{"nvidia.com/gpu", 4}}});
//   feed->Refresh();
//
// Thread-safety: none. Cost: none to speak of.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/snapshot.h"
#include "operator/cluster_feed.h"

namespace asterism::operators {

struct TestNode {
  int64_t gpus = 8;
  std::string product;
  kube::StringPairs labels;
  std::vector<kube::Taint> taints;
  kube::ResourceAmounts more;  // resources beside GPUs and pods
  bool ready = true;
};

struct TestPod {
  std::string node;
  kube::ResourceAmounts requests;
  std::string refusal;  // of kubelet's admission
};

inline kube::Shared<kube::Node> MakeNode(const std::string& name, const TestNode& wanted) {
  kube::Node node;
  node.meta.name = name;
  node.meta.labels = wanted.labels;
  if (!wanted.product.empty()) {
    node.meta.labels["nvidia.com/gpu.product"] = wanted.product;
  }
  node.taints = wanted.taints;
  node.capacity = wanted.more;
  node.capacity.push_back({"pods", 110});
  if (wanted.gpus > 0) {
    node.capacity.push_back({"nvidia.com/gpu", wanted.gpus});
  }
  node.allocatable = node.capacity;
  node.conditions = {{.type = "Ready", .status = wanted.ready ? "True" : "False"}};
  return std::make_shared<const kube::Node>(std::move(node));
}

class TestFeed {
 public:
  TestFeed()
      : feed_({.levels = {{"node", ""}, {"leaf", "leaf"}, {"cluster", ""}},
               .resource_names = {"nvidia.com/gpu", "amd.com/gpu"}},
              cell_) {}

  void PutNode(const std::string& name, const TestNode& wanted) {
    kube::Shared<kube::Node>& known = nodes_[name];
    kube::Shared<kube::Node> before = std::exchange(known, MakeNode(name, wanted));
    feed_.OnNode({std::move(before), known});
  }
  void RemoveNode(const std::string& name) {
    feed_.OnNode({nodes_.at(name), nullptr});
    nodes_.erase(name);
  }
  void PutPod(const std::string& name, const TestPod& wanted) {
    kube::Pod pod;
    pod.meta.namespace_name = "default";
    pod.meta.name = name;
    pod.meta.uid = "uid-" + name;
    pod.node_name = wanted.node;
    pod.requests = wanted.requests;
    pod.phase = wanted.refusal.empty() ? "Running" : "Failed";
    pod.reason = wanted.refusal.empty() ? "" : "UnexpectedAdmissionError";
    pod.message = wanted.refusal;
    kube::Shared<kube::Pod>& known = pods_[name];
    kube::Shared<kube::Pod> before =
        std::exchange(known, std::make_shared<const kube::Pod>(std::move(pod)));
    feed_.OnPod({std::move(before), known});
  }
  void RemovePod(const std::string& name) {
    feed_.OnPod({pods_.at(name), nullptr});
    pods_.erase(name);
  }

  ClusterFeed* operator->() { return &feed_; }
  ClusterFeed& feed() { return feed_; }
  const std::map<std::string, kube::Shared<kube::Node>>& nodes() const { return nodes_; }
  const std::map<std::string, kube::Shared<kube::Pod>>& pods() const { return pods_; }

  scheduler::NodeId Find(const std::string& name) {
    return feed_.ledger().cluster().FindNode(name);
  }

 private:
  base::SnapshotCell<scheduler::LedgerView> cell_;
  ClusterFeed feed_;
  std::map<std::string, kube::Shared<kube::Node>> nodes_;
  std::map<std::string, kube::Shared<kube::Pod>> pods_;
};

}  // namespace asterism::operators
