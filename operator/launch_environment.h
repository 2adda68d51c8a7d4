// File: operator/launch_environment.h
//
// The environment variables that the training container of a pod starts with. They are static: a
// rank is the place in the topology that the placement gave it, whatever the names of the nodes and
// in whatever order the pods start (torchrun takes the node rank only with the static rendezvous
// backend).
//
//   LaunchFacts facts{.framework = Framework::kTorchRun, .pods = 64, ...};
//   std::vector<LaunchVariable> variables = LaunchEnvironment(facts, {"64", "8", "1"});
//
// Thread-safety: pure. Cost: about 1 us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/object.h"
#include "operator/gang_shape.h"
#include "operator/training_job.h"

namespace asterism::operators {

// Variables with this prefix are ours alone; everywhere else a user's own value wins.
inline constexpr std::string_view kReservedVariablePrefix = "ASTERISM_";
inline constexpr std::string_view kHostFileFolder = "/etc/asterism";
inline constexpr std::string_view kHostFileName = "hostfile";

// Equal for all pods of a gang.
struct LaunchFacts {
  Framework framework = Framework::kTorchRun;
  std::string job;
  std::string uid;
  int64_t pods = 1;
  int64_t processes_per_pod = 1;
  std::string master_address;
  std::string master_port;
};

// What differs. Texts, because the pod builder fills them in later.
struct LaunchPlace {
  std::string first_rank;
  std::string pod_index;
  std::string epoch;
};

struct LaunchVariable {
  std::string name;
  std::string value;

  bool operator==(const LaunchVariable&) const = default;
};

std::vector<LaunchVariable> LaunchEnvironment(const LaunchFacts& facts, const LaunchPlace& place);

// TorchRun, FSDP, MegatronLM, DeepSpeed: torchrun starts the processes of a pod.
bool StartsWithTorchrun(Framework framework);
// "/bin/bash" is "bash".
std::string_view ProgramName(std::string_view path);
// By the name of the program.
bool IsShell(std::string_view program);
// DeepSpeed, MPI.
bool WantsHostFile(Framework framework);

// "<job>-r0.<job>.<namespace>.svc": always the pod that has rank 0 now.
std::string MasterAddress(const kube::ObjectMeta& job);
// 20000 to 29999, the same for a UID everywhere: below the node ports (30000) and the ephemeral
// ports (32768), so that jobs on the host network seldom meet on a node.
int64_t HostNetworkMasterPort(std::string_view uid);

// One line "host slots=n" a pod in rank order.
std::string HostFile(const kube::ObjectMeta& job, const GangShape& shape);

// A warning for people, or empty: `command starts python but processesPerPod is 8: nobody starts
// the other ranks; use torchrun or processesPerPod: 1`.
std::string CommandWarning(const TrainingJob& job, const GangShape& shape);

}  // namespace asterism::operators
