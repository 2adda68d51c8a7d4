// File: operator/node_closer.h
//
// Closes the GPU nodes to other schedulers: keeps the taint asterism.dev/managed:NoSchedule on all
// of them, so that the ledger is the only one to give out their GPUs.
//
//   NodeCloser closer(executor, client, feed, may_write);
//   closer.Start(nodes_store);
//   closer.OnNode(change);   // after the feed has seen it
//
// A node is read before it is written, and the write names the version that was read: no taint of
// anybody else is ever lost. The taint stays when the controller goes; whoever no longer wants it
// takes it off with kubectl.
//
// One node after another: those that cannot be written go to the end of the line and hold up no
// other. open() tells how many GPU nodes are not closed.
//
// Thread-safety: none; lives on the core executor. Cost: two requests for a node that is open, at
// most kInFlightMax at a time; a look-up for any other.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "base/executor.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/node.h"
#include "operator/cluster_feed.h"

namespace asterism::operators {

class NodeCloser {
 public:
  NodeCloser(base::Executor& executor, kube::Client& client, const ClusterFeed& feed,
             std::function<bool()> may_write);

  void Start(const kube::Store<kube::Node>& nodes);
  void OnNode(const kube::Change<kube::Node>& change);

  // GPU nodes that wait to be closed.
  size_t open() const { return known_.size(); }

 private:
  static constexpr size_t kInFlightMax = 8;

  void Look(const std::string& name);
  void Next();
  void Read(const std::string& name);
  void OnRead(const std::string& name, const absl::StatusOr<kube::Reply>& reply);
  void OnWritten(const std::string& name, const absl::Status& status);
  void Fail(const std::string& name, const absl::Status& status);

  kube::Client& client_;
  const ClusterFeed& feed_;
  const std::function<bool()> may_write_;
  void LookLater(const std::string& name);

  std::set<std::string> known_;      // everywhere below
  std::deque<std::string> waiting_;  // to be looked at now
  std::set<std::string> in_flight_;
  std::deque<std::string> later_;  // when the timer fires
  base::OwnedTimer retry_timer_;
  base::Alive alive_;
};

}  // namespace asterism::operators
