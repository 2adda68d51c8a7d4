#include "operator/pod_builder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/cut_text.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/quantity.h"
#include "nlohmann/json.hpp"
#include "operator/direct_commit.h"
#include "operator/json_fields.h"
#include "operator/launch_environment.h"
#include "operator/launcher.h"
#include "operator/plan_launch.h"
#include "operator/pod_template.h"
#include "operator/text_with_holes.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr const char* kSharedMemoryVolume = "asterism-shm";
constexpr const char* kSharedMemoryPath = "/dev/shm";
constexpr const char* kHostsVolume = "asterism-hosts";
constexpr size_t kConfigMapBytesMax = 1 << 20;

// What differs between the pods of a gang; holes of the pod's text.
enum PodHole : size_t { kFirstRank, kLastRank, kPodIndex, kEpoch, kNode, kDomain, kPodHoles };

absl::Status CheckMeta(const kube::ObjectMeta& meta) {
  // The rules of the schema; names of pods, hosts and the service are made from it.
  const auto is_name_char = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  const std::string& name = meta.name;
  if (name.empty() || name.size() > 40 || name[0] < 'a' || name[0] > 'z' || name.back() == '-' ||
      !std::all_of(name.begin(), name.end(), is_name_char)) {
    return absl::InvalidArgumentError(fmt::format(
        "metadata.name: \"{}\" cannot become a host name: at most 40 characters, start "
        "with a lower case letter, then lower case letters, digits and -, the last no -",
        base::CutText(name, 64)));
  }
  if (meta.namespace_name.empty() || meta.uid.empty()) {
    return absl::InvalidArgumentError(
        "metadata: namespace and uid are missing: only a job that the API server keeps has pods");
  }
  return absl::OkStatus();
}

absl::Status CheckSharedMemory(const std::string& text) {
  if (text == "Auto" || text == "Off") {
    return absl::OkStatus();
  }
  const absl::StatusOr<int64_t> bytes = kube::ParseQuantity(text);
  if (!bytes.ok() || *bytes <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("spec.sharedMemory: \"{}\": use Auto, \"Off\" or a quantity such as 64Gi",
                    base::CutText(text, 64)));
  }
  return absl::OkStatus();
}

// The list `name` of `object`, made when it is absent.
json& List(json& object, const char* name) {
  json& list = object[name];
  if (!list.is_array()) {
    list = json::array();
  }
  return list;
}

bool Mounts(const json& container, std::string_view path) {
  const auto mounts = container.find("volumeMounts");
  if (mounts == container.end()) {
    return false;
  }
  return std::any_of(mounts->begin(), mounts->end(), [path](const json& mount) {
    std::string mounted = mount.value("mountPath", "");
    while (mounted.size() > 1 && mounted.back() == '/') {
      mounted.pop_back();
    }
    return mounted == path;
  });
}

json OwnerReferences(const kube::ObjectMeta& job) {
  return json::array({{{"apiVersion", "asterism.dev/v1alpha1"},
                       {"kind", kTrainingJobs.kind},
                       {"name", job.name},
                       {"uid", job.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

// Of the service and the host file.
json CompanionMeta(const kube::ObjectMeta& job, std::string name) {
  return {{"name", std::move(name)},
          {"namespace", job.namespace_name},
          {"labels", {{std::string(kJobLabel), job.name}, {std::string(kJobUidLabel), job.uid}}},
          {"ownerReferences", OwnerReferences(job)}};
}

void AddMetadata(const TrainingJob& job, const GangShape& shape, const HoleMarks& marks,
                 json& metadata) {
  metadata["name"] =
      fmt::format("{}-r{}-e{}", JobInstance(job.meta), marks[kFirstRank], marks[kEpoch]);
  metadata["namespace"] = job.meta.namespace_name;
  metadata["ownerReferences"] = OwnerReferences(job.meta);
  json& labels = metadata["labels"];
  labels[std::string(kJobLabel)] = job.meta.name;
  labels[std::string(kJobUidLabel)] = job.meta.uid;
  labels[std::string(kQueueLabel)] = job.spec.queue;
  labels[std::string(kClassLabel)] = ToLabel(shape.job_class);
  labels[std::string(kLiveLabel)] = "true";
  json& annotations = metadata["annotations"];
  annotations[std::string(kRanksAnnotation)] =
      fmt::format("{}-{}", marks[kFirstRank], marks[kLastRank]);
  annotations[std::string(kEpochAnnotation)] = marks[kEpoch];
  annotations[std::string(kPodsAnnotation)] = std::to_string(shape.pods);
}

void AddToleration(std::string_view key, json& spec) {
  const json toleration = {{"key", key}, {"operator", "Exists"}, {"effect", "NoSchedule"}};
  json& tolerations = List(spec, "tolerations");
  if (std::find(tolerations.begin(), tolerations.end(), toleration) == tolerations.end()) {
    tolerations.push_back(toleration);
  }
}

void AddScheduling(const TrainingJob& job, const PodSettings& settings, const HoleMarks& marks,
                   json& spec) {
  spec["schedulerName"] = settings.scheduler_name;
  spec["restartPolicy"] = "Never";
  spec["hostname"] = fmt::format("{}-r{}", job.meta.name, marks[kFirstRank]);
  spec["subdomain"] = job.meta.name;
  if (!job.spec.priority_class_name.empty()) {
    spec["priorityClassName"] = job.spec.priority_class_name;
  }
  if (spec.value("hostNetwork", false) && !spec.contains("dnsPolicy")) {
    spec["dnsPolicy"] = "ClusterFirstWithHostNet";
  }
  AddToleration(kManagedTaint, spec);
  AddToleration(job.spec.resource_name, spec);
}

// Into each term, since the terms are alternatives: exactly one name a term lets kube-scheduler
// look at one node instead of all.
void AddPin(const std::string& node, json& spec) {
  const json pin = {{"key", "metadata.name"}, {"operator", "In"}, {"values", json::array({node})}};
  json& required =
      spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  json& terms = List(required, "nodeSelectorTerms");
  if (terms.empty()) {
    terms.push_back(json::object());
  }
  for (json& term : terms) {
    List(term, "matchFields").push_back(pin);
  }
}

void AddGpus(const TrainingJobSpec& job, int64_t gpus_per_pod, json& trainer) {
  for (const char* part : {"limits", "requests"}) {
    trainer["resources"][part][job.resource_name] = std::to_string(gpus_per_pod);
  }
}

void AddSharedMemory(const std::string& shared_memory, json& spec, json& trainer) {
  if (shared_memory == "Off" || Mounts(trainer, kSharedMemoryPath)) {
    return;
  }
  json volume = {{"name", kSharedMemoryVolume}, {"emptyDir", {{"medium", "Memory"}}}};
  if (shared_memory != "Auto") {
    volume["emptyDir"]["sizeLimit"] = shared_memory;
  }
  List(spec, "volumes").push_back(std::move(volume));
  List(trainer, "volumeMounts")
      .push_back({{"name", kSharedMemoryVolume}, {"mountPath", kSharedMemoryPath}});
}

void AddHostFile(const std::string& map_name, json& spec, json& trainer) {
  List(spec, "volumes").push_back({{"name", kHostsVolume}, {"configMap", {{"name", map_name}}}});
  List(trainer, "volumeMounts")
      .push_back({{"name", kHostsVolume}, {"mountPath", kHostFileFolder}, {"readOnly", true}});
}

// The text that the user gave a variable; empty when there is none or it comes from elsewhere.
std::string UserValue(const json& env, std::string_view name) {
  std::string value;
  for (const json& variable : env) {
    if (variable.value("name", "") == name) {
      value = variable.value("value", "");
    }
  }
  return value;
}

void AddEnvironment(const TrainingJob& job, const GangShape& shape, const HoleMarks& marks,
                    bool host_network, json& trainer) {
  const json user = std::exchange(List(trainer, "env"), json::array());
  const int64_t port = host_network && !job.spec.master_port_stated
                           ? HostNetworkMasterPort(job.meta.uid)
                           : job.spec.master_port;
  LaunchFacts facts{.framework = job.spec.framework,
                    .job = job.meta.name,
                    .uid = job.meta.uid,
                    .pods = shape.pods,
                    .processes_per_pod = shape.processes_per_pod,
                    .master_address = UserValue(user, "MASTER_ADDR"),
                    .master_port = UserValue(user, "MASTER_PORT")};
  if (facts.master_address.empty()) {
    facts.master_address = MasterAddress(job.meta);
  }
  if (facts.master_port.empty()) {
    facts.master_port = std::to_string(port);
  }
  json& env = trainer["env"];
  for (LaunchVariable& variable :
       LaunchEnvironment(facts, {marks[kFirstRank], marks[kPodIndex], marks[kEpoch]})) {
    const bool users = std::any_of(user.begin(), user.end(), [&variable](const json& own) {
      return own.value("name", "") == variable.name;
    });
    if (!users) {
      env.push_back({{"name", std::move(variable.name)}, {"value", std::move(variable.value)}});
    }
  }
  env.insert(env.end(), user.begin(), user.end());
}

// What the pods of an MPI gang are beside their ranks: rank 0 runs the command, the others wait.
enum class PodRole { kRunsCommand, kWaits };

bool IsWrapped(const TrainingJob& job, const PodSettings& settings) {
  return job.spec.launcher_auto && !settings.launcher_image.empty();
}

LauncherFacts LauncherFactsOf(const TrainingJob& job, PodRole role, const json& trainer) {
  LauncherFacts facts{.progress_path = job.spec.progress_file};
  if (job.spec.framework == Framework::kMpi) {
    facts.key_secret = KeySecretName(job.meta);
    // The next one after the port of rank 0, which MPI jobs do not use.
    const std::string master_port = UserValue(trainer.at("env"), "MASTER_PORT");
    facts.remote_port = std::atoll(master_port.c_str()) % 65535 + 1;
    facts.worker = role == PodRole::kWaits;
  }
  return facts;
}

json BuildPod(const TrainingJob& job, const GangShape& shape, const PodSettings& settings,
              PodRole role, const HoleMarks& marks) {
  json pod = MergePodTemplate(*job.object, job.spec.container_name);
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  AddMetadata(job, shape, marks, pod["metadata"]);
  json& spec = pod["spec"];
  AddScheduling(job, settings, marks, spec);
  json& trainer = *FindContainer(spec, job.spec.container_name);
  AddGpus(job.spec, shape.gpus_per_pod, trainer);
  AddSharedMemory(job.spec.shared_memory, spec, trainer);
  if (WantsHostFile(job.spec.framework)) {
    AddHostFile(HostFileMapName(job.meta, shape.pods), spec, trainer);
  }
  AddEnvironment(job, shape, marks, spec.value("hostNetwork", false), trainer);
  if (settings.plan != nullptr) {
    AddPlan(*settings.plan, pod, trainer);
  }
  if (IsWrapped(job, settings)) {
    AddLauncher(settings.launcher_image, LauncherFactsOf(job, role, trainer), spec, trainer);
  }
  return pod;
}

// All that a plan puts into a pod.
std::string TextOf(const PlanStatus* plan) {
  std::string text;
  if (plan != nullptr) {
    text = plan->file_name + plan->file_text;
    for (const std::string& word : plan->arguments) {
      text += word;
    }
    for (const PlanVariable& variable : plan->variables) {
      text += variable.name + variable.value;
    }
  }
  return text;
}

// The text of a string inside the quotes of JSON.
std::string InsideQuotes(std::string_view text) {
  const std::string quoted = DumpJson(json(text));
  return quoted.substr(1, quoted.size() - 2);
}

absl::StatusOr<std::string> MakeHostFileBody(const kube::ObjectMeta& job, const GangShape& shape) {
  const std::string text = HostFile(job, shape);
  if (text.size() > kConfigMapBytesMax) {
    return absl::InvalidArgumentError(fmt::format(
        "spec.framework: the host file of {} pods has {} bytes, more than a ConfigMap holds ({}): "
        "use TorchRun, which needs none, or a larger gpusPerPod",
        shape.pods, text.size(), kConfigMapBytesMax));
  }
  return DumpJson({{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"metadata", CompanionMeta(job, HostFileMapName(job, shape.pods))},
                   {"data", {{std::string(kHostFileName), text}}}});
}

std::string MakeServiceBody(const kube::ObjectMeta& job) {
  return DumpJson(
      {{"apiVersion", "v1"},
       {"kind", "Service"},
       {"metadata", CompanionMeta(job, job.name)},
       {"spec",
        {{"clusterIP", "None"},
         {"publishNotReadyAddresses", true},
         {"selector",
          {{std::string(kJobUidLabel), job.uid}, {std::string(kLiveLabel), "true"}}}}}});
}

absl::Status CheckJob(const TrainingJob& job, const GangShape& shape, const PodSettings& settings) {
  RETURN_IF_ERROR(CheckMeta(job.meta));
  if (job.object == nullptr) {
    return absl::InvalidArgumentError("spec: the job was not read from an object");
  }
  if (job.spec.framework == Framework::kMpi && settings.launcher_image.empty()) {
    return absl::FailedPreconditionError(
        "spec.framework: MPI needs asterism-launch, which this installation does not have: use "
        "TorchRun, DeepSpeed or Plain, or set launcher.image in its configuration");
  }
  if (job.spec.framework == Framework::kMpi && !job.spec.launcher_auto) {
    return absl::InvalidArgumentError(
        "spec.launcher: \"Off\" does not go with framework MPI, whose ranks it starts: leave it "
        "out");
  }
  RETURN_IF_ERROR(CheckSharedMemory(job.spec.shared_memory));
  return CheckPodTemplate(*job.object, {.container_name = job.spec.container_name,
                                        .resource_name = job.spec.resource_name,
                                        .gpus_per_pod = shape.gpus_per_pod,
                                        .launcher = job.spec.launcher_auto});
}

}  // namespace

struct PodBuilder::Template {
  int64_t processes_per_pod = 1;
  bool wrapped = false;
  bool roles = false;  // rank 0 differs
  // Without a home, pinned, and bound; each without and with a domain; all of them without and with
  // the port where the command is wrapped; all of those for each role.
  std::vector<TextWithHoles> pods;
  std::string service;
  std::string host_file;

  kube::ObjectMeta job;

  static constexpr size_t kHomes = 3;
  size_t Variant(const BlockHome& home) const {
    const size_t kind = home.node.empty() ? 0 : home.bound ? 2 : 1;
    const size_t port = home.port && wrapped ? 1 : 0;
    const size_t role = roles && home.first_rank > 0 ? 1 : 0;
    const size_t ports = wrapped ? 2 : 1;
    return kind + kHomes * ((home.domain.empty() ? 0 : 1) + 2 * (port + ports * role));
  }

  // All variants of a pod that differ in where it goes.
  void AddHomes(const json& pod, const HoleMarks& marks) {
    json pinned = pod;
    AddPin(marks[kNode], pinned["spec"]);
    json bound = pinned;
    bound["spec"]["nodeName"] = marks[kNode];
    json unpinned = pod;
    for (const bool in_domain : {false, true}) {
      for (json* variant : {&unpinned, &pinned, &bound}) {
        if (in_domain) {
          (*variant)["metadata"]["annotations"][std::string(kDomainAnnotation)] = marks[kDomain];
        }
        pods.emplace_back(DumpJson(*variant), marks);
      }
    }
  }
};

absl::StatusOr<PodBuilder> PodBuilder::Make(const TrainingJob& job, const GangShape& shape,
                                            const PodSettings& settings) try {
  RETURN_IF_ERROR(CheckJob(job, shape, settings));
  auto made = std::make_shared<Template>();
  made->processes_per_pod = shape.processes_per_pod;
  made->wrapped = IsWrapped(job, settings);
  made->roles = job.spec.framework == Framework::kMpi;
  made->job = job.meta;
  const HoleMarks marks(kPodHoles, DumpJson(*job.object) + settings.scheduler_name +
                                       settings.launcher_image + TextOf(settings.plan));
  for (const PodRole role : {PodRole::kRunsCommand, PodRole::kWaits}) {
    if (role == PodRole::kWaits && !made->roles) {
      break;
    }
    json pod = BuildPod(job, shape, settings, role, marks);
    made->AddHomes(pod, marks);
    if (made->wrapped) {
      AddPort(*FindContainer(pod["spec"], job.spec.container_name));
      made->AddHomes(pod, marks);
    }
  }
  made->service = MakeServiceBody(job.meta);
  if (WantsHostFile(job.spec.framework)) {
    ASSIGN_OR_RETURN(made->host_file, MakeHostFileBody(job.meta, shape));
  }
  PodBuilder builder;
  builder.template_ = std::move(made);
  return builder;
} catch (const json::exception& error) {
  // A type that CheckPodTemplate does not know of.
  return absl::InvalidArgumentError(fmt::format("spec.template: {}", error.what()));
}

std::string PodBuilder::PodBody(const BlockHome& home) const {
  const int64_t ranks = template_->processes_per_pod;
  std::array<std::string, kPodHoles> values;
  values[kFirstRank] = std::to_string(home.first_rank);
  values[kLastRank] = std::to_string(home.first_rank + ranks - 1);
  values[kPodIndex] = std::to_string(home.first_rank / ranks);
  values[kEpoch] = std::to_string(home.epoch);
  values[kNode] = InsideQuotes(home.node);
  values[kDomain] = InsideQuotes(home.domain);
  return template_->pods[template_->Variant(home)].Fill(values);
}

std::string PodBuilder::ServiceBody() const {
  return template_->service;
}

std::string PodBuilder::KeyBody(std::string_view key) const {
  if (!template_->roles) {
    return "";
  }
  return DumpJson({{"apiVersion", "v1"},
                   {"kind", "Secret"},
                   {"metadata", CompanionMeta(template_->job, KeySecretName(template_->job))},
                   {"type", "Opaque"},
                   {"immutable", true},
                   {"stringData", {{std::string(kJobKeyName), key}}}});
}

std::string PodBuilder::HostFileBody() const {
  return template_->host_file;
}

}  // namespace asterism::operators
