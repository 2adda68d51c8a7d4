// File: kube/lease.h
//
// coordination.k8s.io/v1 Lease: who leads, and when that was last renewed.
//
// Thread-safety: a value. Cost: strings are owned.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "kube/object.h"

namespace asterism::kube {

struct Lease {
  ObjectMeta meta;
  std::string holder;  // empty: nobody
  int32_t duration_seconds = 0;
  int32_t transitions = 0;
  // Written by the holder's wall clock; never compared with ours.
  absl::Time acquire_time = absl::InfinitePast();
  absl::Time renew_time = absl::InfinitePast();
};

}  // namespace asterism::kube
