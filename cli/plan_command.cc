#include "cli/plan_command.h"

#include <optional>
#include <string>

#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "cli/plan_request.h"
#include "cli/plan_view.h"
#include "cli/structured_output.h"
#include "cli/styled_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "planner/command_flags.h"
#include "planner/launch_files.h"
#include "planner/plan_answer.h"

namespace asterism::cli {
namespace {

absl::StatusOr<std::string> ReadPlanFile(std::string_view option, const std::string& path) {
  if (path.empty()) {
    return "";
  }
  absl::StatusOr<std::string> text = base::ReadSmallFile(path);
  if (!text.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("--{}: {}", option, base::ToStd(text.status().message())));
  }
  return text;
}

std::optional<planner::LaunchFormat> LaunchFormatOf(OutputFormat format) {
  switch (format) {
    case OutputFormat::kMegatron:
      return planner::LaunchFormat::kMegatron;
    case OutputFormat::kBridge:
      return planner::LaunchFormat::kBridge;
    case OutputFormat::kDeepSpeed:
      return planner::LaunchFormat::kDeepSpeed;
    case OutputFormat::kTorchTitan:
      return planner::LaunchFormat::kTorchTitan;
    case OutputFormat::kAccelerate:
      return planner::LaunchFormat::kAccelerate;
    case OutputFormat::kTorchrun:
      return planner::LaunchFormat::kTorchrun;
    case OutputFormat::kText:
    case OutputFormat::kWide:
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
    case OutputFormat::kDot:
    case OutputFormat::kSvg:
      return std::nullopt;
  }
  return std::nullopt;
}

// The file where the format has one, else the arguments.
std::string LaunchText(const PlanQuestion& question, const planner::PlanAnswer& answer) {
  const planner::LaunchFiles files = planner::WriteLaunch(
      question.request.model, answer.tuned.launch,
      {.nodes = (answer.best().gpus + question.gpus_per_node - 1) / question.gpus_per_node,
       .gpus_per_node = question.gpus_per_node},
      question.format);
  if (!files.name.empty()) {
    return files.text;
  }
  return fmt::format("{}\n",
                     fmt::join(planner::WithoutGiven(files.arguments, question.command), " "));
}

void PrintPlan(const Arguments& arguments, const Surroundings& around, const PlanQuestion& question,
               const planner::PlanAnswer& answer) {
  switch (arguments.output) {
    case OutputFormat::kText:
    case OutputFormat::kWide:
      around.out << Print(
          PlanLines(question, answer,
                    {.width = around.paper.width, .wide = arguments.output == OutputFormat::kWide}),
          around.paper);
      return;
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
      around.out << StructuredText(PlanJson(question, answer), arguments.output);
      return;
    case OutputFormat::kSvg:
      around.out << PlanPicture(question, answer);
      return;
    default:
      around.out << LaunchText(question, answer);
  }
}

}  // namespace

absl::StatusOr<int> RunPlan(const Arguments& arguments, const Surroundings& around) {
  PlanTexts texts;
  ASSIGN_OR_RETURN(texts.job, ReadPlanFile("filename", arguments.job_file));
  ASSIGN_OR_RETURN(texts.cluster, ReadPlanFile("cluster", arguments.cluster_file));
  ASSIGN_OR_RETURN(texts.config, ReadPlanFile("config", arguments.config_file));
  ASSIGN_OR_RETURN(const PlanQuestion question,
                   ReadPlanQuestion(texts, LaunchFormatOf(arguments.output)));
  ASSIGN_OR_RETURN(const planner::PlanAnswer answer, planner::AnswerPlan(question.request));
  if (!answer.outcome.best.empty()) {
    PrintPlan(arguments, around, question, answer);
    return kExitDone;
  }
  if (arguments.output == OutputFormat::kJson || arguments.output == OutputFormat::kYaml) {
    around.out << StructuredText(PlanJson(question, answer), arguments.output);
  } else {
    around.error << "no plan: " << Escaped(answer.impossible) << "\n";
  }
  return kExitNever;
}

}  // namespace asterism::cli
