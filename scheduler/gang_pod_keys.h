// File: scheduler/gang_pod_keys.h
//
// The names by which a pod says which gang it belongs to and which ranks it runs. Whoever creates
// such pods and whoever reads them use these constants.
//
//   if (pod.meta.Label(kJobUidLabel).empty()) ...   // not a pod of a gang
//
// Thread-safety: constants. Cost: none.
#pragma once

#include <string_view>

namespace asterism::scheduler {

inline constexpr std::string_view kJobLabel = "asterism.dev/job";         // name of the TrainingJob
inline constexpr std::string_view kJobUidLabel = "asterism.dev/job-uid";  // its metadata.uid
// "first-last", both included, of the pod's rank block: "64-71".
inline constexpr std::string_view kRanksAnnotation = "asterism.dev/ranks";
// Epoch of the job in which the pod's rank block got the home that the pod is pinned to.
inline constexpr std::string_view kEpochAnnotation = "asterism.dev/epoch";

}  // namespace asterism::scheduler
