#include "operator/training_job_status.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/cut_text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr int64_t kCountMax = std::numeric_limits<int32_t>::max();
constexpr int64_t kLongMax = std::numeric_limits<int64_t>::max();
// What the schema allows: JSON readers keep such a number whole, and it can still rise.
constexpr int64_t kEpochMax = (int64_t{1} << 53) - 1;
constexpr size_t kRunsMax = 131072;
constexpr size_t kSpareRunsMax = 1024;
constexpr size_t kLevelsMax = 16;
constexpr size_t kTextBytesMax = 4096;
constexpr size_t kNameBytesMax = 253;
constexpr size_t kArgumentsMax = 512;
constexpr size_t kVariablesMax = 32;
constexpr size_t kBoundByBytesMax = 256;
constexpr size_t kDigestBytesMax = 64;

// ---- reading ----

int64_t CountOf(const JsonFields& fields, std::string_view name) {
  return fields.Int(name, 0, kCountMax).value_or(0);
}

int64_t LongOf(const JsonFields& fields, std::string_view name) {
  return fields.Int(name, 0, kLongMax).value_or(0);
}

int64_t EpochOf(const JsonFields& fields) {
  return fields.Int("epoch", 0, kEpochMax).value_or(0);
}

std::string StringOf(const JsonFields& fields, std::string_view name) {
  return fields.String(name).value_or("");
}

EffectiveStatus ParseEffective(const JsonFields& fields) {
  return {.job_class = StringOf(fields, "class"),
          .gpus_per_pod = CountOf(fields, "gpusPerPod"),
          .gpu_product = StringOf(fields, "gpuProduct"),
          .processes_per_pod = CountOf(fields, "processesPerPod"),
          .pods = CountOf(fields, "pods"),
          .spares = CountOf(fields, "spares")};
}

PodCounts ParsePodCounts(const JsonFields& fields) {
  return {.desired = CountOf(fields, "desired"),
          .bound = CountOf(fields, "bound"),
          .running = CountOf(fields, "running"),
          .succeeded = CountOf(fields, "succeeded"),
          .failed = CountOf(fields, "failed")};
}

WaitingStatus ParseWaiting(const JsonFields& fields) {
  return {.reason = StringOf(fields, "reason"),
          .message = StringOf(fields, "message"),
          .queue_position = CountOf(fields, "queuePosition"),
          .nearest_change = StringOf(fields, "nearestChange"),
          .predicted_start = fields.Time("predictedStartTime")};
}

PlacementStatus ParsePlacement(const JsonFields& fields) {
  PlacementStatus placement;
  placement.epoch = EpochOf(fields);
  placement.digest = StringOf(fields, "digest");
  for (const JsonFields& level : fields.Objects("levels", kLevelsMax)) {
    placement.levels.push_back({.level = StringOf(level, "level"),
                                .domains = CountOf(level, "domains"),
                                .ring_cuts = CountOf(level, "ringCuts"),
                                .ring_cuts_minimum = CountOf(level, "ringCutsMinimum")});
  }
  size_t nodes_left = kGpusMax;
  const auto read_nodes = [&nodes_left](const JsonFields& entry, std::vector<std::string>& into) {
    absl::StatusOr<std::vector<std::string>> nodes =
        ParseNodeRanges(StringOf(entry, "nodes"), nodes_left);
    if (!nodes.ok()) {
      entry.Fail("nodes", std::string(nodes.status().message()));
      return false;
    }
    nodes_left -= nodes->size();
    into = *std::move(nodes);
    return true;
  };
  for (const JsonFields& entry : fields.Objects("runs", kRunsMax)) {
    PlacementRun& run = placement.runs.emplace_back();
    run.domain = StringOf(entry, "domain");
    run.first_rank = CountOf(entry, "firstRank");
    run.ranks = CountOf(entry, "ranks");
    run.epoch = EpochOf(entry);
    if (!read_nodes(entry, run.nodes)) {
      break;
    }
  }
  for (const JsonFields& entry : fields.Objects("spares", kSpareRunsMax)) {
    SpareRun& run = placement.spares.emplace_back();
    run.epoch = EpochOf(entry);
    if (!read_nodes(entry, run.nodes)) {
      break;
    }
  }
  return placement;
}

EstimateStatus ParseEstimate(const JsonFields& fields) {
  return {.value = fields.Number("value").value_or(0),
          .low = fields.Number("low").value_or(0),
          .high = fields.Number("high").value_or(0)};
}

// The names and the order of planner::Degrees.
constexpr std::string_view kDegreeNames[] = {"tensor", "pipeline", "context",
                                             "data",   "expert",   "expertTensor"};

PlanStatus ParsePlan(const JsonFields& fields) {
  PlanStatus plan;
  plan.spec_digest = StringOf(fields, "specDigest");
  plan.cluster_digest = StringOf(fields, "clusterDigest");
  plan.model_digest = StringOf(fields, "modelDigest");
  plan.gpu_product = StringOf(fields, "gpuProduct");
  plan.gpus = CountOf(fields, "gpus");
  const JsonFields degrees = fields.Object("degrees");
  for (const std::string_view name : kDegreeNames) {
    if (degrees.Has(name)) {
      plan.degrees.emplace_back(name, CountOf(degrees, name));
    }
  }
  plan.micro_batch_size = CountOf(fields, "microBatchSize");
  plan.step_time_ms = ParseEstimate(fields.Object("stepTimeMilliseconds"));
  const JsonFields memory = fields.Object("memoryBytes");
  plan.allocated_bytes = LongOf(memory, "allocated");
  plan.reserved_bytes = LongOf(memory, "reserved");
  plan.device_bytes = LongOf(memory, "device");
  plan.bound_by = StringOf(fields, "boundBy");
  plan.arguments = fields.Strings("arguments", kArgumentsMax);
  for (const JsonFields& variable : fields.Objects("environment", kVariablesMax)) {
    plan.variables.push_back({StringOf(variable, "name"), StringOf(variable, "value")});
  }
  const JsonFields file = fields.Object("file");
  plan.file_name = StringOf(file, "name");
  plan.file_text = StringOf(file, "content");
  for (const JsonFields& block : fields.Objects("blocks", kLevelsMax)) {
    plan.blocks.push_back(
        {StringOf(block, "level"), CountOf(block, "gpus"), LongOf(block, "bytesPerStep")});
  }
  plan.tables_version = StringOf(fields, "tablesVersion");
  return plan;
}

std::optional<int32_t> CodeOf(const JsonFields& fields, std::string_view name) {
  const std::optional<int64_t> value =
      fields.Int(name, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  return value.has_value() ? std::optional(static_cast<int32_t>(*value)) : std::nullopt;
}

RestartStatus ParseRestarts(const JsonFields& fields) {
  RestartStatus restarts;
  restarts.count = CountOf(fields, "count");
  restarts.counted = CountOf(fields, "counted");
  if (fields.Has("last")) {
    const JsonFields last = fields.Object("last");
    restarts.last = FirstCause{.time = last.Time("time").value_or(absl::InfinitePast()),
                               .reason = StringOf(last, "reason"),
                               .message = StringOf(last, "message"),
                               .rank = CountOf(last, "rank"),
                               .pod = StringOf(last, "pod"),
                               .node = StringOf(last, "node"),
                               .exit_code = CodeOf(last, "exitCode"),
                               .signal = CodeOf(last, "signal")};
  }
  return restarts;
}

ProgressStatus ParseProgress(const JsonFields& fields) {
  return {.step = LongOf(fields, "step"),
          .step_time_ms = fields.Number("stepTimeMilliseconds").value_or(0),
          .tokens_per_second = fields.Number("tokensPerSecond").value_or(0),
          .updated = fields.Time("updated").value_or(absl::InfinitePast())};
}

TimingStatus ParseTimings(const JsonFields& fields) {
  return {.queued_ms = fields.Int("queuedMilliseconds", 0, kLongMax),
          .decide_us = fields.Int("decideMicroseconds", 0, kLongMax),
          .commit_ms = fields.Int("commitMilliseconds", 0, kLongMax),
          .start_ms = fields.Int("startMilliseconds", 0, kLongMax)};
}

// ---- writing; zero and empty are the same as absent ----

void Put(json& object, const char* name, int64_t value) {
  if (value != 0) {
    object[name] = value;
  }
}

void Put(json& object, const char* name, std::string_view text, size_t bytes_max) {
  if (!text.empty()) {
    object[name] = base::CutText(text, bytes_max);
  }
}

template <typename Number>
void Put(json& object, const char* name, const std::optional<Number>& value) {
  if (value.has_value()) {
    object[name] = *value;
  }
}

void PutPart(json& object, const char* name, json part) {
  if (!part.empty()) {
    object[name] = std::move(part);
  }
}

json EffectiveJson(const EffectiveStatus& effective) {
  json part = json::object();
  Put(part, "class", effective.job_class, kNameBytesMax);
  Put(part, "gpusPerPod", effective.gpus_per_pod);
  Put(part, "gpuProduct", effective.gpu_product, kNameBytesMax);
  Put(part, "processesPerPod", effective.processes_per_pod);
  Put(part, "pods", effective.pods);
  Put(part, "spares", effective.spares);
  return part;
}

// A reader wants to see "running: 0", so all counts stand there or none.
json PodCountsJson(const PodCounts& pods) {
  if (pods == PodCounts{}) {
    return json::object();
  }
  return {{"desired", pods.desired},
          {"bound", pods.bound},
          {"running", pods.running},
          {"succeeded", pods.succeeded},
          {"failed", pods.failed}};
}

json WaitingJson(const WaitingStatus& waiting) {
  json part = json::object();
  if (waiting.reason.empty()) {
    return part;
  }
  part["reason"] = waiting.reason;
  Put(part, "message", waiting.message, kTextBytesMax);
  Put(part, "queuePosition", waiting.queue_position);
  Put(part, "nearestChange", waiting.nearest_change, kTextBytesMax);
  if (waiting.predicted_start.has_value()) {
    part["predictedStartTime"] = FormatSeconds(*waiting.predicted_start);
  }
  return part;
}

json PlacementJson(const PlacementStatus& placement) {
  json part = json::object();
  if (placement == PlacementStatus{}) {
    return part;
  }
  part["epoch"] = placement.epoch;
  Put(part, "digest", placement.digest, kNameBytesMax);
  for (const PlacementLevelStatus& level : placement.levels) {
    part["levels"].push_back({{"level", level.level},
                              {"domains", level.domains},
                              {"ringCuts", level.ring_cuts},
                              {"ringCutsMinimum", level.ring_cuts_minimum}});
  }
  for (const PlacementRun& run : placement.runs) {
    json& entry = part["runs"].emplace_back(json{{"nodes", FormatNodeRanges(run.nodes)},
                                                 {"firstRank", run.first_rank},
                                                 {"ranks", run.ranks},
                                                 {"epoch", run.epoch}});
    Put(entry, "domain", run.domain, kNameBytesMax);
  }
  for (const SpareRun& run : placement.spares) {
    part["spares"].push_back({{"nodes", FormatNodeRanges(run.nodes)}, {"epoch", run.epoch}});
  }
  return part;
}

json PlanJson(const PlanStatus& plan) {
  json part = json::object();
  if (plan.gpus == 0) {
    return part;
  }
  Put(part, "specDigest", plan.spec_digest, kDigestBytesMax);
  Put(part, "clusterDigest", plan.cluster_digest, kDigestBytesMax);
  if (!plan.model_digest.empty()) {
    Put(part, "modelDigest", plan.model_digest, kDigestBytesMax);
  }
  Put(part, "gpuProduct", plan.gpu_product, kNameBytesMax);
  Put(part, "gpus", plan.gpus);
  for (const auto& [name, degree] : plan.degrees) {
    part["degrees"][name] = degree;
  }
  Put(part, "microBatchSize", plan.micro_batch_size);
  part["stepTimeMilliseconds"] = {{"value", plan.step_time_ms.value},
                                  {"low", plan.step_time_ms.low},
                                  {"high", plan.step_time_ms.high}};
  part["memoryBytes"] = {{"allocated", plan.allocated_bytes},
                         {"reserved", plan.reserved_bytes},
                         {"device", plan.device_bytes}};
  Put(part, "boundBy", plan.bound_by, kBoundByBytesMax);
  if (!plan.arguments.empty()) {
    part["arguments"] = plan.arguments;
  }
  for (const PlanVariable& variable : plan.variables) {
    part["environment"].push_back({{"name", variable.name}, {"value", variable.value}});
  }
  if (!plan.file_name.empty()) {
    part["file"] = {{"name", plan.file_name}, {"content", plan.file_text}};
  }
  for (const PlanBlock& block : plan.blocks) {
    json& entry = part["blocks"].emplace_back(json{{"level", block.level}, {"gpus", block.gpus}});
    Put(entry, "bytesPerStep", block.bytes_per_step);
  }
  Put(part, "tablesVersion", plan.tables_version, kNameBytesMax);
  return part;
}

json RestartsJson(const RestartStatus& restarts) {
  json part = json::object();
  if (restarts == RestartStatus{}) {
    return part;
  }
  part["count"] = restarts.count;
  part["counted"] = restarts.counted;
  if (restarts.last.has_value()) {
    const FirstCause& cause = *restarts.last;
    json& last = part["last"];
    last = {{"time", FormatMicroseconds(cause.time)}, {"rank", cause.rank}};
    Put(last, "reason", cause.reason, kNameBytesMax);
    Put(last, "message", cause.message, kTextBytesMax);
    Put(last, "pod", cause.pod, kNameBytesMax);
    Put(last, "node", cause.node, kNameBytesMax);
    Put(last, "exitCode", cause.exit_code);
    Put(last, "signal", cause.signal);
  }
  return part;
}

json ProgressJson(const ProgressStatus& progress) {
  json part = {{"step", progress.step}, {"updated", FormatSeconds(progress.updated)}};
  if (progress.step_time_ms > 0) {
    part["stepTimeMilliseconds"] = progress.step_time_ms;
  }
  if (progress.tokens_per_second > 0) {
    part["tokensPerSecond"] = progress.tokens_per_second;
  }
  return part;
}

// For the column: "120 (812 ms)".
std::string StepText(const ProgressStatus& progress) {
  return progress.step_time_ms > 0
             ? fmt::format("{} ({:.4g} ms)", progress.step, progress.step_time_ms)
             : std::to_string(progress.step);
}

json TimingsJson(const TimingStatus& timings) {
  json part = json::object();
  Put(part, "queuedMilliseconds", timings.queued_ms);
  Put(part, "decideMicroseconds", timings.decide_us);
  Put(part, "commitMilliseconds", timings.commit_ms);
  Put(part, "startMilliseconds", timings.start_ms);
  return part;
}

}  // namespace

TrainingJobStatus ParseStatus(const JsonFields& fields) {
  TrainingJobStatus status;
  status.observed_generation = LongOf(fields, "observedGeneration");
  status.conditions = ParseConditions(fields);
  status.state = StringOf(fields, "state");
  status.start_time = fields.Time("startTime");
  status.completion_time = fields.Time("completionTime");
  status.gpus = CountOf(fields, "gpus");
  status.selector = StringOf(fields, "selector");
  status.placed = StringOf(fields, "placed");
  status.effective = ParseEffective(fields.Object("effective"));
  status.pods = ParsePodCounts(fields.Object("pods"));
  status.waiting = ParseWaiting(fields.Object("waiting"));
  status.placement = ParsePlacement(fields.Object("placement"));
  status.plan = ParsePlan(fields.Object("plan"));
  status.restarts = ParseRestarts(fields.Object("restarts"));
  status.timings = ParseTimings(fields.Object("timings"));
  if (fields.Has("progress")) {
    status.progress = ParseProgress(fields.Object("progress"));
  }
  return status;
}

std::string StatusApplyBody(const kube::ObjectMeta& meta, const TrainingJobStatus& status,
                            std::string_view resource_version) {
  json body = ApplyHead(kTrainingJobs.kind, meta);
  if (!resource_version.empty()) {
    body["metadata"]["resourceVersion"] = resource_version;
  }
  json& out = body["status"];
  out = json::object();
  Put(out, "observedGeneration", status.observed_generation);
  PutPart(out, "conditions", ConditionsJson(status.conditions));
  Put(out, "state", status.state, kNameBytesMax);
  if (status.start_time.has_value()) {
    out["startTime"] = FormatSeconds(*status.start_time);
  }
  if (status.completion_time.has_value()) {
    out["completionTime"] = FormatSeconds(*status.completion_time);
  }
  Put(out, "gpus", status.gpus);
  Put(out, "selector", status.selector, kTextBytesMax);
  Put(out, "placed", status.placed, kNameBytesMax);
  PutPart(out, "effective", EffectiveJson(status.effective));
  PutPart(out, "pods", PodCountsJson(status.pods));
  PutPart(out, "waiting", WaitingJson(status.waiting));
  PutPart(out, "placement", PlacementJson(status.placement));
  PutPart(out, "plan", PlanJson(status.plan));
  PutPart(out, "restarts", RestartsJson(status.restarts));
  PutPart(out, "timings", TimingsJson(status.timings));
  if (status.progress.has_value()) {
    out["progress"] = ProgressJson(*status.progress);
    out["step"] = StepText(*status.progress);
  }
  return DumpJson(body);
}

bool TrainingJobStatus::Is(std::string_view condition_type) const {
  const kube::Condition* condition = kube::FindCondition(conditions, condition_type);
  return condition != nullptr && condition->status == "True";
}

}  // namespace asterism::operators
