#include "operator/launcher.h"

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr const char* kProgramVolume = "asterism-launch";
constexpr const char* kProgramFolder = "/opt/asterism";
constexpr const char* kProgram = "/opt/asterism/asterism-launch";
constexpr const char* kKeyVolume = "asterism-key";
constexpr const char* kKeyFolder = "/etc/asterism-key";
// As in the images of Asterism's own.
constexpr int kUser = 65532;

json& ListOf(json& object, const char* name) {
  json& list = object[name];
  if (!list.is_array()) {
    list = json::array();
  }
  return list;
}

// A user's own value stays, but for reserved names, which no user may have.
void SetVariable(json& trainer, std::string_view name, const std::string& value) {
  json& env = ListOf(trainer, "env");
  for (const json& variable : env) {
    if (variable.value("name", "") == name) {
      return;
    }
  }
  const json variable = {{"name", name}, {"value", value}};
  env.insert(env.begin(), variable);
}

json InitContainer(std::string_view image) {
  const json amounts = {{"cpu", "100m"}, {"memory", "64Mi"}};
  return {
      {"name", kProgramVolume},
      {"image", image},
      {"args", json::array({"copy", kProgramFolder})},
      {"resources", {{"requests", amounts}, {"limits", amounts}}},
      {"securityContext",
       {{"runAsNonRoot", true},
        {"runAsUser", kUser},
        {"allowPrivilegeEscalation", false},
        {"readOnlyRootFilesystem", true},
        {"capabilities", {{"drop", json::array({"ALL"})}}},
        {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
      {"volumeMounts", json::array({{{"name", kProgramVolume}, {"mountPath", kProgramFolder}}})}};
}

void AddRemoteShell(const LauncherFacts& facts, json& pod_spec, json& trainer) {
  ListOf(pod_spec, "volumes")
      .push_back({{"name", kKeyVolume},
                  {"secret", {{"secretName", facts.key_secret}, {"defaultMode", 0444}}}});
  ListOf(trainer, "volumeMounts")
      .push_back({{"name", kKeyVolume}, {"mountPath", kKeyFolder}, {"readOnly", true}});
  SetVariable(trainer, "ASTERISM_JOB_KEY", fmt::format("{}/{}", kKeyFolder, kJobKeyName));
  SetVariable(trainer, "ASTERISM_REMOTE_PORT", std::to_string(facts.remote_port));
  // Open MPI: how to reach the other hosts, which they are, and that their names are whole.
  SetVariable(trainer, "OMPI_MCA_plm_rsh_agent", fmt::format("{} rsh", kProgram));
  SetVariable(trainer, "OMPI_MCA_orte_default_hostfile", "/etc/asterism/hostfile");
  SetVariable(trainer, "OMPI_MCA_orte_keep_fqdn_hostnames", "true");
}

}  // namespace

void AddLauncher(std::string_view image, const LauncherFacts& facts, json& pod_spec,
                 json& trainer) {
  json& inits = ListOf(pod_spec, "initContainers");
  inits.insert(inits.begin(), InitContainer(image));
  ListOf(pod_spec, "volumes")
      .push_back({{"name", kProgramVolume}, {"emptyDir", {{"sizeLimit", "64Mi"}}}});
  ListOf(trainer, "volumeMounts")
      .push_back({{"name", kProgramVolume}, {"mountPath", kProgramFolder}, {"readOnly", true}});
  json& command = ListOf(trainer, "command");
  if (facts.worker) {
    command = json::array({kProgram, "worker"});
    trainer.erase("args");
  }
  const json prefix = json::array({kProgram, "--"});
  command.insert(command.begin(), prefix.begin(), prefix.end());
  if (!facts.progress_path.empty()) {
    SetVariable(trainer, "ASTERISM_PROGRESS_FILE", facts.progress_path);
  }
  if (!facts.key_secret.empty()) {
    AddRemoteShell(facts, pod_spec, trainer);
  }
}

void AddPort(json& trainer) {
  for (const char* part : {"limits", "requests"}) {
    trainer["resources"][part][std::string(kPortResource)] = "1";
  }
}

}  // namespace asterism::operators
