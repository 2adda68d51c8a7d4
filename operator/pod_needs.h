// File: operator/pod_needs.h
//
// What a pod asks of its node, as far as placement knows: amounts, which nodes its own rules allow,
// and whether only kube-scheduler can see to the rest. Read twice: from the pod that the operator
// builds, and from the one that the API server makes of it in the dry run, which may hold more: the
// defaults of a LimitRange, the overhead of a runtime class, what webhooks add.
//
//   ASSIGN_OR_RETURN(const PodNeeds needs, ReadPodNeeds(body));
//
// Thread-safety: pure. Cost: a parse of the pod.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kube/pod.h"
#include "operator/template_fit.h"

namespace asterism::operators {

struct PodNeeds {
  kube::ResourceAmounts requests;
  TemplateFit fit;
  std::string not_direct;  // see WhyNotDirect; empty: nothing stands against it
};

// `body`: a pod in JSON.
absl::StatusOr<PodNeeds> ReadPodNeeds(std::string_view body);

}  // namespace asterism::operators
