// File: scheduler/extender/pod_question.h
//
// What the extender needs to know of the pod that kube-scheduler asks about. The pod's JSON (4 to
// 10 kB) is never built as a tree: one forward pass takes the few fields.
//
//   PodQuestion pod;
//   RETURN_IF_ERROR(ReadPod(value, pod));
//
// Thread-safety: a value; its texts live in the parser. Cost: about 1 ns a byte of the pod.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "kube/pod.h"
#include "scheduler/extender/json_fields.h"

namespace asterism::scheduler::extender {

struct PodQuestion {
  std::string_view namespace_name;
  std::string_view name;
  std::string_view uid;
  std::string_view job;      // label asterism.dev/job
  std::string_view job_uid;  // label asterism.dev/job-uid; empty: not a pod of a gang
  std::string_view ranks;    // annotations, as they stand there
  std::string_view epoch;
  kube::ResourceAmounts requests;  // effective, the rule of kube/pod.h
};

absl::Status ReadPod(ondemand::value& value, PodQuestion& pod);

// Takes only the names of a pod: enough for a victim.
absl::Status ReadPodUid(ondemand::value& value, std::string_view path, std::string_view& uid);

struct RankRange {
  int64_t first = 0;
  int64_t last = 0;
};
// "64-71"; nullopt when it is anything else.
std::optional<RankRange> ParseRanks(std::string_view text);
// A decimal number without sign.
std::optional<int64_t> ParseCount(std::string_view text);

}  // namespace asterism::scheduler::extender
