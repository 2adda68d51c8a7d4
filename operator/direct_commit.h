// File: operator/direct_commit.h
//
// Direct commit: the operator binds the pods of a gang itself, by the node name that it writes at
// their creation. One write a pod instead of two and an event, and no scheduling cycle.
//
//   if (WhyNotDirect(pod_spec).empty() && feed.TakesBoundPods(node, fit)) ...
//
// Nobody but the ledger then looks at the pod before the kubelet does, so it is allowed only where
// the ledger knows as much as kube-scheduler would: on nodes that the taint kManagedTaint closes to
// other schedulers, and for pods that need nothing but resources, a node selector, required node
// affinity and tolerations. Every other pod is pinned and left to kube-scheduler; so are all while
// it may be binding single pods (scheduler/single_pods_in_flight.h).
//
// Thread-safety: pure. Cost: a walk over the pod spec.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace asterism::operators {

enum class CommitMode { kScheduler, kDirect };

// With effect NoSchedule; pods of gangs tolerate it.
inline constexpr std::string_view kManagedTaint = "asterism.dev/managed";

// The first thing in the pod that only kube-scheduler can do, with its field; empty: there is none.
std::string WhyNotDirect(const nlohmann::json& pod_spec);

}  // namespace asterism::operators
