#include "operator/training_job.h"

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

constexpr int64_t kSecondsMax = std::numeric_limits<int32_t>::max();

// In the order of the enums.
constexpr std::array<std::string_view, 3> kClassWords = {"Pretraining", "Finetuning", "Search"};
constexpr std::array<std::string_view, 3> kClassLabels = {"pretraining", "finetuning", "search"};
constexpr std::array<std::string_view, 6> kFrameworkWords = {"TorchRun", "MegatronLM", "DeepSpeed",
                                                             "FSDP",     "MPI",        "Plain"};
constexpr std::array<std::string_view, 3> kActionWords = {"FailJob", "Restart",
                                                          "RestartAndIgnoreMaxRestarts"};
constexpr std::array<std::string_view, 2> kSuccessWords = {"AllRanks", "RankZero"};
constexpr std::array<std::string_view, 4> kReasonWords = {"NodeFailure", "Preempted", "OOMKilled",
                                                          "AppError"};
constexpr std::array<std::string_view, 3> kPlanModeWords = {"Apply", "Advise", "Off"};
constexpr std::array<std::string_view, 3> kPolicyWords = {"Auto", "Pack", "Spread"};
constexpr std::array<std::string_view, 2> kModeWords = {"Required", "Preferred"};
constexpr int64_t kSparesMax = 1024;
constexpr std::array<std::string_view, 1> kSparesWords = {"Auto"};
constexpr std::array<std::string_view, 2> kLauncherWords = {"Auto", "Off"};

template <typename Enum, size_t size>
std::optional<Enum> EnumOf(const JsonFields& fields, std::string_view name,
                           const std::array<std::string_view, size>& words) {
  const std::optional<size_t> index = fields.OneOf(name, words);
  return index.has_value() ? std::optional(static_cast<Enum>(*index)) : std::nullopt;
}

template <size_t size>
std::string WordOf(const JsonFields& fields, std::string_view name,
                   const std::array<std::string_view, size>& words, std::string_view absent) {
  const std::optional<size_t> index = fields.OneOf(name, words);
  return std::string(index.has_value() ? words[*index] : absent);
}

std::vector<JobLevelRule> ParseLevels(const JsonFields& placement, int64_t gpus) {
  std::vector<JobLevelRule> rules;
  for (const JsonFields& entry : placement.Objects("levels", 16)) {
    JobLevelRule& rule = rules.emplace_back();
    rule.level = entry.String("level").value_or("");
    if (rule.level.empty()) {
      entry.Fail("level", "missing: name a level of the cluster");
    }
    rule.block_gpus = entry.Int("blockGpus", 1, kGpusMax).value_or(gpus);
    rule.required = entry.OneOf("mode", kModeWords).value_or(0) == 0;
    rule.max_wait_seconds = entry.Int("maxWaitSeconds", 0, kSecondsMax);
  }
  return rules;
}

FailureRule ParseFailureRule(const JsonFields& entry) {
  FailureRule rule;
  if (const json* codes = entry.Find("exitCodes"); codes != nullptr) {
    if (!codes->is_array() || codes->size() > 255) {
      entry.Fail("exitCodes", "must be a list of at most 255 exit codes");
      return rule;
    }
    for (const json& code : *codes) {
      if (!code.is_number_integer() || code.get<int64_t>() < 1 || code.get<int64_t>() > 255) {
        entry.Fail("exitCodes", "exit codes are whole numbers from 1 to 255");
        return rule;
      }
      rule.exit_codes.push_back(code.get<int32_t>());
    }
  }
  if (const auto reason = entry.OneOf("onReason", kReasonWords); reason.has_value()) {
    rule.on_reason = std::string(kReasonWords[*reason]);
  }
  const auto action = EnumOf<FailureAction>(entry, "action", kActionWords);
  if (!action.has_value()) {
    entry.Fail("action", "missing: use FailJob, Restart or RestartAndIgnoreMaxRestarts");
  }
  rule.action = action.value_or(FailureAction::kRestart);
  return rule;
}

FailurePolicy ParseFailurePolicy(const JsonFields& fields) {
  FailurePolicy policy;
  policy.max_restarts = fields.Int("maxRestarts", 0, kSecondsMax).value_or(policy.max_restarts);
  policy.reset_after_seconds =
      fields.Int("resetAfterSeconds", 0, kSecondsMax).value_or(policy.reset_after_seconds);
  policy.backoff_seconds = fields.Int("backoffSeconds", 0, 300).value_or(policy.backoff_seconds);
  for (const JsonFields& entry : fields.Objects("rules", 20)) {
    policy.rules.push_back(ParseFailureRule(entry));
  }
  return policy;
}

SpareWish ParseSpares(const JsonFields& failover) {
  const json* value = failover.Find("spares");
  if (value != nullptr && value->is_string()) {
    failover.OneOf("spares", kSparesWords);
    return {.automatic = true};
  }
  return {.count = failover.Int("spares", 0, kSparesMax).value_or(0)};
}

// A quantity may be written as a number.
std::string ParseSharedMemory(const JsonFields& spec) {
  const json* value = spec.Find("sharedMemory");
  if (value != nullptr && value->is_number_integer()) {
    return std::to_string(
        spec.Int("sharedMemory", 1, std::numeric_limits<int64_t>::max()).value_or(1));
  }
  return spec.String("sharedMemory").value_or("Auto");
}

// Who asks, for how much.
void ParseDemand(const JsonFields& fields, TrainingJobSpec& spec) {
  spec.queue = fields.String("queue").value_or(spec.queue);
  spec.job_class = EnumOf<JobClass>(fields, "class", kClassWords);
  spec.priority_class_name = fields.String("priorityClassName").value_or("");
  spec.preemptible = fields.Bool("preemptible").value_or(spec.preemptible);
  if (!fields.Has("gpus")) {
    fields.Fail("gpus", "missing: state the number of GPUs");
  }
  spec.gpus = fields.Int("gpus", 1, kGpusMax).value_or(0);
  spec.min_gpus = fields.Int("minGpus", 1, kGpusMax);
  spec.gpus_per_pod = fields.Int("gpusPerPod", 1, 1024);
  spec.gpu_products = fields.Strings("gpuProducts", 16);
  spec.resource_name = fields.String("resourceName").value_or(spec.resource_name);
  spec.suspend = fields.Bool("suspend").value_or(spec.suspend);
}

// What runs.
void ParseProgram(const JsonFields& fields, TrainingJobSpec& spec) {
  spec.framework = EnumOf<Framework>(fields, "framework", kFrameworkWords).value_or(spec.framework);
  spec.processes_per_pod = fields.Int("processesPerPod", 1, kProcessesPerPodMax);
  spec.container_name = fields.Object("container").String("name").value_or(spec.container_name);
  spec.has_model = fields.Has("model");
  fields.Object("model");  // its type
  spec.plan_mode = WordOf(fields.Object("plan"), "mode", kPlanModeWords, "");
  spec.launcher_auto = fields.OneOf("launcher", kLauncherWords).value_or(0) == 0;
  const JsonFields progress = fields.Object("progress");
  spec.progress_file = progress.String("file").value_or("");
  spec.progress_deadline_seconds = progress.Int("deadlineSeconds", 1, kSecondsMax);
  spec.shared_memory = ParseSharedMemory(fields);
  spec.master_port_stated = fields.Has("masterPort");
  spec.master_port = fields.Int("masterPort", 1, 65535).value_or(spec.master_port);
}

TrainingJobSpec ParseSpec(const JsonFields& fields) {
  TrainingJobSpec spec;
  ParseDemand(fields, spec);
  ParseProgram(fields, spec);
  const JsonFields placement = fields.Object("placement");
  spec.levels = ParseLevels(placement, spec.gpus);
  spec.placement_policy = WordOf(placement, "policy", kPolicyWords, "Auto");
  spec.failure_policy = ParseFailurePolicy(fields.Object("failurePolicy"));
  spec.spares = ParseSpares(fields.Object("failover"));
  spec.active_deadline_seconds =
      fields.Int("activeDeadlineSeconds", 1, std::numeric_limits<int64_t>::max());
  spec.expected_duration_seconds =
      fields.Int("expectedDurationSeconds", 1, std::numeric_limits<int64_t>::max());
  spec.ttl_seconds_after_finished = fields.Int("ttlSecondsAfterFinished", 0, kSecondsMax);
  spec.success_policy =
      EnumOf<SuccessPolicy>(fields, "successPolicy", kSuccessWords).value_or(spec.success_policy);
  return spec;
}

}  // namespace

std::string_view ToString(JobClass value) {
  return kClassWords[static_cast<size_t>(value)];
}
std::string_view ToLabel(JobClass value) {
  return kClassLabels[static_cast<size_t>(value)];
}
std::string_view ToString(Framework value) {
  return kFrameworkWords[static_cast<size_t>(value)];
}
std::string_view ToString(FailureAction value) {
  return kActionWords[static_cast<size_t>(value)];
}

std::optional<JobClass> ParseJobClass(std::string_view word) {
  for (size_t i = 0; i < kClassWords.size(); ++i) {
    if (kClassWords[i] == word) {
      return static_cast<JobClass>(i);
    }
  }
  return std::nullopt;
}

namespace {

absl::StatusOr<TrainingJob> ReadTrainingJob(json object, size_t bytes) {
  absl::Status error;
  const JsonFields root(&object, "", &error);
  TrainingJob job;
  job.meta = ParseObjectMeta(root.Object("metadata"));
  if (!root.Has("spec")) {
    root.Fail("spec", "missing");
  }
  job.spec = ParseSpec(root.Object("spec"));
  job.status = ParseStatus(root.Object("status"));
  RETURN_IF_ERROR(error);
  job.object = std::make_shared<const json>(std::move(object));
  job.bytes = bytes;
  return job;
}

}  // namespace

absl::StatusOr<TrainingJob> ParseTrainingJob(std::string_view text) {
  ASSIGN_OR_RETURN(json object, ParseObjectText(text, kTrainingJobs.kind));
  return ReadTrainingJob(std::move(object), text.size());
}

absl::StatusOr<TrainingJob> ParseTrainingJobWithoutStatus(std::string_view text) {
  ASSIGN_OR_RETURN(json object, ParseObjectText(text, kTrainingJobs.kind));
  object.erase("status");
  return ReadTrainingJob(std::move(object), text.size());
}

}  // namespace asterism::operators
