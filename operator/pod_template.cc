#include "operator/pod_template.h"

#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "base/cut_text.h"
#include "fmt/format.h"
#include "kube/quantity.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"
#include "operator/launch_environment.h"
#include "operator/template_fit.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr std::string_view kReservedPrefix = "asterism";
constexpr std::string_view kReservedResources = "asterism.dev/";
constexpr std::string_view kReservedNames =
    "names that start with asterism are reserved: use another name";
constexpr size_t kListMax = 1024;

struct RefusedField {
  std::string_view field;
  std::string_view remedy;
};

// Of template.spec: each of these has an owner elsewhere. The texts are those of the schema.
constexpr std::array<RefusedField, 8> kRefused = {{
    {"schedulerName", "the operator sets it: leave it out"},
    {"nodeName",
     "the placement decides the node: leave it out, or narrow the nodes with nodeSelector"},
    {"hostname", "the rank decides the host name: leave it out"},
    {"hostnameOverride", "the rank decides the host name: leave it out"},
    {"subdomain", "it is the name of the job: leave it out"},
    {"schedulingGates",
     "pods are created when their place is decided: leave it out and use spec.suspend"},
    {"schedulingGroup", "leave it out and use spec.nativeGang"},
    {"priorityClassName", "leave it out and use spec.priorityClassName"},
}};

constexpr std::string_view kNamesNodes =
    "names single nodes, and the placement decides those: use a label that a group of nodes "
    "shares, or cordon the nodes to avoid";

void CheckReserved(const JsonFields& fields, std::string_view name) {
  if (fields.String(name).value_or("").starts_with(kReservedPrefix)) {
    fields.Fail(name, kReservedNames);
  }
}

void CheckEnvironment(const JsonFields& container) {
  for (const JsonFields& variable : container.Objects("env", kListMax)) {
    const std::string name = variable.String("name").value_or("");
    variable.String("value");
    if (name.starts_with(kReservedVariablePrefix)) {
      variable.Fail("name",
                    fmt::format("{}: variables that start with {} are reserved: use another "
                                "name",
                                base::CutText(name, 128), kReservedVariablePrefix));
    }
  }
}

// The amount of the GPU resource, or nullopt when it is not stated. What is no quantity reads as
// -1.
std::optional<int64_t> GpuAmount(const JsonFields& amounts, const std::string& resource) {
  const json* value = amounts.Find(resource);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->is_number_integer()) {
    return amounts.Int(resource, 0, 1 << 20).value_or(-1);
  }
  if (!value->is_string()) {
    return -1;
  }
  return kube::ParseQuantity(value->get_ref<const std::string&>()).value_or(-1);
}

// Ways to the agent of the node: one that asks for all of them would leave other jobs none.
void CheckReservedAmounts(const JsonFields& resources, std::string_view part) {
  const json* amounts = resources.Find(part);
  if (amounts == nullptr || !amounts->is_object()) {
    return;
  }
  for (const auto& [name, amount] : amounts->items()) {
    if (name.starts_with(kReservedResources)) {
      resources.Object(part).Fail(base::CutText(name, 128),
                                  "resources of asterism.dev are reserved: leave it out, the "
                                  "operator asks for what a pod needs");
    }
  }
}

void CheckAmounts(const JsonFields& container, const TemplateFacts& facts, bool is_trainer) {
  const JsonFields resources = container.Object("resources");
  for (const std::string_view part : {"limits", "requests"}) {
    CheckReservedAmounts(resources, part);
    const JsonFields amounts = resources.Object(part);
    const std::optional<int64_t> gpus = GpuAmount(amounts, facts.resource_name);
    if (!gpus.has_value()) {
      continue;
    }
    if (!is_trainer) {
      amounts.Fail(facts.resource_name,
                   fmt::format("only the container {} may have {}: remove it from the others",
                               facts.container_name, facts.resource_name));
    } else if (*gpus != facts.gpus_per_pod) {
      amounts.Fail(facts.resource_name,
                   fmt::format("it is not gpusPerPod ({}): leave it out, gpusPerPod sets it",
                               facts.gpus_per_pod));
    }
  }
}

void CheckMounts(const JsonFields& container) {
  for (const JsonFields& mount : container.Objects("volumeMounts", kListMax)) {
    std::string path = mount.String("mountPath").value_or("");
    while (path.size() > 1 && path.back() == '/') {
      path.pop_back();
    }
    if (path == kHostFileFolder || path.starts_with(std::string(kHostFileFolder) + "/")) {
      mount.Fail("mountPath", fmt::format("{} is reserved: mount it elsewhere", kHostFileFolder));
    }
  }
}

void CheckContainer(const JsonFields& container, const TemplateFacts& facts, bool is_trainer) {
  CheckReserved(container, "name");
  CheckEnvironment(container);
  CheckAmounts(container, facts, is_trainer);
  container.String("image");
  container.Strings("command", kListMax);
  container.Strings("args", kListMax);
  container.Object("securityContext");
  container.Object("resources").Objects("claims", kListMax);
  if (is_trainer) {
    CheckMounts(container);
  }
}

void CheckNamed(const JsonFields& fields, std::string_view list) {
  for (const JsonFields& entry : fields.Objects(list, kListMax)) {
    CheckReserved(entry, "name");
    if (!entry.Has("name")) {
      entry.Fail("name", "missing: give it a name");
    }
  }
}

// Each term gets the pin; a term that selects nothing would begin to match through it.
void CheckAffinity(const JsonFields& pod) {
  const JsonFields required = pod.Object("affinity")
                                  .Object("nodeAffinity")
                                  .Object("requiredDuringSchedulingIgnoredDuringExecution");
  for (const JsonFields& term : required.Objects("nodeSelectorTerms", kListMax)) {
    const size_t parts = term.Objects("matchExpressions", kListMax).size() +
                         term.Objects("matchFields", kListMax).size();
    if (parts == 0) {
      term.Fail("matchExpressions", "an empty term matches no node: remove it");
    }
    for (const JsonFields& requirement : term.Objects("matchExpressions", kListMax)) {
      if (requirement.String("key") == kHostnameLabel && requirement.String("operator") == "In") {
        requirement.Fail("key", kNamesNodes);
      }
    }
    for (const JsonFields& requirement : term.Objects("matchFields", kListMax)) {
      if (requirement.String("operator") == "In") {
        requirement.Fail("key", kNamesNodes);
      }
    }
  }
  if (pod.Pairs("nodeSelector").contains(kHostnameLabel)) {
    pod.Fail("nodeSelector", kNamesNodes);
  }
}

void CheckMetadata(const JsonFields& metadata) {
  for (const std::string_view part : {"labels", "annotations"}) {
    for (const auto& [key, value] : metadata.Pairs(part)) {
      if (key.starts_with(kReservedPrefix)) {
        metadata.Object(part).Fail(base::CutText(key, 128),
                                   "keys that start with asterism are reserved: use another key");
      }
    }
  }
}

void CheckTemplateSpec(const JsonFields& pod, const TemplateFacts& facts) {
  for (const RefusedField& refusal : kRefused) {
    if (pod.Has(refusal.field)) {
      pod.Fail(refusal.field, refusal.remedy);
    }
  }
  if (pod.String("restartPolicy").value_or("Never") != "Never") {
    pod.Fail("restartPolicy", "only Never: leave it out and use spec.failurePolicy");
  }
  for (const JsonFields& container : pod.Objects("containers", kListMax)) {
    CheckContainer(container, facts, container.String("name") == facts.container_name);
  }
  for (const JsonFields& container : pod.Objects("initContainers", kListMax)) {
    CheckContainer(container, facts, /*is_trainer=*/false);
  }
  CheckNamed(pod, "volumes");
  CheckNamed(pod, "imagePullSecrets");
  pod.Objects("tolerations", kListMax);
  pod.Bool("hostNetwork");
  CheckAffinity(pod);
}

// Puts the entries of `over` into the list `base`, over the entry with an equal `key` where there
// is one.
void MergeList(json& base, const json& over, const char* key) {
  if (!base.is_array()) {
    base = json::array();
  }
  for (const json& entry : over) {
    json* same = nullptr;
    for (json& candidate : base) {
      if (entry.contains(key) && candidate.contains(key) && candidate[key] == entry[key]) {
        same = &candidate;
      }
    }
    if (same != nullptr) {
      *same = entry;
    } else {
      base.push_back(entry);
    }
  }
}

// Null means absent everywhere in the API; without nulls the types that were checked are the types.
void DropNulls(json& value) {
  if (value.is_object()) {
    for (auto field = value.begin(); field != value.end();) {
      field = field->is_null() ? value.erase(field) : std::next(field);
    }
  }
  if (value.is_structured()) {
    for (json& part : value) {
      DropNulls(part);
    }
  }
}

void MergeMap(json& base, const json& over) {
  if (!base.is_object() || !over.is_object()) {
    base = over;
    return;
  }
  for (const auto& [key, value] : over.items()) {
    if (value.is_object()) {
      MergeMap(base[key], value);
    } else if (!value.is_null()) {
      base[key] = value;
    }
  }
}

void MergeResources(json& base, const json& over) {
  json maps = over;
  maps.erase("claims");
  MergeMap(base, maps);
  if (over.contains("claims")) {
    MergeList(base["claims"], over["claims"], "name");
  }
}

void MergeContainer(json& base, const json& over) {
  for (const auto& [key, value] : over.items()) {
    if (value.is_null()) {
      continue;
    }
    if (key == "env") {
      MergeList(base[key], value, "name");
    } else if (key == "volumeMounts") {
      MergeList(base[key], value, "mountPath");
    } else if (key == "resources") {
      MergeResources(base[key], value);
    } else if (key == "securityContext") {
      MergeMap(base[key], value);
    } else {
      base[key] = value;
    }
  }
}

// The value at `keys`, or an empty object.
const json& At(const json& object, std::initializer_list<const char*> keys) {
  static const json kNothing = json::object();
  const json* value = &object;
  for (const char* key : keys) {
    if (!value->is_object()) {
      return kNothing;
    }
    auto found = value->find(key);
    if (found == value->end() || found->is_null()) {
      return kNothing;
    }
    value = &*found;
  }
  return *value;
}

bool IsNamed(const json& container, std::string_view name) {
  const json& own = At(container, {"name"});
  return own.is_string() && own.get_ref<const std::string&>() == name;
}

void AppendWords(const json& words, std::vector<std::string>& out) {
  if (!words.is_array()) {
    return;
  }
  for (const json& word : words) {
    if (word.is_string()) {
      out.push_back(word.get<std::string>());
    }
  }
}

absl::Status CheckProgram(const json& object, const TemplateFacts& facts) {
  json merged = MergePodTemplate(object, facts.container_name);
  const json& trainer = *FindContainer(merged["spec"], facts.container_name);
  if (!At(trainer, {"image"}).is_string() ||
      trainer["image"].get_ref<const std::string&>().empty()) {
    return absl::InvalidArgumentError(
        "spec.container.image: required: state it here, or in the container of this name in "
        "template");
  }
  if (facts.launcher && At(trainer, {"command"}).empty()) {
    return absl::InvalidArgumentError(
        "spec.container.command: required, since the entry point of an image cannot be wrapped: "
        "state the command, or set launcher: \"Off\"");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPodTemplate(const json& object, const TemplateFacts& facts) {
  absl::Status error;
  const JsonFields spec = JsonFields(&object, "", &error).Object("spec");
  CheckContainer(spec.Object("container"), facts, /*is_trainer=*/true);
  CheckNamed(spec, "volumes");
  CheckNamed(spec, "imagePullSecrets");
  spec.String("serviceAccountName");
  const JsonFields pod_template = spec.Object("template");
  CheckMetadata(pod_template.Object("metadata"));
  CheckTemplateSpec(pod_template.Object("spec"), facts);
  if (!error.ok()) {
    return error;
  }
  return CheckProgram(object, facts);
}

json MergePodTemplate(const json& object, std::string_view container_name) {
  json pod = {{"metadata", json::object()}, {"spec", At(object, {"spec", "template", "spec"})}};
  for (const char* part : {"labels", "annotations", "finalizers"}) {
    const json& value = At(object, {"spec", "template", "metadata", part});
    if (!value.empty()) {
      pod["metadata"][part] = value;
    }
  }
  json& spec = pod["spec"];
  const json& job = At(object, {"spec"});
  json* trainer = FindContainer(spec, container_name);
  if (trainer == nullptr) {
    // First, so that kubectl logs shows it.
    json& containers = spec["containers"];
    if (!containers.is_array()) {
      containers = json::array();
    }
    trainer = &*containers.insert(containers.begin(), json{{"name", container_name}});
  }
  MergeContainer(*trainer, At(job, {"container"}));
  for (const char* list : {"volumes", "imagePullSecrets"}) {
    const json& entries = At(job, {list});
    if (!entries.empty()) {
      MergeList(spec[list], entries, "name");
    }
  }
  if (const json& account = At(job, {"serviceAccountName"}); account.is_string()) {
    spec["serviceAccountName"] = account;
  }
  DropNulls(pod);
  return pod;
}

json* FindContainer(json& pod_spec, std::string_view name) {
  auto containers = pod_spec.find("containers");
  if (containers == pod_spec.end() || !containers->is_array()) {
    return nullptr;
  }
  for (json& container : *containers) {
    if (IsNamed(container, name)) {
      return &container;
    }
  }
  return nullptr;
}

std::vector<std::string> TrainerCommand(const json& object, std::string_view container_name) {
  const json* from_template = nullptr;
  for (const json& container : At(object, {"spec", "template", "spec", "containers"})) {
    if (IsNamed(container, container_name)) {
      from_template = &container;
    }
  }
  std::vector<std::string> words;
  for (const char* part : {"command", "args"}) {
    const json& own = At(object, {"spec", "container", part});
    AppendWords(!own.is_array() && from_template != nullptr ? At(*from_template, {part}) : own,
                words);
    if (words.empty()) {
      return words;  // args alone go to a program that only the image knows
    }
  }
  return words;
}

}  // namespace asterism::operators
