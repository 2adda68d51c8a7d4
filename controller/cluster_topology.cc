#include "controller/cluster_topology.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/cut_text.h"
#include "base/hash.h"
#include "base/log.h"
#include "controller/domain_use.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

using nlohmann::json;
using topology::Finding;
using topology::FindingKind;

constexpr std::string_view kObject = "cluster";
constexpr size_t kAnomalyTextMax = 1000;
constexpr size_t kSourcesMax = 64;
// After a change of the leader all agents are back within it.
constexpr absl::Duration kAgentsReturn = absl::Minutes(2);

// What a machine is by nature: worth a line of the doctor, and no event.
bool IsNature(FindingKind kind) {
  switch (kind) {
    case FindingKind::kGuestTree:
    case FindingKind::kNumaUnknown:
    case FindingKind::kOverlayUsed:
    case FindingKind::kNamelessHca:
    case FindingKind::kNonComputeOnLeaf:
    case FindingKind::kCliqueZeroUuid:
      return true;
    default:
      return false;
  }
}

// First what stops jobs, then what slows them, then the rest.
int Severity(FindingKind kind) {
  switch (kind) {
    case FindingKind::kMassChangeHeld:
    case FindingKind::kFabricUnhealthy:
      return 0;
    case FindingKind::kNvlinkLinkDown:
    case FindingKind::kNvlinkIslandSmallerThanPeers:
    case FindingKind::kGpuCountMismatch:
    case FindingKind::kMissingPort:
    case FindingKind::kAbsentRailLeaf:
    case FindingKind::kCrossedRails:
      return 1;
    case FindingKind::kStale:
      return 3;
    default:
      return IsNature(kind) ? 4 : 2;
  }
}

std::string AnomalyKey(const Finding& finding) {
  return fmt::format("{}\n{}", topology::FindingName(finding.kind),
                     fmt::join(finding.objects, "\n"));
}

// "nvlink-link-down" -> "NvlinkLinkDown".
std::string ReasonOf(FindingKind kind) {
  std::string reason;
  bool upper = true;
  for (const char letter : topology::FindingName(kind)) {
    if (letter == '-') {
      upper = true;
    } else {
      reason +=
          upper && letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
      upper = false;
    }
  }
  return reason;
}

json LevelRows(const scheduler::LedgerView& view) {
  json levels = json::array();
  const topology::Cluster& cluster = *view.cluster;
  for (size_t level = 0; level < cluster.level_count(); ++level) {
    size_t smallest = cluster.node_count();
    size_t largest = 0;
    for (size_t domain = 0; domain < cluster.domain_count(level); ++domain) {
      const size_t nodes = cluster.NodesOf(level, topology::DomainId(domain)).size();
      smallest = std::min(smallest, nodes);
      largest = std::max(largest, nodes);
    }
    json row = json::object();
    row["name"] = cluster.level_name(level);
    row["domains"] = cluster.domain_count(level);
    row["smallestNodes"] = cluster.domain_count(level) == 0 ? 0 : smallest;
    row["largestNodes"] = largest;
    levels.push_back(std::move(row));
  }
  return levels;
}

json GpuSums(const scheduler::LedgerView& view, const std::vector<std::string>& gpu_resources) {
  DomainGpus sum;
  const DomainUses uses = MeasureDomains(view, gpu_resources);
  if (!uses.empty()) {
    for (const DomainUse& use : uses.back()) {
      sum.Add(use.gpus);
    }
  }
  json gpus = json::object();
  gpus["total"] = sum.total;
  gpus["free"] = sum.free;
  gpus["held"] = sum.held;
  gpus["spare"] = sum.spare;
  gpus["faulty"] = sum.faulty;
  return gpus;
}

std::string CapitalName(topology::SourceState::State state) {
  std::string name(SourceStateName(state));
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

}  // namespace

std::string AnomalyText(const Finding& finding) {
  return std::string(base::CutText(fmt::format("{}: {}: {}", topology::FindingName(finding.kind),
                                               fmt::join(finding.objects, ", "), finding.evidence),
                                   kAnomalyTextMax));
}

json TopologyStatus(const TopologyState& state, const scheduler::LedgerView& view,
                    const std::vector<std::string>& gpu_resources) {
  json status = json::object();
  status["levels"] = LevelRows(view);
  status["gpus"] = GpuSums(view, gpu_resources);
  json sources = json::array();
  for (const topology::SourceState& source : state.sources) {
    if (sources.size() < kSourcesMax) {
      json row = json::object();
      row["name"] = std::string(base::CutText(source.name, 253));
      row["state"] = CapitalName(source.state);
      row["nodes"] = source.nodes;
      sources.push_back(std::move(row));
    }
  }
  status["sources"] = std::move(sources);
  std::vector<const Finding*> worst;
  for (const Finding& finding : *state.snapshot->findings) {
    worst.push_back(&finding);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const Finding* left, const Finding* right) {
    return Severity(left->kind) < Severity(right->kind);
  });
  worst.resize(std::min(worst.size(), kAnomaliesMax));
  json anomalies = json::array();
  for (const Finding* finding : worst) {
    anomalies.push_back(AnomalyText(*finding));
  }
  status["anomalies"] = std::move(anomalies);
  return status;
}

ClusterTopologyWriter::ClusterTopologyWriter(Dependencies dependencies,
                                             std::vector<std::string> gpu_resources)
    : dependencies_(std::move(dependencies)), gpu_resources_(std::move(gpu_resources)) {}

void ClusterTopologyWriter::Start() {
  busy_ = true;
  former_until_ = dependencies_.clock.SteadyNow() + kAgentsReturn;
  dependencies_.client.Get(
      kClusterTopologies, {"", std::string(kObject)}, kube::Lane::kWrite,
      alive_.Wrap([this](const absl::StatusOr<kube::Reply>& reply) { OnRead(reply); }));
}

void ClusterTopologyWriter::OnRead(const absl::StatusOr<kube::Reply>& reply) {
  busy_ = false;
  if (!reply.ok() && !absl::IsNotFound(reply.status())) {
    return;  // asked again at the next look
  }
  read_ = true;
  if (!reply.ok()) {
    return;
  }
  exists_ = true;
  const json object = json::parse(reply->body, nullptr, false);
  const auto status = object.is_object() ? object.find("status") : object.end();
  if (!object.is_object() || status == object.end() || !status->is_object()) {
    return;
  }
  written_ = *status;
  written_.erase("generation");
  if (const auto sources = written_.find("sources");
      sources != written_.end() && sources->is_array()) {
    for (json& source : *sources) {
      if (source.is_object()) {
        source.erase("lastSeen");
      }
    }
  }
  if (const auto anomalies = status->find("anomalies");
      anomalies != status->end() && anomalies->is_array()) {
    for (const json& text : *anomalies) {
      if (text.is_string()) {
        former_anomalies_.insert(text.get<std::string>());
      }
    }
  }
}

void ClusterTopologyWriter::Look(const TopologyState& state, const scheduler::LedgerView& view) {
  if (!dependencies_.may_write()) {
    return;
  }
  if (!read_) {
    if (!busy_) {
      Start();
    }
    return;
  }
  TellNews(state);
  LookForConfirmation(state);
  if (!busy_ && dependencies_.clock.SteadyNow() >= next_write_) {
    WriteStatus(state, view);
  }
}

void ClusterTopologyWriter::TellNews(const TopologyState& state) {
  std::set<std::string> present;
  size_t told = 0;
  for (const Finding& finding : *state.snapshot->findings) {
    if (IsNature(finding.kind)) {
      continue;
    }
    std::string key = AnomalyKey(finding);
    const bool news = !known_anomalies_.contains(key) &&
                      !former_anomalies_.contains(AnomalyText(finding)) && !present.contains(key);
    const bool of_node = !finding.objects.empty() && dependencies_.has_node(finding.objects[0]);
    if (news && of_node) {
      if (told == kAnomalyEventsMax) {
        continue;  // at the next look
      }
      ++told;
      dependencies_.tell({.node = finding.objects[0],
                          .warning = true,
                          .reason = ReasonOf(finding.kind),
                          .message = AnomalyText(finding)});
    } else if (news) {
      base::LogWarning("topology_anomaly", {{"anomaly", AnomalyText(finding)}});
    }
    present.insert(std::move(key));
  }
  known_anomalies_ = std::move(present);
  if (dependencies_.clock.SteadyNow() >= former_until_) {
    former_anomalies_.clear();
  }
}

void ClusterTopologyWriter::LookForConfirmation(const TopologyState& state) {
  if (!state.snapshot->change_held) {
    held_told_.clear();
    return;
  }
  if (held_told_ != state.held_change) {
    held_told_ = state.held_change;
    base::LogWarning(
        "topology_change_held",
        {{"change", state.held_change},
         {"remedy", fmt::format("kubectl annotate --overwrite clustertopology cluster {}={}",
                                kConfirmChange, state.held_change)}});
  }
  if (asking_ || !exists_) {
    return;
  }
  asking_ = true;
  dependencies_.client.Get(
      kClusterTopologies, {"", std::string(kObject)}, kube::Lane::kWrite,
      alive_.Wrap([this, wanted = state.held_change](const absl::StatusOr<kube::Reply>& reply) {
        asking_ = false;
        if (!reply.ok()) {
          exists_ = !absl::IsNotFound(reply.status());
          return;
        }
        const json object = json::parse(reply->body, nullptr, false);
        if (!object.is_object()) {
          return;
        }
        const json annotations = object.value("/metadata/annotations"_json_pointer, json::object());
        const auto confirmed = annotations.find(kConfirmChange);
        if (confirmed != annotations.end() && *confirmed == wanted) {
          base::LogInfo("topology_change_confirmed", {{"change", wanted}});
          dependencies_.confirm();
        }
      }));
}

void ClusterTopologyWriter::WriteStatus(const TopologyState& state,
                                        const scheduler::LedgerView& view) {
  json status = TopologyStatus(state, view, gpu_resources_);
  status["digest"] = fmt::format("{:016x}", base::Fnv1a(status.dump()));
  if (exists_ && status == written_) {
    return;
  }
  next_write_ = dependencies_.clock.SteadyNow() + kStatusPeriod;
  busy_ = true;
  if (!exists_) {
    json object = json::object();
    object["apiVersion"] = "asterism.dev/v1alpha1";
    object["kind"] = kClusterTopologies.kind;
    object["metadata"]["name"] = kObject;
    dependencies_.client.Create(kClusterTopologies, "", object.dump(), {}, kube::Lane::kWrite,
                                alive_.Wrap([this](const absl::StatusOr<kube::Reply>& reply) {
                                  busy_ = false;
                                  exists_ = reply.ok() || absl::IsAlreadyExists(reply.status());
                                  if (exists_) {
                                    next_write_ = dependencies_.clock.SteadyNow();
                                  }
                                }));
    return;
  }
  json patch = json::object();
  patch["status"] = status;
  patch["status"]["generation"] = state.snapshot->generation;
  for (size_t i = 0; i < patch["status"]["sources"].size(); ++i) {
    if (state.sources[i].last_seen > absl::UnixEpoch()) {
      patch["status"]["sources"][i]["lastSeen"] =
          absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", state.sources[i].last_seen, absl::UTCTimeZone());
    }
  }
  dependencies_.client.Patch(
      kClusterTopologies, {"", std::string(kObject)}, patch.dump(),
      {.type = kube::PatchType::kMerge, .subresource = "status"},
      alive_.Wrap([this, status = std::move(status)](const absl::StatusOr<kube::Reply>& reply) {
        busy_ = false;
        if (reply.ok()) {
          written_ = status;
        } else {
          exists_ = !absl::IsNotFound(reply.status());
        }
      }));
}

}  // namespace asterism::controller
