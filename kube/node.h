// File: kube/node.h
//
// What controllers need of a core/v1 Node. All labels are kept, of the annotations and messages the
// same as of a pod's.
//
// Thread-safety: a value. Cost: strings are owned.
#pragma once

#include <string>
#include <vector>

#include "kube/object.h"
#include "kube/pod.h"

namespace asterism::kube {

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute

  bool operator==(const Taint&) const = default;
};

struct Node {
  ObjectMeta meta;
  bool unschedulable = false;  // cordoned
  std::vector<Taint> taints;
  ResourceAmounts capacity;
  ResourceAmounts allocatable;
  std::vector<Condition> conditions;

  // Condition Ready is True.
  bool Ready() const;
};

}  // namespace asterism::kube
