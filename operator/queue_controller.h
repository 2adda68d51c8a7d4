// File: operator/queue_controller.h
//
// Keeps the status of the Queues true: what each uses, what waits in it, and whether its place in
// the tree is sound. Usage is never stored, only summed from the ledger.
//
//   QueueController queues(clock, executor, client, feed, dispatcher, store, may_write);
//   queues.OnChange();    // the queues, or what they hold, may have changed
//
// Thread-safety: none; core executor. Cost: O(queues) every two seconds while something changes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "operator/cluster_feed.h"
#include "operator/gang_dispatcher.h"
#include "operator/queue.h"

namespace asterism::operators {

class QueueController {
 public:
  QueueController(base::Clock& clock, base::Executor& executor, kube::Client& client,
                  ClusterFeed& feed, GangDispatcher& dispatcher, const kube::Store<Queue>& queues,
                  std::function<bool()> may_write);

  // Looks again within two seconds.
  void OnChange();
  // Gives the dispatcher the tree as it is now.
  void RefreshQuota();

 private:
  struct QueueUse {
    std::string queue;
    std::string product;
    int64_t gpus = 0;
  };

  void WriteAll();
  void WriteOne(const Queue& queue, const std::vector<QueueUse>& uses, const std::string& problem);

  base::Clock& clock_;
  kube::Client& client_;
  ClusterFeed& feed_;
  GangDispatcher& dispatcher_;
  const kube::Store<Queue>& queues_;
  std::function<bool()> may_write_;
  std::map<std::string, std::string> written_;                      // last body, by queue
  std::map<std::string, std::vector<kube::Condition>> conditions_;  // by queue
  base::OwnedTimer timer_;
  base::Alive alive_;
};

}  // namespace asterism::operators
