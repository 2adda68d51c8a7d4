// File: operator/pod_names.h
//
// The names of the pods of a gang, and the keys of their labels and annotations.
//
//   PodName(job.meta, 64, 1)   // "llama-3f2a9-r64-e1"
//   HostName(job.meta, 64)     // "llama-r64"
//
// A pod's name carries the epoch and part of the job's UID, so that neither a pod that is made
// again nor a job that is applied again meets an old pod that still terminates on a dead node. The
// host name carries neither: the environment of the pods that stay is never stale.
//
// Thread-safety: pure. Cost: one string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kube/object.h"
#include "scheduler/gang_pod.h"

namespace asterism::operators {

// "<job>-<u>-r<first rank>-e<epoch>", u = the first 5 characters of the UID.
std::string PodName(const kube::ObjectMeta& job, int64_t first_rank, int64_t epoch);
// "<job>-r<first rank>".
std::string HostName(const kube::ObjectMeta& job, int64_t first_rank);
// "<job>-r<first rank>.<job>.<namespace>.svc".
std::string HostAddress(const kube::ObjectMeta& job, int64_t first_rank);
// "<job>-<u>", the head of PodName.
std::string JobInstance(const kube::ObjectMeta& job);
// "<job>-<u>-hosts-<pods>", the ConfigMap of the host file: a job that comes back from its
// suspension with another size gets another file.
// The Secret with the key of an MPI job: "<job>-<u>-key".
std::string KeySecretName(const kube::ObjectMeta& job);
std::string HostFileMapName(const kube::ObjectMeta& job, int64_t pods);

// What the extender reads, too.
using scheduler::kEpochAnnotation;
using scheduler::kJobLabel;
using scheduler::kJobUidLabel;
using scheduler::kRanksAnnotation;
inline constexpr std::string_view kQueueLabel = "asterism.dev/queue";
inline constexpr std::string_view kClassLabel = "asterism.dev/class";
inline constexpr std::string_view kLiveLabel = "asterism.dev/live";
inline constexpr std::string_view kPodsAnnotation = "asterism.dev/pods";
inline constexpr std::string_view kDomainAnnotation = "asterism.dev/domain";

}  // namespace asterism::operators
