// File: operator/queue.h
//
// A Queue (asterism.dev/v1alpha1, cluster-scoped) as plain structs, and who may use it.
//
//   ASSIGN_OR_RETURN(Queue queue, ParseQueue(json));
//   absl::Status allowed = MayUse(queue, job, namespace_labels);
//
// Thread-safety: values. Cost: parsing about 20 us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kube/client.h"
#include "kube/object.h"
#include "operator/direct_commit.h"
#include "operator/training_job.h"

namespace asterism::operators {

inline constexpr kube::ResourceType kQueues{
    "asterism.dev",       "v1alpha1",        "queues", "Queue",
    /*namespaced=*/false, /*protobuf=*/false};

// metav1.LabelSelector.
struct LabelRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist
  std::vector<std::string> values;
};
struct LabelSelector {
  kube::StringPairs match_labels;
  std::vector<LabelRequirement> match_expressions;
  bool Matches(const kube::StringPairs& labels) const;
};

struct QueueQuota {
  std::string product;  // "*": products not listed
  int64_t guaranteed = 0;
  std::optional<int64_t> limit;
  std::optional<int64_t> lending_limit;
};

struct QueueSpec {
  std::string parent;
  std::vector<std::string> namespaces;
  std::optional<LabelSelector> namespace_selector;    // empty selector: every namespace
  JobClass default_class = JobClass::kFinetuning;     // absent: the first of allowed_classes
  std::vector<JobClass> allowed_classes;              // empty: any
  std::vector<std::string> allowed_priority_classes;  // empty: any
  std::optional<int64_t> max_gpus_per_job;
  std::vector<QueueQuota> quotas;
  std::string stop_policy = "None";  // None, Hold, HoldAndDrain
  std::optional<CommitMode> commit;  // absent: as the configuration says
};

struct Queue {
  kube::ObjectMeta meta;
  QueueSpec spec;
  std::string status_json;  // as the server sent it, for comparing before a write
};

absl::StatusOr<Queue> ParseQueue(std::string_view json);

// kPermissionDenied with a message that names queue, field and remedy; reason NotAllowed.
absl::Status MayUse(const Queue& queue, const TrainingJob& job,
                    const kube::StringPairs& namespace_labels);

// GPUs in use. Entries add up; one whose product has no quota of its own counts under "*".
struct QueueUsage {
  std::string product;
  int64_t used = 0;
};
// The body of a server-side apply on /status: totals, and one row a quota in `products`. The total
// limit stands only where every quota has one.
std::string QueueStatusApplyBody(const Queue& queue, const std::vector<QueueUsage>& used,
                                 int64_t pending_jobs, int64_t pending_gpus,
                                 const std::vector<kube::Condition>& conditions);

}  // namespace asterism::operators
