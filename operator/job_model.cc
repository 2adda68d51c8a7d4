#include "operator/job_model.h"

#include <array>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "planner/command_flags.h"
#include "planner/emit_megatron.h"
#include "planner/model_source.h"
#include "planner/plan_answer.h"
#include "planner/setting_reader.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr int64_t kDegreeFieldMax = 1'048'576;
constexpr std::array<std::string_view, 3> kModeNames = {"Apply", "Advise", "Off"};
constexpr std::array<std::string_view, 2> kPrecisionWords = {"BF16", "FP8"};

struct PlanDegree {
  std::string_view name;
  std::string_view flag;  // of Megatron-LM, for the message
  int64_t planner::FixedDegrees::*degree;
};
constexpr PlanDegree kPlanDegrees[] = {
    {"tensor", "--tensor-model-parallel-size", &planner::FixedDegrees::tensor},
    {"pipeline", "--pipeline-model-parallel-size", &planner::FixedDegrees::pipeline},
    {"context", "--context-parallel-size", &planner::FixedDegrees::context},
    {"expert", "--expert-model-parallel-size", &planner::FixedDegrees::expert},
    {"data", "", &planner::FixedDegrees::data},
};

JobModelSpec ParseModel(const JsonFields& fields) {
  JobModelSpec model;
  model.preset = fields.String("preset").value_or("");
  if (fields.Has("huggingFaceConfigMap")) {
    const JsonFields source = fields.Object("huggingFaceConfigMap");
    model.config_map = source.String("name").value_or("");
    model.config_map_key = source.String("key").value_or(model.config_map_key);
    if (model.config_map.empty()) {
      source.Fail("name", "missing: state the ConfigMap that holds the config.json");
    }
  }
  fields.Object("inline");  // its type
  if (const json* given = fields.Find("inline"); given != nullptr && given->is_object()) {
    model.inline_json = DumpJson(*given);
  }
  const int sources = int{!model.preset.empty()} + int{fields.Has("huggingFaceConfigMap")} +
                      int{fields.Has("inline")};
  if (sources != 1) {
    fields.Fail("preset", fmt::format("there are {} sources of the model: state exactly one of "
                                      "preset, huggingFaceConfigMap and inline",
                                      sources));
  }
  for (const auto& [name, target, what] :
       {std::tuple("globalBatchSize", &model.global_batch, "sequences of one optimizer step"),
        std::tuple("sequenceLength", &model.sequence, "tokens of one sequence")}) {
    if (!fields.Has(name)) {
      fields.Fail(name, fmt::format("missing: the planner needs it: state the {}", what));
    }
    *target = fields.Int(name, 1, int64_t{1} << 31).value_or(1);
  }
  model.precision =
      static_cast<planner::Precision>(fields.OneOf("precision", kPrecisionWords).value_or(0));
  return model;
}

// The planner's own fields as lines of its short YAML.
absl::StatusOr<std::string> ShortYamlOf(const json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (value.is_structured()) {
      return absl::InvalidArgumentError(fmt::format(
          "spec.model.inline.{}: is a nested value: write the fields of a config.json with its "
          "model_type, or flat fields such as layers and hidden",
          key.substr(0, 64)));
    }
    text += fmt::format("{}: {}\n", key, value.dump());
  }
  return text;
}

absl::StatusOr<planner::ModelSpec> ParseInline(const std::string& text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) {
    return absl::InvalidArgumentError("spec.model.inline: is no object: write fields");
  }
  if (object.contains("model_type")) {
    return planner::ParseHuggingFaceConfig(text);
  }
  ASSIGN_OR_RETURN(const std::string yaml, ShortYamlOf(object));
  return planner::ParseModelYaml(yaml);
}

// What both the job and its command say of a step has to be the same.
absl::Status CheckStated(const JobPlanSpec& spec) {
  const planner::FieldTable fields =
      planner::ReadArguments(spec.command, planner::MegatronSwitches());
  for (const auto& [field, option, stated] :
       {std::tuple("globalBatchSize", "global-batch-size", spec.model->global_batch),
        std::tuple("sequenceLength", "seq-length", spec.model->sequence)}) {
    ASSIGN_OR_RETURN(const int64_t said, fields.WholeOr(option, stated));
    if (said != stated) {
      return absl::InvalidArgumentError(
          fmt::format("spec.model.{}: is {}, but the command says --{} {}: make them equal, or "
                      "leave the argument out",
                      field, stated, option, said));
    }
  }
  return absl::OkStatus();
}

std::string SourceField(const JobModelSpec& model) {
  return !model.preset.empty()        ? "spec.model"
         : !model.inline_json.empty() ? "spec.model.inline"
                                      : "spec.model.huggingFaceConfigMap";
}

}  // namespace

JobPlanSpec ParseJobPlan(const JsonFields& spec) {
  JobPlanSpec job;
  if (!spec.Has("gpus")) {
    spec.Fail("gpus", "missing: state the number of GPUs");
  }
  job.gpus = spec.Int("gpus", 1, kDegreeFieldMax).value_or(1);
  job.framework = spec.String("framework").value_or(job.framework);
  if (spec.Has("model")) {
    job.model = ParseModel(spec.Object("model"));
  }
  const JsonFields plan = spec.Object("plan");
  if (plan.Has("mode")) {
    job.mode = static_cast<PlanMode>(plan.OneOf("mode", kModeNames).value_or(0));
  }
  for (const PlanDegree& each : kPlanDegrees) {
    job.fixed.*each.degree = plan.Int(each.name, 1, kDegreeFieldMax).value_or(0);
  }
  job.max_spare_gpus = plan.Int("maxSpareGpus", 0, kDegreeFieldMax).value_or(0);
  constexpr size_t kWordsMax = 4096;
  job.command = spec.Object("container").Strings("command", kWordsMax);
  for (std::string& word : spec.Object("container").Strings("args", kWordsMax)) {
    job.command.push_back(std::move(word));
  }
  return job;
}

std::optional<planner::Framework> PlannerFrameworkOf(std::string_view word) {
  if (word == "MegatronLM") {
    return planner::Framework::kMegatron;
  }
  if (word == "DeepSpeed") {
    return planner::Framework::kDeepSpeed;
  }
  if (word == "FSDP") {
    return planner::Framework::kAccelerate;
  }
  return std::nullopt;
}

absl::StatusOr<planner::ModelSpec> ModelOfJob(const JobModelSpec& model,
                                              std::string_view config_json) {
  absl::StatusOr<planner::ModelSpec> read =
      !model.preset.empty()        ? planner::ResolveModel({.preset = model.preset})
      : !model.inline_json.empty() ? ParseInline(model.inline_json)
                                   : planner::ParseHuggingFaceConfig(config_json);
  if (!read.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.{}", SourceField(model), base::ToStd(read.status().message())));
  }
  return read;
}

absl::StatusOr<planner::SearchRequest> RequestOfJob(const JobPlanSpec& spec,
                                                    planner::Framework framework,
                                                    const planner::ClusterSpec& cluster,
                                                    std::string_view config_json,
                                                    const planner::CalibrationSet& kept) {
  if (!spec.model.has_value()) {
    return absl::InvalidArgumentError(
        "spec.model: missing: without it there is no plan: state preset, globalBatchSize and "
        "sequenceLength");
  }
  planner::SearchRequest request;
  ASSIGN_OR_RETURN(request.model, ModelOfJob(*spec.model, config_json));
  request.cluster = cluster;
  request.gpus = spec.gpus;
  request.max_spare_gpus = std::min(spec.max_spare_gpus, std::min<int64_t>(1024, spec.gpus - 1));
  request.global_batch = spec.model->global_batch;
  request.sequence = spec.model->sequence;
  request.framework = framework;
  request.runtime = planner::RuntimeOf(framework);
  request.precision = spec.model->precision;
  planner::TablesInForce tables = planner::TablesFor(kept, cluster.gpu.name, framework);
  request.constants = tables.constants;
  request.tables_version = std::move(tables.version);
  ASSIGN_OR_RETURN(request.fixed, planner::FixedByCommand(framework, spec.command));
  for (const PlanDegree& each : kPlanDegrees) {
    const int64_t wanted = spec.fixed.*each.degree;
    int64_t& fixed = request.fixed.*each.degree;
    if (wanted != 0 && fixed != 0 && wanted != fixed) {
      return absl::InvalidArgumentError(
          fmt::format("spec.plan.{}: is {}, but the command says {} {}: leave one out", each.name,
                      wanted, each.flag, fixed));
    }
    fixed = wanted != 0 ? wanted : fixed;
  }
  if (framework == planner::Framework::kMegatron) {
    RETURN_IF_ERROR(CheckStated(spec));
  }
  if (request.precision == planner::Precision::kFp8 && cluster.gpu.fp8_flops_per_second <= 0) {
    return absl::InvalidArgumentError(fmt::format(
        "spec.model.precision: {} multiplies no FP8: use BF16, or another GPU", cluster.gpu.name));
  }
  if (request.precision == planner::Precision::kFp8 &&
      framework == planner::Framework::kDeepSpeed) {
    return absl::InvalidArgumentError(
        "spec.model.precision: DeepSpeed has no FP8 training: use BF16, or another framework");
  }
  return request;
}

}  // namespace asterism::operators
