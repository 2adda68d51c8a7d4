#include "operator/launch_environment.h"

#include <algorithm>
#include <array>

#include "fmt/format.h"
#include "operator/pod_names.h"
#include "operator/pod_template.h"

namespace asterism::operators {
namespace {

void AddTorchrun(const LaunchFacts& facts, const LaunchPlace& place,
                 std::vector<LaunchVariable>& variables) {
  variables.insert(
      variables.end(),
      {{"PET_NNODES", std::to_string(facts.pods)},
       {"PET_NPROC_PER_NODE", std::to_string(facts.processes_per_pod)},
       {"PET_NODE_RANK", place.pod_index},
       {"PET_RDZV_BACKEND", "static"},
       {"PET_RDZV_ENDPOINT", fmt::format("{}:{}", facts.master_address, facts.master_port)},
       {"PET_RDZV_ID", fmt::format("{}-e{}", facts.uid, place.epoch)},
       {"PET_MASTER_ADDR", facts.master_address},
       {"PET_MASTER_PORT", facts.master_port},
       {"PET_MAX_RESTARTS", "0"}});
}

// python, python3, python3.11
bool IsPython(std::string_view word) {
  constexpr std::string_view kPython = "python";
  const std::string_view name = ProgramName(word);
  return name.starts_with(kPython) &&
         name.find_first_not_of("0123456789.", kPython.size()) == std::string_view::npos;
}

// Programs and modules that start the processes of a node themselves.
bool NamesALauncher(std::string_view text) {
  constexpr std::array<std::string_view, 6> kLaunchers = {
      "torchrun", "torch.distributed", "deepspeed", "accelerate", "torchx", "mpirun"};
  return std::any_of(kLaunchers.begin(), kLaunchers.end(), [text](std::string_view launcher) {
    return text.find(launcher) != std::string_view::npos;
  });
}

// "python -m torch.distributed.run ..." and "python /usr/bin/torchrun ...".
bool RunsALauncher(const std::vector<std::string>& python_command) {
  for (size_t i = 1; i < python_command.size(); ++i) {
    if (python_command[i] == "-m") {
      return i + 1 < python_command.size() && NamesALauncher(python_command[i + 1]);
    }
    if (!python_command[i].starts_with("-")) {
      return NamesALauncher(ProgramName(python_command[i]));
    }
  }
  return false;
}

// The program that a script starts: its first word, after "exec".
std::string_view FirstWord(std::string_view script) {
  constexpr std::string_view kSpace = " \t\n";
  for (int words = 0; words < 2; ++words) {
    const size_t start = std::min(script.find_first_not_of(kSpace), script.size());
    const size_t end = std::min(script.find_first_of(kSpace, start), script.size());
    const std::string_view word = script.substr(start, end - start);
    if (word != "exec") {
      return word;
    }
    script = script.substr(end);
  }
  return {};
}

}  // namespace

std::string_view ProgramName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool IsShell(std::string_view word) {
  constexpr std::array<std::string_view, 5> kShells = {"sh", "bash", "dash", "ash", "zsh"};
  return std::find(kShells.begin(), kShells.end(), ProgramName(word)) != kShells.end();
}

bool StartsWithTorchrun(Framework framework) {
  return framework != Framework::kMpi && framework != Framework::kPlain;
}

bool WantsHostFile(Framework framework) {
  return framework == Framework::kDeepSpeed || framework == Framework::kMpi;
}

std::vector<LaunchVariable> LaunchEnvironment(const LaunchFacts& facts, const LaunchPlace& place) {
  std::vector<LaunchVariable> variables = {
      {"MASTER_ADDR", facts.master_address},
      {"MASTER_PORT", facts.master_port},
      {"WORLD_SIZE", std::to_string(facts.pods * facts.processes_per_pod)},
      {"NODE_RANK", place.pod_index},
      {"NNODES", std::to_string(facts.pods)},
      {"ASTERISM_JOB", facts.job},
      {"ASTERISM_EPOCH", place.epoch},
      {"ASTERISM_RANK_FIRST", place.first_rank},
      {"ASTERISM_RANKS", std::to_string(facts.processes_per_pod)}};
  if (StartsWithTorchrun(facts.framework)) {
    AddTorchrun(facts, place, variables);
  }
  if (WantsHostFile(facts.framework)) {
    variables.push_back(
        {"ASTERISM_HOSTFILE", fmt::format("{}/{}", kHostFileFolder, kHostFileName)});
  }
  if (facts.framework == Framework::kPlain && facts.processes_per_pod == 1) {
    variables.push_back({"RANK", place.first_rank});
    variables.push_back({"LOCAL_RANK", "0"});
  }
  return variables;
}

std::string MasterAddress(const kube::ObjectMeta& job) {
  return HostAddress(job, 0);
}

int64_t HostNetworkMasterPort(std::string_view uid) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : uid) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  }
  return 20000 + hash % 10000;
}

std::string HostFile(const kube::ObjectMeta& job, const GangShape& shape) {
  std::string lines;
  for (int64_t pod = 0; pod < shape.pods; ++pod) {
    lines.append(HostAddress(job, pod * shape.processes_per_pod))
        .append(fmt::format(" slots={}\n", shape.processes_per_pod));
  }
  return lines;
}

std::string CommandWarning(const TrainingJob& job, const GangShape& shape) {
  if (!StartsWithTorchrun(job.spec.framework) || shape.processes_per_pod <= 1 ||
      job.object == nullptr) {
    return "";
  }
  const std::vector<std::string> command = TrainerCommand(*job.object, job.spec.container_name);
  if (command.empty()) {
    return "";
  }
  std::string_view program = command[0];
  bool launched = RunsALauncher(command);
  if (IsShell(program) && command.size() >= 3 && command[1].starts_with("-") &&
      command[1].ends_with("c")) {
    program = FirstWord(command[2]);
    launched = NamesALauncher(command[2]);
  }
  if (!IsPython(program) || launched) {
    return "";
  }
  return fmt::format(
      "command starts {} but processesPerPod is {}: nobody starts the other ranks; use torchrun or "
      "processesPerPod: 1",
      ProgramName(program), shape.processes_per_pod);
}

}  // namespace asterism::operators
