// File: controller/domain_labels.h
//
// Keeps the labels asterism.dev/domain-LEVEL of the GPU nodes: where they are, for people, tools
// and the next leader. Nothing is written while they say what they should.
//
//   DomainLabels labels(executor, client, feed, levels, may_write);
//   labels.Start(nodes);
//   labels.OnNode(change);   // after the feed has seen it
//   labels.LookAtAll();      // the topology has changed
//
// An annotation beside them says which levels were measured (topology::kMeasuredLevels). A domain
// that nobody has told (slices in the order of names) is not written down. What cannot be
// the value of a label is replaced by a hash.
//
// Bounds: kLabelWritesPerSecond; one write of a node at a time; what fails is tried again.
//
// Thread-safety: none; lives on the core executor. Cost: LookAtAll is a look-up a node and level.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/executor.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/node.h"
#include "operator/cluster_feed.h"

namespace asterism::controller {

inline constexpr int kLabelWritesPerSecond = 100;

class DomainLabels {
 public:
  DomainLabels(base::Executor& executor, kube::Client& client, const operators::ClusterFeed& feed,
               std::vector<std::string> levels, std::function<bool()> may_write);

  void Start(const kube::Store<kube::Node>& nodes);
  void OnNode(const kube::Change<kube::Node>& change);
  void LookAtAll();

  // Nodes whose labels are not yet what they should be.
  size_t waiting() const { return known_.size(); }

 private:
  void Look(const kube::Node& node);
  void Pump();
  void Write(const std::string& name);
  void OnWritten(const std::string& name, const absl::Status& status);
  // Empty: nothing is to be written.
  std::string PatchFor(const kube::Node& node) const;

  kube::Client& client_;
  const operators::ClusterFeed& feed_;
  const std::vector<std::string> levels_;  // between the node and the cluster
  const std::function<bool()> may_write_;
  const kube::Store<kube::Node>* nodes_ = nullptr;
  std::set<std::string> known_;  // waiting or in flight
  std::deque<std::string> waiting_;
  bool failing_ = false;  // the last write did
  base::OwnedTimer timer_;
  base::Alive alive_;
};

// `value`, or a hash of it where it cannot be the value of a label.
std::string LabelValue(std::string_view value);

}  // namespace asterism::controller
