// File: operator/pod_template.h
//
// The pod that a TrainingJob describes, before anything of a gang is added: `template` with the
// short form (`container`, `volumes`, `serviceAccountName`, `imagePullSecrets`) merged over it.
//
//   RETURN_IF_ERROR(CheckPodTemplate(*job.object, facts));
//   nlohmann::json pod = MergePodTemplate(*job.object, "trainer");   // {"metadata", "spec"}
//
// The merge is the strategic merge of kubectl: env by name, volumeMounts by path, volumes and
// imagePullSecrets by name, maps by key; everything else of the short form replaces. Fields that
// are not known here are kept. Private to operator/.
//
// Thread-safety: pure. Cost: a copy of the template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::operators {

struct TemplateFacts {
  std::string container_name;
  std::string resource_name;
  int64_t gpus_per_pod = 1;
  bool launcher = true;  // the command is wrapped, so it must be stated
};

// Refuses what the operator itself sets, what would break the gang, reserved names, and wrong types
// of all fields that MergePodTemplate and the pod builder touch. The message names field and
// remedy.
absl::Status CheckPodTemplate(const nlohmann::json& object, const TemplateFacts& facts);

// `object` has passed CheckPodTemplate. The training container is in spec.containers.
nlohmann::json MergePodTemplate(const nlohmann::json& object, std::string_view container_name);

// The training container in `pod_spec`, or null.
nlohmann::json* FindContainer(nlohmann::json& pod_spec, std::string_view name);

// command + args of the training container; empty when the image decides, or the types are wrong.
std::vector<std::string> TrainerCommand(const nlohmann::json& object,
                                        std::string_view container_name);

}  // namespace asterism::operators
