#include "controller/configuration_fields.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "controller/configuration_gpu_products.h"
#include "controller/configuration_levels.h"
#include "controller/kubernetes_names.h"
#include "controller/label_selector.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

constexpr size_t kResourceNamesMax = 8;
constexpr size_t kPathBytesMax = 4096;

std::pair<std::string, std::string> CheckSchedulerName(std::string_view name) {
  if (name == "default-scheduler") {
    return {"\"default-scheduler\" is the scheduler of every pod in the cluster",
            "choose a name of its own, for example asterism"};
  }
  if (!IsDnsSubdomain(name)) {
    return {fmt::format("{} is not a name", Shown(name)),
            "use lower-case letters, digits, '-' and '.', at most 253 characters"};
  }
  return {};
}

std::pair<std::string, std::string> CheckNodeSelector(std::string_view selector) {
  const auto requirements = ParseLabelSelector(selector);
  if (!requirements.ok()) {
    return {fmt::format("is not a label selector: {}", requirements.status().message().data()),
            "write it as for kubectl -l, for example pool=gpu,zone in (a,b); empty for every node"};
  }
  return {};
}

std::pair<std::string, std::string> CheckPath(std::string_view path) {
  if (path.size() > kPathBytesMax || path.find('\0') != std::string_view::npos) {
    return {fmt::format("{} is not a file name", Shown(path)),
            fmt::format("use at most {} characters", kPathBytesMax)};
  }
  return {};
}

std::pair<std::string, std::string> CheckName(std::string_view name) {
  if (!IsDnsSubdomain(name)) {
    return {fmt::format("{} is not a name", Shown(name)),
            "use lower-case letters, digits, '-' and '.', at most 253 characters"};
  }
  return {};
}

std::pair<std::string, std::string> CheckImage(std::string_view image) {
  const bool odd =
      image.size() > kPathBytesMax ||
      std::any_of(image.begin(), image.end(), [](char c) { return c <= ' ' || c == 0x7f; });
  if (odd) {
    return {fmt::format("{} is not an image", Shown(image)),
            "write it as for a container, for example registry.example/asterism-launch:0.1.0"};
  }
  return {};
}

void ReadResourceNames(const YamlNode& node, std::string_view path, Configuration& configuration,
                       Complaints& complaints) {
  if (node.kind != YamlNode::Kind::kList || node.items.empty() ||
      node.items.size() > kResourceNamesMax) {
    complaints.Add(
        path, "is not a list of names",
        fmt::format("give 1 to {} names, for example [nvidia.com/gpu]", kResourceNamesMax));
    return;
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string place = fmt::format("{}[{}]", path, i);
    if (item.kind != YamlNode::Kind::kScalar || !IsExtendedResource(item.text)) {
      complaints.Add(place, fmt::format("{} is not an extended resource", Shown(item.text)),
                     "use the name with its domain, for example nvidia.com/gpu");
    } else if (std::find(names.begin(), names.end(), item.text) != names.end()) {
      complaints.Add(place, fmt::format("{} is there twice", item.text), "remove one");
    } else {
      names.push_back(item.text);
    }
  }
  configuration.resource_names = std::move(names);
}

FieldValue ResourceNamesValue() {
  return {fmt::format("1 to {} extended resources", kResourceNamesMax), ReadResourceNames,
          [](const Configuration& configuration) {
            return fmt::format("[{}]", fmt::join(configuration.resource_names, ", "));
          },
          [](const Configuration& source, Configuration& target) {
            target.resource_names = source.resource_names;
          }};
}

constexpr size_t kFabricFilesMax = 32;

void ReadFabricFiles(const YamlNode& node, std::string_view path, Configuration& configuration,
                     Complaints& complaints) {
  if (node.kind != YamlNode::Kind::kList || node.items.size() > kFabricFilesMax) {
    complaints.Add(path, "is not a list of files",
                   fmt::format("give at most {} paths, for example [/etc/asterism/fabric.txt]",
                               kFabricFilesMax));
    return;
  }
  std::vector<std::string> files;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string place = fmt::format("{}[{}]", path, i);
    if (item.kind != YamlNode::Kind::kScalar || !item.text.starts_with('/') ||
        item.text.size() > 4096) {
      complaints.Add(place, "is not an absolute path", "start it with /");
    } else if (std::find(files.begin(), files.end(), item.text) != files.end()) {
      complaints.Add(place, fmt::format("{} is there twice", Shown(item.text)), "remove one");
    } else {
      files.push_back(item.text);
    }
  }
  configuration.topology.fabric_files = std::move(files);
}

FieldValue FabricFilesValue() {
  return {fmt::format("at most {} absolute paths", kFabricFilesMax), ReadFabricFiles,
          [](const Configuration& configuration) {
            std::vector<std::string> files;
            for (const std::string& file : configuration.topology.fabric_files) {
              files.push_back(QuoteYaml(file));
            }
            return fmt::format("[{}]", fmt::join(files, ", "));
          },
          [](const Configuration& source, Configuration& target) {
            target.topology.fabric_files = source.topology.fabric_files;
          }};
}

ConfigurationField Row(std::string_view path, Reload reload, FieldValue value,
                       std::string_view help) {
  return {path,
          reload,
          help,
          std::move(value.values),
          [path, read = std::move(value.read)](const YamlNode& node, Configuration& configuration,
                                               Complaints& complaints) {
            // An empty value means the default, as in Kubernetes.
            if (node.kind != YamlNode::Kind::kNull) {
              read(node, path, configuration, complaints);
            }
          },
          std::move(value.write),
          std::move(value.copy)};
}

using Settings = Configuration;

std::vector<ConfigurationField> MakeFields() {
  constexpr Reload kLive = Reload::kLive;
  constexpr Reload kRestart = Reload::kRestart;
  return {
      Row("levels", kRestart, LevelsValue(),
          "Rings of the topology, inner to outer. The first is the node, the last the whole "
          "cluster; each one between says where its domains come from, see below. For the planner: "
          "`gigabytesPerSecond`, per GPU and direction between the domains inside it, and "
          "`latencyMicroseconds`; absent, NVLink of the GPU inside a node and one network port a "
          "GPU outside."),
      Row("schedulerName", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.scheduler_name; }, "a DNS subdomain",
                    CheckSchedulerName),
          "Pods with this `spec.schedulerName` are placed by Asterism."),
      Row("resourceNames", kRestart, ResourceNamesValue(),
          "Extended resources that count GPUs. The extender's `managedResources` must list the "
          "same."),
      Row("nodeSelector", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.node_selector; }, "a label selector",
                    CheckNodeSelector),
          "Which nodes are GPU nodes. Empty: every node that has one of `resourceNames`."),
      Row("bindDeadlineSeconds", kLive,
          SecondsValue([](Settings& s) -> absl::Duration& { return s.bind_deadline; }, 1, 3600),
          "A pod that is not bound after this long moves to another node, or its gang is "
          "withdrawn."),
      Row("commit", kRestart,
          ChoiceValue<operators::CommitMode>(
              [](Settings& s) -> operators::CommitMode& { return s.commit; },
              {"Scheduler", "Direct"}, "", ""),
          "Who binds the pods of gangs. `Direct`: the operator, by the node name that it creates "
          "them with, where they need nothing else of kube-scheduler; needs `taintNodes`. A Queue "
          "may say otherwise."),
      Row("taintNodes", kRestart, SwitchValue([](Settings& s) -> bool& { return s.taint_nodes; }),
          "Closes GPU nodes to other schedulers with the taint `asterism.dev/managed:NoSchedule`. "
          "It stays when this is switched off."),
      Row("podWatch", kRestart,
          ChoiceValue<PodWatchMode>([](Settings& s) -> PodWatchMode& { return s.pod_watch; },
                                    {"All", "Own"}, "Own",
                                    "use All: Own needs an agent on every GPU node"),
          "Which pods are watched. `Own` is not available yet."),
      Row("ports.https", kRestart, PortValue([](Settings& s) -> int& { return s.ports.https; }),
          "Port of the extender; only callers with a certificate are served, see `tls`."),
      Row("ports.metrics", kRestart, PortValue([](Settings& s) -> int& { return s.ports.metrics; }),
          "Port of `/metrics`, `/healthz`, `/readyz`, `/topologyz` and `/configz`."),
      Row("ports.grpc", kRestart, PortValue([](Settings& s) -> int& { return s.ports.grpc; }),
          "Port of the gRPC service `asterism.v1.Placement`; callers show a token, or the "
          "certificate of a component."),
      Row("leaderElection.leaseDurationSeconds", kRestart,
          WholeSecondsValue(
              [](Settings& s) -> absl::Duration& { return s.leader_election.lease_duration; }, 1,
              3600),
          "After this long without renewal another replica may take over. The Lease records whole "
          "seconds."),
      Row("leaderElection.renewDeadlineSeconds", kRestart,
          SecondsValue(
              [](Settings& s) -> absl::Duration& { return s.leader_election.renew_deadline; }, 0.3,
              3600),
          "A leader that could not renew for this long steps down. Less than the lease duration."),
      Row("leaderElection.retryPeriodSeconds", kRestart,
          SecondsValue(
              [](Settings& s) -> absl::Duration& { return s.leader_election.retry_period; }, 0.1,
              3600),
          "Time between two tries. 1.2 times it is less than the renew deadline."),
      Row("tls.mode", kRestart,
          ChoiceValue<TlsMode>([](Settings& s) -> TlsMode& { return s.tls.mode; },
                               {"Own", "Secrets", "Files", "Plain"}, "", ""),
          "Where the certificate of all ports comes from. `Own`: the leader makes an authority and "
          "certificates in the Secrets `asterism-authority`, `asterism-extender-tls` and "
          "`asterism-scheduler-tls`, and renews them. `Secrets`: somebody else, such as "
          "cert-manager, writes the last two. `Files`: the files below. `Plain`: plain HTTP, "
          "anybody "
          "who reaches the port may call."),
      Row("tls.certFile", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.tls.cert_file; }, "a file",
                    CheckPath),
          "Certificate of the server (PEM), with `Files`."),
      Row("tls.keyFile", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.tls.key_file; }, "a file",
                    CheckPath),
          "Its private key (PEM)."),
      Row("tls.clientCaFile", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.tls.client_ca_file; }, "a file",
                    CheckPath),
          "Authority of the callers' certificates. Empty: callers need none."),
      Row("agents.enabled", kRestart,
          SwitchValue([](Settings& s) -> bool& { return s.agents.enabled; }),
          "Serves the agents of the nodes at `ports.grpc`."),
      Row("agents.nodeSelector", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.agents.node_selector; },
                    "a label selector", CheckNodeSelector),
          "On which nodes agents are started: on other GPU nodes nobody misses one "
          "(`asterism_agents_missing`). Empty: on all."),
      Row("agents.namespace", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.agents.namespace_name; }, "a name",
                    CheckName),
          "Namespace of the agents, and of the Secret `asterism-agent-tls` with their "
          "certificate."),
      Row("agents.serviceAccount", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.agents.service_account; }, "a name",
                    CheckName),
          "ServiceAccount of the agents: its tokens say on which node an agent runs."),
      Row("planner.gpuProducts", kRestart, GpuProductsValue(),
          "Products (`nvidia.com/gpu.product`) that the planner does not know by their name, each "
          "with the GPU of its table that it is most like."),
      Row("topology.fabricFiles", kRestart, FabricFilesValue(),
          "Dumps of fabrics, such as the output of `ibnetdiscover`, that somebody keeps up to "
          "date; "
          "read again when they change. Any format that `kubectl asterism doctor` reads."),
      Row("topology.agentTtlSeconds", kRestart,
          SecondsValue([](Settings& s) -> absl::Duration& { return s.topology.agent_ttl; }, 1,
                       86'400),
          "After this long without a word of its agent what was measured of a node is stale: its "
          "health is not known any more, its place stays."),
      Row("topology.fabricTtlSeconds", kRestart,
          SecondsValue([](Settings& s) -> absl::Duration& { return s.topology.fabric_ttl; }, 1,
                       31'536'000),
          "A dump that was not renewed for this long is reported as stale, and stays in use."),
      Row("topology.massChangePercent", kRestart,
          WholeNumberValue([](Settings& s) -> int& { return s.topology.mass_change_percent; }, 1,
                           100),
          "An update that would move more of the nodes than this into other domains is held back."),
      Row("topology.massChangeHoldSeconds", kRestart,
          SecondsValue([](Settings& s) -> absl::Duration& { return s.topology.mass_change_hold; },
                       1, 31'536'000),
          "What is held back passes when it is still so after this long, or when it is confirmed."),
      Row("topology.nvlinkDomainGpusMax", kRestart,
          WholeNumberValue([](Settings& s) -> int& { return s.topology.nvlink_domain_gpus_max; }, 1,
                           100'000),
          "An NVLink domain that claims more GPUs than this is a placeholder, and counts as none."),
      Row("topology.labelNodes", kRestart,
          SwitchValue([](Settings& s) -> bool& { return s.topology.label_nodes; }),
          "Writes the domains of each GPU node to its labels `asterism.dev/domain-LEVEL`, where "
          "the next leader finds their ids again."),
      Row("launcher.image", kRestart,
          TextValue([](Settings& s) -> std::string& { return s.launcher_image; }, "an image",
                    CheckImage),
          "Image of `asterism-launch`, which jobs with `launcher: Auto` run under. Empty: their "
          "commands run alone, and MPI jobs cannot run."),
  };
}

// 0 is any free port, so it may stand twice.
void CheckPorts(const PortConfiguration& ports, Complaints& complaints) {
  const auto check = [&](std::string_view field, int port, std::string_view other, int taken) {
    if (port != 0 && port == taken) {
      complaints.Add(field, fmt::format("{} is {} too", port, other), "use two ports");
    }
  };
  check("ports.metrics", ports.metrics, "ports.https", ports.https);
  check("ports.grpc", ports.grpc, "ports.https", ports.https);
  if (ports.metrics != ports.https) {
    check("ports.grpc", ports.grpc, "ports.metrics", ports.metrics);
  }
}

}  // namespace

std::string_view ConfigurationField::group() const {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view ConfigurationField::key() const {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

const std::vector<ConfigurationField>& ConfigurationFields() {
  static const std::vector<ConfigurationField>& fields =
      *new std::vector<ConfigurationField>(MakeFields());
  return fields;
}

void CheckTogether(const Configuration& configuration, Complaints& complaints) {
  const LeaderElectionConfiguration& election = configuration.leader_election;
  if (election.lease_duration <= election.renew_deadline) {
    complaints.Add("leaderElection.leaseDurationSeconds",
                   fmt::format("{} is not more than renewDeadlineSeconds ({})",
                               absl::ToDoubleSeconds(election.lease_duration),
                               absl::ToDoubleSeconds(election.renew_deadline)),
                   "raise it, or lower renewDeadlineSeconds");
  }
  if (election.renew_deadline <= election.retry_period * 1.2) {
    complaints.Add("leaderElection.renewDeadlineSeconds",
                   fmt::format("{} is not more than 1.2 x retryPeriodSeconds ({})",
                               absl::ToDoubleSeconds(election.renew_deadline),
                               absl::ToDoubleSeconds(election.retry_period)),
                   "raise it, or lower retryPeriodSeconds");
  }
  CheckPorts(configuration.ports, complaints);
  const TlsConfiguration& tls = configuration.tls;
  if (configuration.commit == operators::CommitMode::kDirect && !configuration.taint_nodes) {
    complaints.Add("commit", "Direct needs nodes that no other scheduler uses",
                   "set taintNodes: true, or use Scheduler");
  }
  const auto check_file = [&](std::string_view field, const std::string& path, bool needed) {
    if (tls.mode != TlsMode::kFiles && !path.empty()) {
      complaints.Add(field, "has no use in this tls.mode", "set tls.mode: Files, or remove it");
    } else if (tls.mode == TlsMode::kFiles && needed && path.empty()) {
      complaints.Add(field, "is missing", "name the file, or set tls.mode: Own");
    }
  };
  check_file("tls.certFile", tls.cert_file, true);
  check_file("tls.keyFile", tls.key_file, true);
  check_file("tls.clientCaFile", tls.client_ca_file, false);
}

}  // namespace asterism::controller
