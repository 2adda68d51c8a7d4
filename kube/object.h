// File: kube/object.h
//
// The part of an object's metadata that controllers use, as a plain struct. No generated message
// leaves kube/: decoders convert at the edge and drop managedFields.
//
// Thread-safety: a value. Cost: strings are owned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"

namespace asterism::kube {

using StringPairs = absl::btree_map<std::string, std::string, std::less<>>;

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
};

struct ObjectMeta {
  std::string namespace_name;  // empty for cluster-scoped objects
  std::string name;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  absl::Time creation_time = absl::InfinitePast();
  std::optional<absl::Time> deletion_time;  // set while the object is being deleted
  StringPairs labels;
  StringPairs annotations;
  std::vector<OwnerReference> owners;

  // "namespace/name", or "name" for cluster-scoped objects.
  std::string Key() const;
  // Empty when absent.
  std::string_view Label(std::string_view key) const;
  std::string_view Annotation(std::string_view key) const;
  // The owner with controller: true, or null.
  const OwnerReference* Controller() const;
};

// metav1.Condition, and the conditions of pods and nodes, which are a subset of it.
struct Condition {
  std::string type;
  std::string status;  // True, False, Unknown
  int64_t observed_generation = 0;
  absl::Time last_transition_time = absl::InfinitePast();
  std::string reason;
  std::string message;

  bool operator==(const Condition&) const = default;
};

// The condition of that type, or null.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);

}  // namespace asterism::kube
