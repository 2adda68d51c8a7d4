// File: operator/queue_controller.h
//
// Keeps the status of the Queues true: what each uses, what waits in it, whether its place in the
// tree is sound (Ready: ParentMissing, ParentCycle) and whether the cluster has what the queues
// guarantee (Overcommitted). Usage is never stored, only summed from the ledger.
//
//   QueueController queues(clock, executor, client, feed, dispatcher, store, may_write);
//   queues.OnChange();    // the queues, what they hold, or the nodes may have changed
//
// Thread-safety: none; core executor. Cost: O(queues + gangs + nodes) every two seconds while
// something changes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/strings.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "operator/cluster_feed.h"
#include "operator/gang_dispatcher.h"
#include "operator/queue.h"
#include "scheduler/quota.h"

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
  // What a queue holds and what waits in it.
  struct QueueSums {
    std::map<std::string, int64_t> used;  // GPUs by product
    GangDispatcher::Pending pending;
  };
  // The status of one Queue object, which ends with it: another of the same name starts anew.
  struct Written {
    std::string body;  // last sent; empty: to be sent again
    std::vector<kube::Condition> conditions;
    uint64_t round = 0;  // of WriteAll that saw the Queue last
  };

  void WriteAll();
  base::StringMap<QueueSums> SumUp() const;
  void WriteOne(const Queue& queue, const QueueSums& sums,
                const std::optional<scheduler::QuotaProblem>& problem, const std::string& excess);

  base::Clock& clock_;
  kube::Client& client_;
  ClusterFeed& feed_;
  GangDispatcher& dispatcher_;
  const kube::Store<Queue>& queues_;
  std::function<bool()> may_write_;
  std::map<std::string, Written> written_;  // by uid
  uint64_t round_ = 0;
  base::OwnedTimer timer_;
  base::Alive alive_;
};

}  // namespace asterism::operators
