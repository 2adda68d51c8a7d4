// File: operator/gang_decision.h
//
// The one way to decide about a gang that waits: what its queue's quota leaves of the products it
// may have, then the placement engine. The pass over the queue and the dry run both come here.
//
//   GangDecision decision = DecideGang(queued, request, quota, ledger.product_names(), ask);
//   if (decision.refusal) ...        // quota, or a stopped queue
//   else ...  decision.outcome       // the engine's answer
//
// Thread-safety: pure, but for `ask`. Cost: O(products of the queue and those above it), and `ask`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "operator/job_reconciler.h"
#include "scheduler/gang_queue.h"
#include "scheduler/placement.h"
#include "scheduler/quota.h"

namespace asterism::operators {

struct GangDecision {
  // Set: quota or a stopped queue holds it back.
  std::optional<Refusal> refusal;
  scheduler::PlacementOutcome outcome;
};

using AskEngine =
    absl::FunctionRef<scheduler::PlacementOutcome(const scheduler::PlacementRequest& request)>;

// `quota` has the use counted. `product_names`: those of the cluster's nodes.
GangDecision DecideGang(const scheduler::QueuedGang& gang,
                        const scheduler::PlacementRequest& request,
                        const scheduler::QuotaTree& quota,
                        const std::vector<std::string>& product_names, AskEngine ask);

}  // namespace asterism::operators
