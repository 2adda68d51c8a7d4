#include "topology/import/import_text.h"

#include <zlib.h>

#include <algorithm>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/import/accelerator_text.h"
#include "topology/import/cloud_documents.h"
#include "topology/import/document_tree.h"
#include "topology/import/infiniband_ports.h"
#include "topology/import/infiniband_records.h"
#include "topology/import/kubernetes_documents.h"
#include "topology/import/nccl_xml.h"
#include "topology/import/slurm_conf.h"
#include "topology/import/slurm_yaml.h"
#include "topology/import/text_lines.h"
#include "topology/import/topo_matrix.h"
#include "topology/import/xml_tree.h"

namespace asterism::topology {
namespace {

using nlohmann::ordered_json;

// What a format shows itself by stands here.
constexpr size_t kHeadBytes = 8192;

struct TextFormat {
  bool (*looks_like)(std::string_view head);
  absl::StatusOr<Imported> (*import)(std::string_view name, std::string_view text);
};

// The stricter ones first.
constexpr TextFormat kTextFormats[] = {
    {LooksLikeInfinibandRecords, ImportInfinibandRecords},
    {LooksLikeInfinibandPorts, ImportInfinibandPorts},
    {LooksLikeLinkInfo, ImportLinkInfo},
    {LooksLikeSlurmConf, ImportSlurmConf},
    {LooksLikeTopoMatrix, ImportTopoMatrix},
    {LooksLikeNvlinkStatus, ImportNvlinkStatus},
    {LooksLikeKfdTree, ImportKfdTree},
    {LooksLikeRocmNuma, ImportRocmNuma},
    {LooksLikeHwlocConsole, ImportHwlocConsole},
    {LooksLikeShowLabels, ImportShowLabels},
    {LooksLikeGuidList, ImportGuidList},
};

constexpr std::string_view kKnownFormats =
    "nvidia-smi topo -m, ibnetdiscover, ibdiagnet .lst, iblinkinfo, ibsim, topology.conf and "
    "topology.yaml of Slurm, XML of NCCL and hwloc, Node and HyperNode objects, Topology of Kueue, "
    "models of topograph, JSON of AWS, GCP, OCI, Lambda, UFM, NetQ and lldpd";

bool IsBinary(std::string_view head) {
  return head.find('\0') != std::string_view::npos;
}

// Not a shell prompt in brackets, and not the bracketed start of a port line.
bool LooksLikeJson(std::string_view text) {
  if (text[0] == '[') {
    const size_t next = text.find_first_not_of(" \t\r\n", 1);
    return next != std::string_view::npos &&
           std::string_view("{[\"]").find(text[next]) != std::string_view::npos;
  }
  return text[0] == '{';
}

// Texts that a person may hold for a topology.
bool LooksLikeEvents(std::string_view head) {
  return head.find("nodes are available:") != std::string_view::npos ||
         (head.find("Allocatable:") != std::string_view::npos &&
          head.find("Capacity:") != std::string_view::npos);
}

absl::StatusOr<Imported> ImportXml(std::string_view name, std::string_view text) {
  const absl::StatusOr<XmlElement> root = ReadXmlTree(text);
  if (!root.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", name, base::ToStd(root.status().message())));
  }
  return root->name == "topology" ? ImportHwlocXml(name, *root) : ImportNcclXml(name, *root);
}

// Pages and mails show objects below the command that printed them, with "..." where something was
// left out.
struct CopiedText {
  std::string kept;
  bool prompts = false;
  bool elisions = false;
};

CopiedText WithoutElisions(std::string_view text) {
  CopiedText copied;
  TextLines lines(text);
  while (lines.Next()) {
    const std::string_view line = lines.line();
    const std::string_view word = Trimmed(line);
    const bool elided = word == "..." && line.size() > word.size();
    const bool prompt = line.starts_with("$ ") || line.find("# kubectl ") != std::string_view::npos;
    copied.elisions = copied.elisions || elided;
    copied.prompts = copied.prompts || prompt;
    if (!elided && !prompt) {
      copied.kept += line;
    }
    copied.kept += '\n';
  }
  return copied;
}

absl::StatusOr<Imported> ImportDocuments(std::string_view name, std::string_view text) {
  absl::StatusOr<std::vector<DocumentNode>> documents = ReadDocuments(text);
  bool elided = false;
  if (!documents.ok() && text.size() < (size_t{1} << 20)) {
    const CopiedText copied = WithoutElisions(text);
    if (copied.prompts || copied.elisions) {
      if (absl::StatusOr<std::vector<DocumentNode>> again = ReadDocuments(copied.kept);
          again.ok()) {
        documents = *std::move(again);
        elided = copied.elisions;
      }
    }
  }
  if (!documents.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", name, base::ToStd(documents.status().message())));
  }
  ASSIGN_OR_RETURN(std::optional<Imported> found, ImportKubernetes(name, *documents));
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, ImportSlurmYaml(name, *documents));
  }
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, ImportCloud(name, *documents));
  }
  if (!found.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: line 1: no topology of a known format (known: {})", name, kKnownFormats));
  }
  if (elided) {
    found->Damage(0, "parts of the text were left out by who copied it");
  }
  return *std::move(found);
}

std::string_view StatusName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kPartial:
      return "partial";
    case Outcome::kNotTopology:
      return "not_a_topology";
  }
  return "ok";
}

size_t HalfLinksOfSwitches(const Fabric& fabric) {
  return static_cast<size_t>(
      std::count_if(fabric.half_links.begin(), fabric.half_links.end(), [&](const HalfLink& half) {
        return fabric.devices[half.device].kind == DeviceKind::kSwitch;
      }));
}

// Rails are counted from 1, as people do.
ordered_json GroupSummary(const FabricAnalysis& analysis, const FabricGroup& group) {
  std::vector<int> rails;
  uint32_t most = 0;
  for (const uint32_t leaf : group.leafs) {
    rails.push_back(analysis.leafs[leaf].rail + 1);
    most = std::max(most, analysis.leafs[leaf].down_ports);
  }
  std::sort(rails.begin(), rails.end());
  rails.erase(std::unique(rails.begin(), rails.end()), rails.end());
  const size_t named = group.hosts.size() + group.other_hosts.size();
  return {{"max_down_ports", most},
          {"named_hosts", named},
          {"unnamed_hosts", most > named ? most - named : 0},
          {"rails_present", rails}};
}

void AddFabricSummary(const Fabric& fabric, const FabricAnalysis& analysis, ordered_json& summary) {
  summary["switches"] = analysis.switch_count;
  summary["cas"] = analysis.adapter_count;
  summary["sharp_aggregation_cas"] = analysis.aggregation_count;
  summary["unnamed_hca_cas"] = analysis.nameless.size();
  // A netlist says everything twice; the other formats repeat themselves from the adapters' side.
  summary["half_links"] =
      summary["format"] == "ibsim" ? fabric.half_links.size() : HalfLinksOfSwitches(fabric);
  summary["self_loop_half_links"] =
      std::count_if(fabric.half_links.begin(), fabric.half_links.end(),
                    [](const HalfLink& half) { return half.device == half.peer; });
  summary["wide_half_links"] = std::count_if(fabric.half_links.begin(), fabric.half_links.end(),
                                             [](const HalfLink& half) { return half.width > 4; });
  std::vector<size_t> tiers;
  for (const std::vector<uint32_t>& tier : analysis.tiers) {
    tiers.push_back(tier.size());
  }
  summary["tiers"] = tiers;
  summary["tree"] = analysis.tree;
  summary["switch_graph_components"] = analysis.component_count;
  summary["fabrics"] = analysis.fabric_count;
  summary["domain_groups"] = analysis.groups.size();
  std::vector<size_t> hosts;
  std::vector<size_t> leafs;
  ordered_json groups = ordered_json::object();
  for (const FabricGroup& group : analysis.groups) {
    hosts.push_back(group.hosts.size());
    leafs.push_back(group.leafs.size());
    groups[std::to_string(groups.size() + 1)] = GroupSummary(analysis, group);
  }
  std::sort(hosts.rbegin(), hosts.rend());
  std::sort(leafs.rbegin(), leafs.rend());
  summary["hosts_per_group"] = hosts;
  summary["leafs_per_group"] = leafs;
  summary["groups"] = std::move(groups);
}

void AddHostsSummary(const FabricAnalysis& analysis, ordered_json& summary) {
  size_t attached = 0;
  size_t missing_links = 0;
  size_t storage = 0;
  std::map<std::string, size_t> spread;
  for (const FabricHost& host : analysis.hosts) {
    std::vector<uint32_t> switches;
    for (const HostPort& port : host.ports) {
      if (port.switch_device != kNoDevice) {
        switches.push_back(port.switch_device);
      } else {
        ++missing_links;
      }
    }
    std::sort(switches.begin(), switches.end());
    switches.erase(std::unique(switches.begin(), switches.end()), switches.end());
    attached += switches.empty() ? 0 : 1;
    storage += host.role == HostRole::kNonCompute && host.compute_ports == 0 ? 1 : 0;
    if (host.group != kNoGroup && host.role == HostRole::kGpu) {
      ++spread[std::to_string(switches.size())];
    } else if (host.role == HostRole::kDegraded) {
      ++spread[std::to_string(switches.size())];
    }
  }
  summary["named_hosts"] = attached;
  summary["gpu_hosts"] =
      analysis.CountHosts(HostRole::kGpu) + analysis.CountHosts(HostRole::kDegraded);
  summary["ports_per_gpu_host"] = analysis.modal_compute_ports;
  summary["management_hosts"] = analysis.CountHosts(HostRole::kManagement);
  summary["storage_hosts"] = storage;
  summary["missing_host_links"] = missing_links;
  summary["leaf_switches_per_host"] = spread;
  summary["planes"] = analysis.plane_count;
  summary["leaf_switches"] = analysis.leafs.size();
  summary["leaf_down_up_mode"] = {analysis.modal_down, analysis.modal_uplinks};
  if (analysis.modal_down > 0) {
    summary["oversubscription"] =
        static_cast<double>(analysis.modal_uplinks) / static_cast<double>(analysis.modal_down);
  }
  summary["leaf_uplinks_nominal"] = analysis.modal_uplinks;
  summary["uplinks_nominal"] = analysis.modal_uplinks * analysis.leafs.size();
  summary["uplinks_present"] = analysis.UplinksPresent();
  summary["leafs_below_nominal"] = analysis.LeafsBelowNominal();
  summary["cross_rail_needs_top_tier"] = analysis.cross_rail_needs_top_tier;
}

void AddFaultsSummary(const Fabric& fabric, const FabricAnalysis& analysis, ordered_json& summary) {
  std::map<std::string, size_t> kinds;
  std::map<std::string, size_t> crossed;
  for (const Finding& finding : FabricFindings(fabric, analysis)) {
    ++kinds[std::string(FindingName(finding.kind))];
    if (finding.kind == FindingKind::kCrossedRails) {
      ++crossed[finding.objects.front()];
    }
  }
  summary["crossed_hosts"] = crossed.size();
  summary["foreign_cables"] = kinds["foreign-cable"];
  std::erase_if(kinds, [](const auto& each) { return each.second == 0; });
  summary["findings"] = kinds;
  std::map<std::string, size_t> speeds;
  for (const HalfLink& half : fabric.half_links) {
    if (fabric.devices[half.device].kind == DeviceKind::kSwitch && half.gbps() > 0) {
      ++speeds[fmt::format("{}x{}", half.width, LaneSpeedName(half.speed))];
    }
  }
  summary["mixed_speed_half_links"] = speeds;
  std::vector<uint32_t> with_hosts;
  for (const FabricHost& host : analysis.hosts) {
    for (const HostPort& port : host.ports) {
      with_hosts.push_back(port.switch_device);
    }
  }
  std::sort(with_hosts.begin(), with_hosts.end());
  with_hosts.erase(std::unique(with_hosts.begin(), with_hosts.end()), with_hosts.end());
  std::erase(with_hosts, kNoDevice);
  summary["switches_with_hosts"] = with_hosts.size();
  if (analysis.leafs.empty()) {
    summary["bipartite"] = TwoColouring(fabric);
  }
  if (const size_t groups = DragonflyGroups(fabric, analysis); groups > 0) {
    summary["dragonfly_groups"] = groups;
  }
}

void AddHostSummary(const HostTopology& host, ordered_json& summary) {
  std::vector<std::vector<std::string>> islands;
  std::vector<uint16_t> counts;
  for (const std::vector<size_t>& island : NvlinkIslands(host)) {
    std::vector<std::string>& names = islands.emplace_back();
    for (const size_t gpu : island) {
      names.push_back(host.gpus[gpu].label);
    }
  }
  for (const GpuPair& pair : host.pairs) {
    if (pair.links > 0) {
      counts.push_back(pair.links);
    }
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  ordered_json nearest = ordered_json::object();
  for (size_t gpu = 0; gpu < host.gpus.size(); ++gpu) {
    const NearestNics near = NearestNicsOf(host, gpu);
    if (!near.nics.empty()) {
      std::vector<std::string> names;
      for (const size_t nic : near.nics) {
        names.push_back(host.nics[nic].device);
      }
      nearest[host.gpus[gpu].label] = {PathLevelName(near.level), names};
    }
  }
  summary["gpus"] = host.gpus.size();
  summary["nics"] = host.nics.size();
  summary["nvlink_counts"] = counts;
  summary["nvlink_islands"] = islands;
  summary["gpu_nearest_nics"] = std::move(nearest);
  if (!host.gpus.empty() && host.gpus.front().label.starts_with("NPU")) {
    std::vector<std::string> lists;
    std::vector<size_t> sizes;
    size_t dies = 0;
    for (const HostGpu& gpu : host.gpus) {
      if (!gpu.cpulist.empty() &&
          std::find(lists.begin(), lists.end(), gpu.cpulist) == lists.end()) {
        lists.push_back(gpu.cpulist);
      }
    }
    for (const auto& island : islands) {
      sizes.push_back(island.size());
    }
    for (const GpuPair& pair : host.pairs) {
      dies += pair.level == PathLevel::kInternal ? 1 : 0;
    }
    summary["devices"] = host.gpus.size();
    summary["cpulists"] = lists;
    summary["islands"] = sizes;
    summary["two_die_pairs"] = dies / 2;
  }
}

}  // namespace

absl::StatusOr<Imported> ImportText(std::string_view name, std::string_view text) {
  if (text.size() > kImportBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("{}: line 1: {} bytes are more than {}", name, text.size(), kImportBytesMax));
  }
  std::string_view head = text.substr(0, kHeadBytes);
  const size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: line 1: the text is empty: a source that answers nothing is no empty cluster", name));
  }
  if (IsBinary(head)) {
    return absl::InvalidArgumentError(fmt::format("{}: line 1: no text", name));
  }
  if (head[first] == '<' && !LooksLikeTopoMatrix(head)) {
    return ImportXml(name, text);
  }
  if (!LooksLikeJson(head.substr(first))) {
    for (const TextFormat& format : kTextFormats) {
      if (format.looks_like(head)) {
        return format.import(name, text);
      }
    }
    if (LooksLikeEvents(head)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: line 1: messages about pods or nodes, no topology", name));
    }
  }
  // A long first line is no document that a person or tool writes.
  const size_t line_end = text.substr(0, size_t{4} << 20).find('\n');
  if (line_end == std::string_view::npos && text.size() > (size_t{4} << 20) && head[first] != '{' &&
      head[first] != '[') {
    return absl::InvalidArgumentError(
        fmt::format("{}: line 1: one line of {} bytes of no known format", name, text.size()));
  }
  return ImportDocuments(name, text);
}

absl::StatusOr<std::string> Decompressed(std::string bytes) {
  if (bytes.size() < 2 || bytes[0] != '\x1f' || bytes[1] != '\x8b') {
    return bytes;
  }
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) {
    return absl::InternalError("zlib cannot start");
  }
  std::string text;
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  int code = Z_OK;
  std::string piece(size_t{1} << 18, '\0');
  while (code == Z_OK && text.size() <= kImportBytesMax) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    code = inflate(&stream, Z_NO_FLUSH);
    text.append(piece, 0, piece.size() - stream.avail_out);
    if (code == Z_BUF_ERROR || (code == Z_OK && stream.avail_in == 0 && stream.avail_out != 0)) {
      break;
    }
  }
  inflateEnd(&stream);
  if (text.size() > kImportBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("the gzip file unpacks to more than {} bytes", kImportBytesMax));
  }
  if (code != Z_STREAM_END) {
    return absl::InvalidArgumentError("the gzip file is damaged or cut off");
  }
  return text;
}

ordered_json SummaryOf(const Imported& imported, const GuidOwners& owners) {
  ordered_json summary = {{"format", imported.format}, {"status", StatusName(imported.outcome)}};
  if (imported.host.has_value()) {
    AddHostSummary(*imported.host, summary);
  }
  if (imported.fabric.has_value()) {
    const FabricAnalysis analysis = AnalyzeFabric(*imported.fabric, {});
    AddFabricSummary(*imported.fabric, analysis, summary);
    AddHostsSummary(analysis, summary);
    AddFaultsSummary(*imported.fabric, analysis, summary);
    summary["hosts"] = analysis.hosts.size();
    summary["hosts_by_name"] = analysis.hosts.size();
    if (!owners.empty()) {
      summary["hosts_by_guid_map"] = AnalyzeFabric(*imported.fabric, owners).hosts.size();
    }
    if (analysis.hosts.empty() && analysis.switch_count > 0 && !analysis.nameless.empty()) {
      summary["status"] = "partial";
    }
  }
  if (imported.tree.has_value() && !owners.empty()) {
    const DeclaredTree joined = JoinSharp(*imported.tree, owners);
    if (!joined.switches.empty()) {
      std::vector<size_t> sizes;
      size_t nodes = 0;
      for (const DeclaredSwitch& each : joined.switches) {
        if (!each.nodes.empty()) {
          sizes.push_back(each.nodes.size());
          nodes += each.nodes.size();
        }
      }
      std::sort(sizes.rbegin(), sizes.rend());
      summary["leaf_group_sizes"] = sizes;
      summary["joined_nodes"] = nodes;
    }
  }
  for (const auto& [key, value] : imported.summary.items()) {
    summary[key] = value;
  }
  return summary;
}

}  // namespace asterism::topology
