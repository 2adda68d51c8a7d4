#include "cli/queue_row.h"

#include <limits>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::cli {
namespace {

using operators::JsonFields;

int64_t NumberIn(const JsonFields& fields, std::string_view name) {
  return fields.Int(name, 0, std::numeric_limits<int32_t>::max()).value_or(0);
}

// Of the spec, for a queue whose status no controller has written yet.
void FillFromSpec(const operators::QueueSpec& spec, QueueRow& row) {
  int64_t limit = 0;
  bool limited = !spec.quotas.empty();
  for (const operators::QueueQuota& quota : spec.quotas) {
    row.guaranteed += quota.guaranteed;
    limit += quota.limit.value_or(0);
    limited = limited && quota.limit.has_value();
  }
  if (limited) {
    row.limit = limit;
  }
}

}  // namespace

QueueRow QueueRowOf(const operators::Queue& queue) {
  QueueRow row{
      .name = queue.meta.name, .parent = queue.spec.parent, .stop_policy = queue.spec.stop_policy};
  FillFromSpec(queue.spec, row);
  const nlohmann::json status = nlohmann::json::parse(queue.status_json, nullptr, false);
  if (!status.is_object()) {
    return row;
  }
  absl::Status unreadable;  // a field of a wrong type counts as absent
  const JsonFields fields(&status, "status", &unreadable);
  row.used = NumberIn(fields, "used");
  row.borrowed = NumberIn(fields, "borrowed");
  const JsonFields pending = fields.Object("pending");
  row.pending_jobs = NumberIn(pending, "jobs");
  row.pending_gpus = NumberIn(pending, "gpus");
  const std::vector<kube::Condition> conditions = operators::ParseConditions(fields);
  const kube::Condition* ready = kube::FindCondition(conditions, "Ready");
  if (ready != nullptr && ready->status != "True") {
    row.problem = ready->message.empty() ? ready->reason : ready->message;
  }
  return row;
}

std::string UseText(const QueueRow& row) {
  std::string text =
      fmt::format("{} GPUs used, {} guaranteed, {}", row.used, row.guaranteed,
                  row.limit.has_value() ? fmt::format("limit {}", *row.limit) : "no limit");
  if (row.stop_policy != "None") {
    text += fmt::format(", stopped ({})", row.stop_policy);
  }
  return text;
}

nlohmann::ordered_json QueueRowJson(const QueueRow& row) {
  nlohmann::ordered_json object = {
      {"name", row.name}, {"parent", row.parent},         {"stopPolicy", row.stop_policy},
      {"used", row.used}, {"guaranteed", row.guaranteed}, {"borrowed", row.borrowed}};
  if (row.limit.has_value()) {
    object["limit"] = *row.limit;
  }
  object["pending"] = {{"jobs", row.pending_jobs}, {"gpus", row.pending_gpus}};
  if (!row.problem.empty()) {
    object["problem"] = row.problem;
  }
  return object;
}

}  // namespace asterism::cli
