// File: operator/job_model.h
//
// spec.model and spec.plan of a TrainingJob: what its author says for the planner, and the request
// that becomes of it.
//
//   absl::Status error;
//   const JobPlanSpec spec = ParseJobPlan(JsonFields(&job, "", &error).Object("spec"));
//   ASSIGN_OR_RETURN(SearchRequest request, RequestOfJob(spec, cluster, config_json));
//
// `config_json` is the content of the ConfigMap's key, empty without one. `inline` is the content
// of a config.json (it has model_type), or the planner's own fields (planner/model_source.h). The
// framework's words are those of spec.framework: MegatronLM, DeepSpeed, FSDP (Accelerate); the
// others have no arguments that could be planned.
//
// Errors: name field, value and way out. Thread-safety: pure. Cost: a JSON object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/json_fields.h"
#include "planner/calibration_set.h"
#include "planner/search.h"

namespace asterism::operators {

enum class PlanMode { kApply, kAdvise, kOff };

struct JobModelSpec {
  std::string preset;
  std::string config_map;
  std::string config_map_key = "config.json";
  std::string inline_json;  // an object as text
  int64_t global_batch = 0;
  int64_t sequence = 0;
  planner::Precision precision = planner::Precision::kBf16;
};

struct JobPlanSpec {
  std::optional<JobModelSpec> model;
  std::optional<PlanMode> mode;
  planner::FixedDegrees fixed;
  int64_t max_spare_gpus = 0;
  int64_t gpus = 0;
  std::string framework = "TorchRun";
  std::vector<std::string> command;  // with args

  PlanMode EffectiveMode() const {
    return mode.value_or(model.has_value() ? PlanMode::kApply : PlanMode::kOff);
  }
};

// Errors are recorded in `spec`'s document.
JobPlanSpec ParseJobPlan(const JsonFields& spec);

// Nothing: not a framework with arguments for a plan.
std::optional<planner::Framework> PlannerFrameworkOf(std::string_view word);

absl::StatusOr<planner::ModelSpec> ModelOfJob(const JobModelSpec& model,
                                              std::string_view config_json);

// Flags in the command are fixed degrees; one that contradicts spec.plan or spec.model is an error.
// `kept`: constants that the cluster has measured.
absl::StatusOr<planner::SearchRequest> RequestOfJob(
    const JobPlanSpec& spec, planner::Framework framework, const planner::ClusterSpec& cluster,
    std::string_view config_json, const planner::CalibrationSet& kept = planner::CalibrationSet());

}  // namespace asterism::operators
