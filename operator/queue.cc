#include "operator/queue.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"
#include "operator/training_job_status.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kOperators = {"In", "NotIn", "Exists", "DoesNotExist"};
constexpr size_t kProductRowsMax = 64;  // of status.products
constexpr std::array<std::string_view, 3> kStopPolicies = {"None", "Hold", "HoldAndDrain"};
constexpr std::array<std::string_view, 2> kCommitModes = {"Scheduler", "Direct"};

LabelSelector ParseSelector(const JsonFields& fields) {
  LabelSelector selector;
  selector.match_labels = fields.Pairs("matchLabels");
  for (const JsonFields& entry : fields.Objects("matchExpressions", 64)) {
    LabelRequirement& requirement = selector.match_expressions.emplace_back();
    requirement.key = entry.String("key").value_or("");
    const std::optional<size_t> op = entry.OneOf("operator", kOperators);
    if (!op.has_value()) {
      entry.Fail("operator", "missing: use In, NotIn, Exists or DoesNotExist");
    }
    requirement.op = kOperators[op.value_or(0)];
    requirement.values = entry.Strings("values", 256);
  }
  return selector;
}

std::vector<JobClass> ParseClasses(const JsonFields& fields) {
  std::vector<JobClass> classes;
  for (const std::string& word : fields.Strings("allowedClasses", 3)) {
    const std::optional<JobClass> value = ParseJobClass(word);
    if (!value.has_value()) {
      fields.Fail("allowedClasses", "must be of Pretraining, Finetuning, Search");
      return {};
    }
    classes.push_back(*value);
  }
  return classes;
}

std::vector<QueueQuota> ParseQuotas(const JsonFields& fields) {
  std::vector<QueueQuota> quotas;
  for (const JsonFields& entry : fields.Objects("quotas", 64)) {
    QueueQuota& quota = quotas.emplace_back();
    quota.product = entry.String("product").value_or("");
    if (quota.product.empty()) {
      entry.Fail("product", "missing: name a product, or \"*\" for those that are not listed");
    }
    quota.guaranteed = entry.Int("guaranteed", 0, kGpusMax).value_or(0);
    quota.limit = entry.Int("limit", 0, kGpusMax);
    quota.lending_limit = entry.Int("lendingLimit", 0, kGpusMax);
  }
  return quotas;
}

QueueSpec ParseQueueSpec(const JsonFields& fields) {
  QueueSpec spec;
  spec.parent = fields.String("parent").value_or("");
  spec.namespaces = fields.Strings("namespaces", 4096);
  if (fields.Has("namespaceSelector")) {
    spec.namespace_selector = ParseSelector(fields.Object("namespaceSelector"));
  }
  spec.allowed_classes = ParseClasses(fields);
  if (const std::optional<std::string> word = fields.String("defaultClass"); word.has_value()) {
    const std::optional<JobClass> value = ParseJobClass(*word);
    if (!value.has_value()) {
      fields.Fail("defaultClass", "must be one of Pretraining, Finetuning, Search");
    }
    spec.default_class = value.value_or(spec.default_class);
  } else if (!spec.allowed_classes.empty()) {
    spec.default_class = spec.allowed_classes.front();
  }
  spec.allowed_priority_classes = fields.Strings("allowedPriorityClasses", 64);
  spec.max_gpus_per_job = fields.Int("maxGpusPerJob", 1, kGpusMax);
  spec.quotas = ParseQuotas(fields);
  spec.stop_policy = kStopPolicies[fields.OneOf("stopPolicy", kStopPolicies).value_or(0)];
  if (const auto mode = fields.OneOf("commit", kCommitModes); mode.has_value()) {
    spec.commit = static_cast<CommitMode>(*mode);
  }
  return spec;
}

bool Holds(const LabelRequirement& requirement, const kube::StringPairs& labels) {
  const auto found = labels.find(requirement.key);
  if (requirement.op == "Exists") {
    return found != labels.end();
  }
  if (requirement.op == "DoesNotExist") {
    return found == labels.end();
  }
  const bool listed =
      found != labels.end() && std::find(requirement.values.begin(), requirement.values.end(),
                                         found->second) != requirement.values.end();
  if (requirement.op == "In") {
    return listed;
  }
  return requirement.op == "NotIn" && !listed;
}

absl::Status Refuse(std::string message) {
  return absl::PermissionDeniedError(message);
}

absl::Status CheckNamespace(const Queue& queue, const std::string& name,
                            const kube::StringPairs& labels) {
  const QueueSpec& spec = queue.spec;
  if (spec.namespaces.empty() && !spec.namespace_selector.has_value()) {
    return Refuse(
        fmt::format("spec.queue: queue \"{}\" names no namespace, so nobody may use it: state its "
                    "namespaces or namespaceSelector, or use another queue",
                    queue.meta.name));
  }
  const bool listed =
      std::find(spec.namespaces.begin(), spec.namespaces.end(), name) != spec.namespaces.end();
  if (listed || (spec.namespace_selector.has_value() && spec.namespace_selector->Matches(labels))) {
    return absl::OkStatus();
  }
  return Refuse(
      fmt::format("spec.queue: namespace \"{}\" may not use queue \"{}\": add it to the queue's "
                  "namespaces or namespaceSelector, or use another queue",
                  name, queue.meta.name));
}

absl::Status CheckClass(const Queue& queue, const TrainingJobSpec& job) {
  const std::vector<JobClass>& allowed = queue.spec.allowed_classes;
  const JobClass job_class = job.job_class.value_or(queue.spec.default_class);
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), job_class) != allowed.end()) {
    return absl::OkStatus();
  }
  std::vector<std::string_view> words;
  for (const JobClass value : allowed) {
    words.push_back(ToString(value));
  }
  return Refuse(
      fmt::format("spec.class: {} is not allowed in queue \"{}\": use {}, or another queue",
                  ToString(job_class), queue.meta.name, fmt::join(words, " or ")));
}

absl::Status CheckPriorityClass(const Queue& queue, const TrainingJobSpec& job) {
  const std::vector<std::string>& allowed = queue.spec.allowed_priority_classes;
  if (allowed.empty() ||
      std::find(allowed.begin(), allowed.end(), job.priority_class_name) != allowed.end()) {
    return absl::OkStatus();
  }
  const std::string stated = job.priority_class_name.empty()
                                 ? "none is stated, which"
                                 : fmt::format("\"{}\"", job.priority_class_name);
  return Refuse(fmt::format(
      "spec.priorityClassName: {} is not allowed in queue \"{}\": use {}, or another queue", stated,
      queue.meta.name, fmt::join(allowed, " or ")));
}

// One row of status.products.
struct QuotaUse {
  const QueueQuota* quota = nullptr;  // null: a product that no quota covers
  std::string product;
  int64_t used = 0;

  int64_t guaranteed() const { return quota == nullptr ? 0 : quota->guaranteed; }
  int64_t borrowed() const { return std::max<int64_t>(0, used - guaranteed()); }
};

// Each entry of `used` goes to the quota of its product, else to that of "*", else to a row of its
// own.
std::vector<QuotaUse> AssignToQuotas(const QueueSpec& spec, const std::vector<QueueUsage>& used) {
  std::vector<QuotaUse> rows;
  for (const QueueQuota& quota : spec.quotas) {
    rows.push_back({.quota = &quota, .product = quota.product});
  }
  const auto row_of = [&rows](std::string_view product) {
    return std::find_if(rows.begin(), rows.end(),
                        [product](const QuotaUse& row) { return row.product == product; });
  };
  for (const QueueUsage& entry : used) {
    auto row = row_of(entry.product);
    if (row == rows.end()) {
      row = row_of("*");
    }
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {.quota = nullptr, .product = entry.product});
    }
    row->used += entry.used;
  }
  return rows;
}

// The columns are int32.
int64_t Column(int64_t value) {
  return std::clamp<int64_t>(value, 0, std::numeric_limits<int32_t>::max());
}

}  // namespace

bool LabelSelector::Matches(const kube::StringPairs& labels) const {
  for (const auto& [key, value] : match_labels) {
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value) {
      return false;
    }
  }
  return std::all_of(
      match_expressions.begin(), match_expressions.end(),
      [&labels](const LabelRequirement& requirement) { return Holds(requirement, labels); });
}

absl::StatusOr<Queue> ParseQueue(std::string_view text) {
  ASSIGN_OR_RETURN(const json object, ParseObjectText(text, kQueues.kind));
  absl::Status error;
  const JsonFields root(&object, "", &error);
  Queue queue;
  queue.meta = ParseObjectMeta(root.Object("metadata"));
  queue.spec = ParseQueueSpec(root.Object("spec"));
  root.Object("status");  // its type
  RETURN_IF_ERROR(error);
  if (const json* status = root.Find("status"); status != nullptr) {
    queue.status_json = DumpJson(*status);
  }
  return queue;
}

absl::Status MayUse(const Queue& queue, const TrainingJob& job,
                    const kube::StringPairs& namespace_labels) {
  RETURN_IF_ERROR(CheckNamespace(queue, job.meta.namespace_name, namespace_labels));
  RETURN_IF_ERROR(CheckClass(queue, job.spec));
  RETURN_IF_ERROR(CheckPriorityClass(queue, job.spec));
  if (const auto& max = queue.spec.max_gpus_per_job; max.has_value() && job.spec.gpus > *max) {
    return Refuse(fmt::format(
        "spec.gpus: {} is more than queue \"{}\" allows a job: use at most {}, or another queue",
        job.spec.gpus, queue.meta.name, *max));
  }
  return absl::OkStatus();
}

std::string QueueStatusApplyBody(const Queue& queue, const std::vector<QueueUsage>& used,
                                 int64_t pending_jobs, int64_t pending_gpus,
                                 const std::vector<kube::Condition>& conditions) {
  json body = ApplyHead(kQueues.kind, queue.meta);
  json& status = body["status"];
  int64_t total_used = 0;
  int64_t total_guaranteed = 0;
  int64_t total_borrowed = 0;
  int64_t total_limit = 0;
  bool limited = !queue.spec.quotas.empty();
  for (const QuotaUse& row : AssignToQuotas(queue.spec, used)) {
    json product = {{"product", row.product},
                    {"used", Column(row.used)},
                    {"guaranteed", Column(row.guaranteed())},
                    {"borrowed", Column(row.borrowed())}};
    total_used += row.used;
    total_guaranteed += row.guaranteed();
    total_borrowed += row.borrowed();
    if (row.quota != nullptr && row.quota->limit.has_value()) {
      product["limit"] = *row.quota->limit;
      total_limit += *row.quota->limit;
    } else {
      limited = false;
    }
    // The totals count what a row cannot show: GPUs without a product, and more products than fit.
    if (!row.product.empty() && status["products"].size() < kProductRowsMax) {
      status["products"].push_back(std::move(product));
    }
  }
  status["used"] = Column(total_used);
  status["guaranteed"] = Column(total_guaranteed);
  status["borrowed"] = Column(total_borrowed);
  if (limited) {
    status["limit"] = Column(total_limit);
  }
  status["pending"] = {{"jobs", Column(pending_jobs)}, {"gpus", Column(pending_gpus)}};
  if (queue.meta.generation != 0) {
    status["observedGeneration"] = queue.meta.generation;
  }
  if (!conditions.empty()) {
    status["conditions"] = ConditionsJson(conditions);
  }
  return DumpJson(body);
}

}  // namespace asterism::operators
