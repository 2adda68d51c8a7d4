#include "operator/plan_launch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/launch_environment.h"
#include "operator/pod_template.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr const char* kPlanVolume = "asterism-plan";

bool HasWords(const json& container, const char* list) {
  const auto found = container.find(list);
  return found != container.end() && found->is_array() && !found->empty();
}

json& WordsOf(json& container, const char* list) {
  json& words = container[list];
  if (!words.is_array()) {
    words = json::array();
  }
  return words;
}

void SetUnlessStated(std::string_view name, std::string value, json& trainer) {
  json& env = WordsOf(trainer, "env");
  const bool stated = std::any_of(env.begin(), env.end(), [name](const json& variable) {
    return variable.value("name", "") == name;
  });
  if (!stated) {
    json variable = json::object();
    variable["name"] = name;
    variable["value"] = std::move(value);
    env.push_back(std::move(variable));
  }
}

void AddFile(const PlanStatus& plan, json& pod, json& trainer) {
  pod["metadata"]["annotations"][std::string(kPlanFileAnnotation)] = plan.file_text;
  json item = json::object();
  item["path"] = plan.file_name;
  item["fieldRef"]["fieldPath"] = fmt::format("metadata.annotations['{}']", kPlanFileAnnotation);
  json volume = json::object();
  volume["name"] = kPlanVolume;
  volume["downwardAPI"]["items"] = json::array();
  volume["downwardAPI"]["items"].push_back(std::move(item));
  WordsOf(pod["spec"], "volumes").push_back(std::move(volume));
  json mount = json::object();
  mount["name"] = kPlanVolume;
  mount["mountPath"] = kPlanFolder;
  mount["readOnly"] = true;
  WordsOf(trainer, "volumeMounts").push_back(std::move(mount));
  SetUnlessStated(kPlanFileVariable, PlanFilePath(plan.file_name), trainer);
}

// `accelerate launch` takes its file before the script, all others take arguments behind it.
void NameFileToAccelerate(const PlanStatus& plan, json& trainer) {
  json& command = WordsOf(trainer, "command");
  if (plan.file_name.empty() || command.size() < 2 || command[1] != "launch" ||
      !command[0].is_string() || ProgramName(command[0].get<std::string>()) != "accelerate") {
    return;
  }
  const json words = json::array({"--config_file", PlanFilePath(plan.file_name)});
  command.insert(command.begin() + 2, words.begin(), words.end());
}

}  // namespace

PlanHandOver HandOverOf(const json& trainer) {
  if (HasWords(trainer, "command")) {
    const json& program = trainer["command"][0];
    return program.is_string() && IsShell(program.get<std::string>()) ? PlanHandOver::kShell
                                                                      : PlanHandOver::kAppended;
  }
  // Arguments of the job's own replace those of the image; its entry point gets them.
  return HasWords(trainer, "args") ? PlanHandOver::kAppended : PlanHandOver::kImage;
}

PlanHandOver HandOverOf(const TrainingJob& job) {
  if (job.object == nullptr) {
    return PlanHandOver::kImage;
  }
  json pod = MergePodTemplate(*job.object, job.spec.container_name);
  const json* trainer = FindContainer(pod["spec"], job.spec.container_name);
  return trainer == nullptr ? PlanHandOver::kImage : HandOverOf(*trainer);
}

std::string PlanFilePath(std::string_view file_name) {
  return file_name.empty() ? "" : fmt::format("{}/{}", kPlanFolder, file_name);
}

void AddPlan(const PlanStatus& plan, json& pod, json& trainer) {
  if (HandOverOf(trainer) == PlanHandOver::kAppended) {
    json& words = WordsOf(trainer, HasWords(trainer, "args") ? "args" : "command");
    for (const std::string& word : plan.arguments) {
      words.push_back(word);
    }
    NameFileToAccelerate(plan, trainer);
  } else {
    SetUnlessStated(kPlanArgumentsVariable, absl::StrJoin(plan.arguments, " "), trainer);
  }
  for (const PlanVariable& variable : plan.variables) {
    SetUnlessStated(variable.name, variable.value, trainer);
  }
  if (!plan.file_name.empty()) {
    AddFile(plan, pod, trainer);
  }
}

}  // namespace asterism::operators
