// File: controller/configuration.h
//
// The configuration of asterism-controller: AsterismConfiguration, config.asterism.dev/v1alpha1.
// Reads it from YAML, checks it, and prints it for /configz and the documentation. All of it comes
// from one table (controller/configuration_fields.h): name, default, allowed values, help.
//
//   ASSIGN_OR_RETURN(const Configuration configuration, ParseConfiguration(text));
//
// An error lists everything that is wrong, a line each: "field: problem: remedy".
// Thread-safety: pure functions and values. Cost: one pass over at most 1 MiB.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/direct_commit.h"
#include "operator/template_fit.h"
#include "topology/topology_keeper.h"

namespace asterism::controller {

inline constexpr std::string_view kConfigurationApiVersion = "config.asterism.dev/v1alpha1";
inline constexpr std::string_view kConfigurationKind = "AsterismConfiguration";

struct LevelConfiguration {
  std::string name;
  // Of the levels between the first and the last.
  std::string label;  // with kLabel: where the domain of a node stands
  topology::LevelSource::Kind kind = topology::LevelSource::Kind::kLabel;
  size_t slice_nodes = 4;  // with kSlice
  // For the planner: per GPU and direction, between domains of the level inside it. 0: that of the
  // GPU's product.
  double gigabytes_per_second = 0;
  double latency_us = 0;

  bool operator==(const LevelConfiguration&) const = default;
};

enum class PodWatchMode { kAll, kOwn };

struct PortConfiguration {
  int https = 8443;
  int metrics = 8080;
  int grpc = 9443;

  bool operator==(const PortConfiguration&) const = default;
};

struct LeaderElectionConfiguration {
  absl::Duration lease_duration = absl::Seconds(15);
  absl::Duration renew_deadline = absl::Seconds(10);
  absl::Duration retry_period = absl::Seconds(2);

  bool operator==(const LeaderElectionConfiguration&) const = default;
};

// Where the certificate of the ports comes from.
enum class TlsMode {
  kOwn,      // Secrets that the leader writes, with an authority of its own
  kSecrets,  // the same Secrets, written by somebody else
  kFiles,
  kPlain,  // plain HTTP
};

struct TlsConfiguration {
  TlsMode mode = TlsMode::kOwn;
  // kFiles only.
  std::string cert_file;
  std::string key_file;
  std::string client_ca_file;

  bool operator==(const TlsConfiguration&) const = default;
};

// Agents through which those of other nodes speak.
enum class RelayMode { kAuto, kOn, kOff };

struct RelayConfiguration {
  RelayMode mode = RelayMode::kAuto;
  int above_nodes = 2500;  // with kAuto
  std::string level;       // whose domains have relays of their own; empty: see RelayLevel
  int members_max = 63;

  bool operator==(const RelayConfiguration&) const = default;
};

// The agents of the nodes.
struct AgentsConfiguration {
  bool enabled = false;
  std::string namespace_name = "asterism-agents";
  std::string service_account = "asterism-agent";
  std::string node_selector;  // valid; of the nodes that agents are started on; empty: all
  RelayConfiguration relays;

  bool operator==(const AgentsConfiguration&) const = default;
};

// Nodes whose GPU the planner does not know by its label.
struct GpuProductConfiguration {
  std::string product;  // nvidia.com/gpu.product
  std::string gpu;      // a name of the planner's table

  bool operator==(const GpuProductConfiguration&) const = default;
};

// What the topology is merged from, and how far a source is believed.
struct TopologyConfiguration {
  std::vector<std::string> fabric_files;  // dumps of fabrics, read again when they change
  absl::Duration agent_ttl = absl::Seconds(90);
  absl::Duration fabric_ttl = absl::Hours(24);
  int mass_change_percent = 5;
  absl::Duration mass_change_hold = absl::Minutes(5);
  int nvlink_domain_gpus_max = 72;
  bool label_nodes = true;

  bool operator==(const TopologyConfiguration&) const = default;
};

struct Configuration {
  std::vector<LevelConfiguration> levels = {  // inner to outer
      {"node", ""},
      {"supernode", "", topology::LevelSource::Kind::kAuto},
      {"cluster", ""}};
  TopologyConfiguration topology;
  std::string scheduler_name = "asterism";
  std::vector<std::string> resource_names = {"nvidia.com/gpu"};
  std::string node_selector;  // valid; see NodeSelectorOf
  absl::Duration bind_deadline = absl::Seconds(30);
  operators::CommitMode commit = operators::CommitMode::kScheduler;
  bool taint_nodes = false;
  PodWatchMode pod_watch = PodWatchMode::kAll;
  PortConfiguration ports;
  LeaderElectionConfiguration leader_election;
  TlsConfiguration tls;
  AgentsConfiguration agents;
  std::vector<GpuProductConfiguration> gpu_products;
  std::string launcher_image;  // empty: commands run without asterism-launch

  bool operator==(const Configuration&) const = default;
};

absl::StatusOr<Configuration> ParseConfiguration(std::string_view text);

// `node_selector` as requirements; empty: every node that has one of resource_names.
std::vector<operators::NodeRequirement> NodeSelectorOf(const Configuration& configuration);
// `agents.node_selector` in the same way.
std::vector<operators::NodeRequirement> AgentNodesOf(const Configuration& configuration);

// Every field with its value, and its default where it differs. ParseConfiguration reads it back.
std::string ConfigurationToYaml(const Configuration& configuration);

// docs/configuration.md; also what --help-configuration prints.
std::string ConfigurationHelp();

// What a changed file means for a controller that runs.
struct ReloadDifference {
  Configuration result;                    // `running` with the changes that are safe
  std::vector<std::string> applied;        // fields, in the order of the table
  std::vector<std::string> needs_restart;  // changed too, but not taken over
};
ReloadDifference DiffForReload(const Configuration& running, const Configuration& wanted);

}  // namespace asterism::controller
