// File: kube/priority_class.h
//
// scheduling.k8s.io/v1 PriorityClass: the number behind a name.
//
// Thread-safety: a value. Cost: strings are owned.
#pragma once

#include <cstdint>

#include "kube/object.h"

namespace asterism::kube {

struct PriorityClass {
  ObjectMeta meta;
  int32_t value = 0;
  bool global_default = false;
};

}  // namespace asterism::kube
