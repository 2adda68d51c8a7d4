// File: scheduler/gang_pod.h
//
// How a pod says which gang it belongs to and which ranks it runs, and what such a pod is called.
// Whoever creates these pods and whoever reads them use this header.
//
//   if (pod.meta.Label(kJobUidLabel).empty()) ...   // not a pod of a gang
//   GangPodName("llama", "3f2a9c1e-...", 64, 1)     // "llama-3f2a9-r64-e1"
//
// Anybody may write these labels on a pod of his own. What tells a gang's own pod from a claim is
// its namespace and its name, which one pod at a time can have.
//
// Thread-safety: pure. Cost: one string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace asterism::scheduler {

inline constexpr std::string_view kJobLabel = "asterism.dev/job";         // name of the TrainingJob
inline constexpr std::string_view kJobUidLabel = "asterism.dev/job-uid";  // its metadata.uid
// "first-last", both included, of the pod's rank block: "64-71".
inline constexpr std::string_view kRanksAnnotation = "asterism.dev/ranks";
// Epoch of the job in which the pod's rank block got the home that the pod is pinned to.
inline constexpr std::string_view kEpochAnnotation = "asterism.dev/epoch";

// "<job>-<u>", u = the first 5 characters of the UID, so that a job that is applied again never
// meets the pods of the old one.
std::string GangInstance(std::string_view job, std::string_view job_uid);
// "<job>-<u>-r<first rank>-e<epoch>".
std::string GangPodName(std::string_view job, std::string_view job_uid, int64_t first_rank,
                        int64_t epoch);

// The numbers in the name of a pod of that job; nullopt for any other name.
struct GangPodNumbers {
  int64_t first_rank = 0;
  int64_t epoch = 0;

  bool operator==(const GangPodNumbers&) const = default;
};
std::optional<GangPodNumbers> ReadGangPodName(std::string_view name, std::string_view job,
                                              std::string_view job_uid);

}  // namespace asterism::scheduler
