// File: kube/pod_requests.h
//
// What a pod asks of its node: the rule of kubernetes component-helpers resource.PodRequests on the
// spec. Inside kube/; the decoders of both encodings end here.
//
// Thread-safety: pure. Cost: linear in containers times resources.
#pragma once

#include <vector>

#include "kube/pod.h"

namespace asterism::kube {

struct ContainerRequests {
  ResourceAmounts requests;
  ResourceAmounts limits;    // stand in for missing requests, as the API server's defaults do
  bool restartable = false;  // an init container with restartPolicy Always (a sidecar)
};

struct PodResources {
  std::vector<ContainerRequests> containers;
  std::vector<ContainerRequests> init_containers;  // in order
  ResourceAmounts pod_level;  // spec.resources.requests: rule over cpu, memory and huge pages
  ResourceAmounts overhead;
};

ResourceAmounts EffectiveRequests(PodResources resources);

}  // namespace asterism::kube
