// File: kube/testing/fake_objects.h
//
// Rules about single objects that FakeApiServer follows: defaults, generations, deletion.
//
// Thread-safety: pure functions. Cost: a walk over the object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "kube/client.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::kube::testing {

// "2026-01-01T00:00:00Z"
std::string SecondsTime(absl::Time time);

// Pods, nodes, namespaces, services and all custom resources.
bool HasStatusSubresource(const ResourceType& type);

// Copies a member, or its absence, from one object into another.
void KeepMember(const nlohmann::json& from, const char* member, nlohmann::json& to);

// Anything but metadata and status.
bool SpecDiffers(const nlohmann::json& before, const nlohmann::json& after);

// Requests from limits, schedulerName, restartPolicy, terminationGracePeriodSeconds, priority.
void DefaultPodSpec(nlohmann::json& pod);

// 0: the pod goes at once (not bound, ended, or asked for).
int64_t PodGraceSeconds(const nlohmann::json& pod, const DeleteOptions& options);

// Being deleted, its grace period over, no finalizer left.
bool IsReadyToGo(const nlohmann::json& object);

bool IsOwnedBy(const nlohmann::json& object, std::string_view owner_uid);

}  // namespace asterism::kube::testing
