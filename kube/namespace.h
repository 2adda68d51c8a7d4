// File: kube/namespace.h
//
// core/v1 Namespace, of which only the metadata (labels above all) is read.
//
// Thread-safety: a value. Cost: strings are owned.
#pragma once

#include "kube/object.h"

namespace asterism::kube {

struct Namespace {
  ObjectMeta meta;
};

}  // namespace asterism::kube
