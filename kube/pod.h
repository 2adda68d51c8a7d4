// File: kube/pod.h
//
// What controllers need of a core/v1 Pod. Of its labels and annotations only those under
// asterism.dev/ are kept (32 of each, values up to 256 bytes), of a message the first KiB: what
// users hang on their pods must not fill the memory of a controller that holds them all.
//
// Thread-safety: a value. Cost: strings are owned; about 1 KiB for a usual pod, at most 25 KiB for
// labels and annotations whatever is written there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "kube/object.h"

namespace asterism::kube {

// Requests of one resource. cpu is in thousandths of a core, everything else in whole units.
struct ResourceAmount {
  std::string name;
  int64_t amount = 0;

  bool operator==(const ResourceAmount&) const = default;
};
using ResourceAmounts = std::vector<ResourceAmount>;  // sorted by name, no name twice

struct TerminatedContainer {
  std::string name;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  std::string message;
  absl::Time finished_at = absl::InfiniteFuture();
};

// A container that cannot start, and why: ErrImagePull, CreateContainerConfigError. One that is
// about to start (ContainerCreating, PodInitializing) is none.
struct WaitingContainer {
  std::string name;
  std::string reason;
  std::string message;

  bool operator==(const WaitingContainer&) const = default;
};

struct Pod {
  ObjectMeta meta;

  // spec
  std::string node_name;         // empty until bound
  std::string pinned_node_name;  // the one name of a required affinity on metadata.name, or empty
  std::string scheduler_name;
  std::string priority_class_name;
  int32_t priority = 0;
  bool gated = false;  // spec.schedulingGates is not empty
  // Effective requests: max(sum of containers, init containers) with restartable init containers
  // added, plus overhead; the rule of kubernetes pkg/api/v1/resource.PodRequests.
  ResourceAmounts requests;

  // status
  std::string phase;  // Pending, Running, Succeeded, Failed, Unknown
  std::string reason;
  std::string message;
  std::vector<Condition> conditions;
  std::vector<WaitingContainer> waiting;        // init containers first
  std::vector<TerminatedContainer> terminated;  // terminated main containers

  bool Terminal() const { return phase == "Succeeded" || phase == "Failed"; }
  bool Deleting() const { return meta.deletion_time.has_value(); }
};

}  // namespace asterism::kube
