#include "cli/plan_request.h"

#include <algorithm>
#include <limits>

#include "base/status_macros.h"
#include "base/strings.h"
#include "cli/near_names.h"
#include "cli/yaml_document.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "operator/job_model.h"
#include "operator/json_fields.h"

namespace asterism::cli {
namespace {

using nlohmann::json;
using operators::JsonFields;

constexpr double kGibibyte = 1073741824.0;

absl::Status InFile(std::string_view file, const absl::Status& status) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", file, base::ToStd(status.message())));
}

absl::StatusOr<json> ReadObject(std::string_view file, std::string_view text) {
  absl::StatusOr<json> document = ReadYamlDocument(text);
  if (!document.ok()) {
    return InFile(file, document.status());
  }
  if (!document->is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is no object: write `key: value` lines", file));
  }
  return document;
}

double Above0(const JsonFields& fields, std::string_view name, double fallback, bool needed) {
  const std::optional<double> value = fields.Number(name);
  if (needed && !fields.Has(name)) {
    fields.Fail(name, "missing: state a number above 0");
  } else if (value.has_value() && *value <= 0) {
    fields.Fail(name, fmt::format("{} is not above 0: state a number above 0", *value));
  }
  return value.value_or(fallback);
}

planner::GpuSpec ParseGpu(const JsonFields& cluster) {
  const json* value = cluster.Find("gpu");
  if (value == nullptr) {
    cluster.Fail("gpu", fmt::format("missing: name one of {}, or state its fields",
                                    fmt::join(planner::GpuNames(), ", ")));
    return {};
  }
  if (value->is_string()) {
    const auto name = value->get<std::string>();
    if (const planner::GpuSpec* gpu = planner::FindGpu(name); gpu != nullptr) {
      return *gpu;
    }
    const std::vector<std::string_view> known = planner::GpuNames();
    cluster.Fail(
        "gpu",
        fmt::format("\"{}\" is not known{} (there are {}; or state its fields)", name.substr(0, 64),
                    DidYouMean(name, {known.begin(), known.end()}), fmt::join(known, ", ")));
    return {};
  }
  const JsonFields fields = cluster.Object("gpu");
  planner::GpuSpec gpu{.name = "own GPU"};
  gpu.memory_bytes = kGibibyte * Above0(fields, "memoryGibibytes", 0, true);
  gpu.bf16_flops_per_second = 1e12 * Above0(fields, "bf16Teraflops", 0, true);
  gpu.fp8_flops_per_second = 1e12 * Above0(fields, "fp8Teraflops", 0, false);
  gpu.memory_gigabytes_per_second = Above0(fields, "memoryGigabytesPerSecond", 0, true);
  gpu.nvlink_gigabytes_per_second = Above0(fields, "nvlinkGigabytesPerSecond", 0, false);
  gpu.cuda_major = fields.Int("computeCapability", 0, 99).value_or(9);
  return gpu;
}

planner::ClusterLevel ParseLevel(const JsonFields& fields, const planner::GpuSpec& gpu,
                                 bool first) {
  planner::ClusterLevel level;
  level.name = fields.String("name").value_or("");
  if (level.name.empty()) {
    fields.Fail("name", "missing: name the level");
  }
  if (!fields.Has("gpus")) {
    fields.Fail("gpus", "missing: state the GPUs of one domain");
  }
  level.gpus = fields.Int("gpus", 1, int64_t{1} << 20).value_or(0);
  const bool nvlink = first && gpu.nvlink_gigabytes_per_second > 0;
  level.gigabytes_per_second =
      Above0(fields, "gigabytesPerSecond", gpu.nvlink_gigabytes_per_second, !nvlink);
  level.latency_us = fields.Number("latencyMicroseconds").value_or(first ? 3 : 14);
  level.gigabytes_per_second /= Above0(fields, "slowdown", 1, false);
  return level;
}

std::string KnownFormats() {
  return "use -o megatron, bridge, deepspeed, torchtitan or accelerate, or set spec.framework to "
         "MegatronLM, DeepSpeed or FSDP";
}

}  // namespace

absl::StatusOr<planner::ClusterSpec> ParsePlanCluster(std::string_view text) {
  ASSIGN_OR_RETURN(const json document, ReadObject("cluster", text));
  absl::Status error;
  const JsonFields fields(&document, "", &error);
  planner::ClusterSpec cluster{.gpu = ParseGpu(fields)};
  for (const JsonFields& level : fields.Objects("levels", planner::kClusterLevelsMax)) {
    cluster.levels.push_back(ParseLevel(level, cluster.gpu, cluster.levels.empty()));
  }
  if (error.ok()) {
    error = planner::CheckCluster(cluster);
  }
  if (!error.ok()) {
    return InFile("cluster", error);
  }
  return cluster;
}

absl::StatusOr<PlanQuestion> ReadPlanQuestion(const PlanTexts& texts,
                                              std::optional<planner::LaunchFormat> format) {
  ASSIGN_OR_RETURN(const planner::ClusterSpec cluster, ParsePlanCluster(texts.cluster));
  ASSIGN_OR_RETURN(const json document, ReadObject("job", texts.job));
  absl::Status error;
  const JsonFields job(&document, "", &error);
  if (const std::optional<std::string> kind = job.String("kind");
      error.ok() && kind.value_or("") != "TrainingJob") {
    job.Fail("kind", fmt::format("\"{}\" is no TrainingJob: name the file of one",
                                 kind.value_or("").substr(0, 64)));
  }
  if (!job.Has("spec")) {
    job.Fail("spec", "missing: state at least gpus, model and framework");
  }
  const operators::JobPlanSpec spec = operators::ParseJobPlan(job.Object("spec"));
  PlanQuestion question;
  question.name = job.Object("metadata").String("name").value_or("");
  if (!error.ok()) {
    return InFile("job", error);
  }
  const std::optional<planner::Framework> own = operators::PlannerFrameworkOf(spec.framework);
  const std::optional<planner::Framework> asked =
      format.has_value() ? planner::FrameworkOf(*format) : std::nullopt;
  if (!own.has_value() && !asked.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("job: spec.framework: {} has no arguments that could be planned: {}",
                    spec.framework.substr(0, 64), KnownFormats()));
  }
  const planner::Framework framework = asked.value_or(own.value_or(planner::Framework::kMegatron));
  if (spec.model.has_value() && !spec.model->config_map.empty() && texts.config.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("job: spec.model.huggingFaceConfigMap: {} of ConfigMap \"{}\" is not here: "
                    "give that file with --config FILE",
                    spec.model->config_map_key, spec.model->config_map));
  }
  absl::StatusOr<planner::SearchRequest> request =
      operators::RequestOfJob(spec, framework, cluster, texts.config);
  if (!request.ok()) {
    return InFile("job", request.status());
  }
  question.request = *std::move(request);
  if (question.request.gpus > cluster.gpus()) {
    return absl::InvalidArgumentError(
        fmt::format("job: spec.gpus: {} is more than the cluster's outermost level has ({}): use "
                    "fewer, or state a larger level",
                    question.request.gpus, cluster.gpus()));
  }
  question.gpus_per_node = std::min(cluster.levels.front().gpus, question.request.gpus);
  question.format = format.value_or(planner::FormatOf(framework));
  question.command = spec.command;
  return question;
}

}  // namespace asterism::cli
