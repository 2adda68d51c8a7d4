// File: agent/pod_resources.h
//
// Who holds which device of this node, as kubelet's PodResources API says it.
//
//   PodResources source("/var/lib/kubelet/pod-resources/kubelet.sock", {"nvidia.com/gpu"});
//   ASSIGN_OR_RETURN(const std::vector<HeldDevice> devices, source.Read());
//
// Devices of resources that are not asked for are left out. A device that is unhealthy is not among
// those that kubelet offers: it is told only while a pod holds it. kubelet serves all readers of a
// node together 100 times a second; read every ten seconds, or on doubt.
//
// Thread-safety: none. Cost: two calls, waits up to ten seconds for each.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace v1 {
class AllocatableResourcesResponse;
class ListPodResourcesResponse;
}  // namespace v1

namespace asterism::agent {

struct DeviceHolder {
  std::string pod_namespace;
  std::string pod_name;
  std::string container;

  bool operator==(const DeviceHolder&) const = default;
};

struct HeldDevice {
  std::string resource;
  std::string id;
  bool offered = false;  // kubelet would give it to a pod: it is healthy
  int numa_node = -1;    // -1: not told
  // Who holds it; empty: nobody. More than one: all but one have ended, and kubelet does not say
  // which (before Kubernetes 1.34, gate KubeletPodResourcesListUseActivePods).
  std::vector<DeviceHolder> holders;

  bool operator==(const HeldDevice&) const = default;
};

class PodResources {
 public:
  PodResources(std::string socket, std::set<std::string> resources);
  ~PodResources();

  absl::StatusOr<std::vector<HeldDevice>> Read();

 private:
  struct Connection;
  const std::string socket_;
  const std::set<std::string> resources_;
  std::unique_ptr<Connection> connection_;
};

// Sorted by resource and id.
std::vector<HeldDevice> JoinPodResources(const ::v1::ListPodResourcesResponse& pods,
                                         const ::v1::AllocatableResourcesResponse& allocatable,
                                         const std::set<std::string>& resources);

}  // namespace asterism::agent
