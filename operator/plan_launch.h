// File: operator/plan_launch.h
//
// Hands a plan to the framework: puts its arguments, variables and file into the pod of a job.
// Private to operator/.
//
//   switch (HandOverOf(TrainerCommand(*job.object, name), args_only)) ...
//   AddPlan(job.status.plan, pod, trainer);       // before the launcher wraps the command
//
// Arguments stand behind those of the user. Where the command is a shell's, or the image's own,
// there is nobody to append them to: they stand in ASTERISM_PLAN_ARGS, separated by blanks. A
// user's own value of a variable stays. The file is an annotation of the pod that a downward API
// volume shows: it needs no object of its own and cannot be missing when the pod starts.
//
// Thread-safety: pure. Cost: some copies of JSON.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"
#include "operator/training_job.h"

namespace asterism::operators {

inline constexpr std::string_view kPlanFolder = "/etc/asterism-plan";
inline constexpr std::string_view kPlanFileAnnotation = "asterism.dev/plan-file";
inline constexpr std::string_view kPlanArgumentsVariable = "ASTERISM_PLAN_ARGS";
inline constexpr std::string_view kPlanFileVariable = "ASTERISM_PLAN_FILE";

// How the arguments reach the program.
enum class PlanHandOver {
  kAppended,
  kShell,  // command[0] is a shell
  kImage,  // the image decides what runs
};

PlanHandOver HandOverOf(const nlohmann::json& trainer);

// Of the training container as the job states it.
PlanHandOver HandOverOf(const TrainingJob& job);

// "/etc/asterism-plan/deepspeed.json"; empty without a file.
std::string PlanFilePath(std::string_view file_name);

void AddPlan(const PlanStatus& plan, nlohmann::json& pod, nlohmann::json& trainer);

}  // namespace asterism::operators
