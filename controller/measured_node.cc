#include "controller/measured_node.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "base/cut_text.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "topology/host_findings.h"
#include "topology/host_topology.h"
#include "topology/node_labels.h"

namespace asterism::controller {
namespace {

using topology::Finding;
using topology::FindingKind;
using topology::NodeHealth;

// Links of one GPU that an evidence names.
constexpr size_t kNamedMax = 8;

std::string Cut(std::string_view text) {
  return std::string(base::CutText(text, kMeasuredTextMax));
}

absl::Status TooMany(std::string_view field, int count, int most) {
  return absl::InvalidArgumentError(
      fmt::format("measurement.{}: {} entries, more than {}", field, count, most));
}

absl::Status CheckGpus(const v1::MeasuredGpus& part) {
  if (part.gpus_size() > kMeasuredGpusMax) {
    return TooMany("gpus.gpus", part.gpus_size(), kMeasuredGpusMax);
  }
  const int pairs_max = part.gpus_size() * std::max(0, part.gpus_size() - 1) / 2;
  if (part.pairs_size() > pairs_max) {
    return TooMany("gpus.pairs", part.pairs_size(), pairs_max);
  }
  for (int i = 0; i < part.gpus_size(); ++i) {
    if (part.gpus(i).links_size() > kMeasuredLinksMax) {
      return TooMany(fmt::format("gpus.gpus[{}].links", i), part.gpus(i).links_size(),
                     kMeasuredLinksMax);
    }
  }
  for (int i = 0; i < part.pairs_size(); ++i) {
    const v1::GpuPair& pair = part.pairs(i);
    if (pair.first() >= pair.second() || pair.second() >= static_cast<uint32_t>(part.gpus_size())) {
      return absl::InvalidArgumentError(
          fmt::format("measurement.gpus.pairs[{}]: {} and {} are no two of {} GPUs in order", i,
                      pair.first(), pair.second(), part.gpus_size()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNics(const v1::MeasuredNics& part) {
  if (part.nics_size() > kMeasuredNicsMax) {
    return TooMany("nics.nics", part.nics_size(), kMeasuredNicsMax);
  }
  for (int i = 0; i < part.nics_size(); ++i) {
    const v1::MeasuredNic& nic = part.nics(i);
    if (nic.ports_size() > kMeasuredPortsMax) {
      return TooMany(fmt::format("nics.nics[{}].ports", i), nic.ports_size(), kMeasuredPortsMax);
    }
    if (nic.gpu_distances_size() > kMeasuredGpusMax) {
      return TooMany(fmt::format("nics.nics[{}].gpu_distances", i), nic.gpu_distances_size(),
                     kMeasuredGpusMax);
    }
  }
  return absl::OkStatus();
}

// It becomes a part of a label.
bool IsDomainName(std::string_view name) {
  return !name.empty() && name.size() <= topology::kNvlinkUuidMax && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](unsigned char letter) {
           return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                  (letter >= 'A' && letter <= 'Z') || letter == '-';
         });
}

absl::Status Check(const v1::NodeMeasurement& measurement) {
  if (measurement.probes_size() > kMeasuredProbesMax) {
    return TooMany("probes", measurement.probes_size(), kMeasuredProbesMax);
  }
  for (int i = 0; i < measurement.probes_size(); ++i) {
    if (measurement.probes(i).gaps_size() > kMeasuredGapsMax) {
      return TooMany(fmt::format("probes[{}].gaps", i), measurement.probes(i).gaps_size(),
                     kMeasuredGapsMax);
    }
  }
  if (measurement.neighbors().neighbors_size() > kMeasuredListMax) {
    return TooMany("neighbors.neighbors", measurement.neighbors().neighbors_size(),
                   kMeasuredListMax);
  }
  if (measurement.numa().nodes_size() > kMeasuredListMax) {
    return TooMany("numa.nodes", measurement.numa().nodes_size(), kMeasuredListMax);
  }
  if (measurement.place().steps_size() > kMeasuredListMax) {
    return TooMany("place.steps", measurement.place().steps_size(), kMeasuredListMax);
  }
  if (measurement.nvlink_domain().faults_size() > kMeasuredListMax) {
    return TooMany("nvlink_domain.faults", measurement.nvlink_domain().faults_size(),
                   kMeasuredListMax);
  }
  const v1::MeasuredNvlinkDomain& domain = measurement.nvlink_domain();
  if (domain.state() == v1::MeasuredNvlinkDomain::MEMBER && !IsDomainName(domain.cluster_uuid())) {
    return absl::InvalidArgumentError(fmt::format(
        "measurement.nvlink_domain.cluster_uuid: is no UUID: 1 to {} letters, digits and '-'",
        topology::kNvlinkUuidMax));
  }
  RETURN_IF_ERROR(CheckGpus(measurement.gpus()));
  return CheckNics(measurement.nics());
}

topology::PathLevel LevelOf(v1::PciDistance distance) {
  switch (distance) {
    case v1::PCI_SAME_BOARD:
      return topology::PathLevel::kInternal;
    case v1::PCI_PIX:
      return topology::PathLevel::kPix;
    case v1::PCI_PXB:
      return topology::PathLevel::kPxb;
    case v1::PCI_PHB:
      return topology::PathLevel::kPhb;
    case v1::PCI_NODE:
      return topology::PathLevel::kNode;
    case v1::PCI_SYS:
      return topology::PathLevel::kSys;
    default:
      return topology::PathLevel::kUnknown;
  }
}

// The machine inside, as far as the doctor looks at it: who is near whom.
topology::HostTopology HostOf(const v1::MeasuredGpus& part) {
  topology::HostTopology host;
  for (const v1::MeasuredGpu& gpu : part.gpus()) {
    host.gpus.push_back(
        {.label = Cut(gpu.pci_address().empty() ? gpu.uuid() : gpu.pci_address()),
         .product = Cut(gpu.product()),
         .cpulist = {},
         .numa = gpu.numa_node() < 0 ? std::nullopt : std::optional<int>(gpu.numa_node())});
  }
  host.Resize();
  for (const v1::GpuPair& pair : part.pairs()) {
    for (const auto& [row, column] :
         {std::pair(pair.first(), pair.second()), std::pair(pair.second(), pair.first())}) {
      topology::GpuPair& target = host.pair(row, column);
      target.level = LevelOf(pair.distance());
      target.access =
          pair.peer_refused() ? topology::PeerAccess::kImpossible : topology::PeerAccess::kUnknown;
    }
  }
  return host;
}

std::string LinksDown(const v1::MeasuredGpu& gpu) {
  std::vector<uint32_t> numbers;
  for (const v1::MeasuredLink& link : gpu.links()) {
    if (!link.up()) {
      numbers.push_back(link.number());
    }
  }
  const size_t shown = std::min(numbers.size(), kNamedMax);
  return fmt::format("{}{}",
                     fmt::join(numbers.begin(), numbers.begin() + static_cast<long>(shown), ", "),
                     numbers.size() > shown ? ", ..." : "");
}

}  // namespace

MeasuredNode::MeasuredNode(std::string node, std::string boot_id) {
  report_.node = std::move(node);
  report_.boot_id = std::move(boot_id);
}

absl::StatusOr<MeasuredNode::Taken> MeasuredNode::Take(const v1::NodeMeasurement& measurement) {
  RETURN_IF_ERROR(Check(measurement));
  if (!measurement.full() && (!complete_ || measurement.generation() != generation_ + 1)) {
    complete_ = false;
    return Taken::kLost;
  }
  generation_ = measurement.generation();
  complete_ = complete_ || measurement.full();
  // What probes took and when they ran is no news.
  v1::NodeMeasurement content = measurement;
  content.clear_generation();
  content.clear_full();
  for (v1::ProbeOutcome& probe : *content.mutable_probes()) {
    probe.clear_duration_nanoseconds();
  }
  const size_t fingerprint = absl::HashOf(content.SerializeAsString());
  if (std::exchange(last_, fingerprint) == fingerprint) {
    return Taken::kSame;
  }
  if (measurement.has_gpus()) {
    TakeGpus(measurement.gpus());
  }
  if (measurement.has_nvlink_domain()) {
    TakeDomain(measurement.nvlink_domain());
  }
  if (measurement.has_nics()) {
    TakeNics(measurement.nics());
  }
  if (measurement.has_place()) {
    TakePlace(measurement.place());
  }
  if (measurement.full() || !measurement.probes().empty()) {
    TakeProbes(measurement);
  }
  Conclude();
  return Taken::kNews;
}

void MeasuredNode::TakeGpus(const v1::MeasuredGpus& part) {
  gpus_told_ = true;
  report_.gpu_count = static_cast<uint32_t>(part.gpus_size());
  report_.lost_gpus = report_.bad_links = report_.good_links = 0;
  report_.product = part.gpus().empty() ? "" : Cut(part.gpus(0).product());
  of_gpus_.clear();
  size_t without_numa = 0;
  for (const v1::MeasuredGpu& gpu : part.gpus()) {
    const std::string name = Cut(gpu.pci_address().empty() ? gpu.uuid() : gpu.pci_address());
    without_numa += gpu.numa_node() < 0 ? 1 : 0;
    if (gpu.lost()) {
      ++report_.lost_gpus;
      of_gpus_.push_back(
          {FindingKind::kGpuCountMismatch, {report_.node, name}, "the driver has lost this GPU"});
      continue;
    }
    const auto down = static_cast<uint32_t>(
        std::count_if(gpu.links().begin(), gpu.links().end(),
                      [](const v1::MeasuredLink& link) { return !link.up(); }));
    report_.bad_links += down;
    report_.good_links += static_cast<uint32_t>(gpu.links_size()) - down;
  }
  if (without_numa > 0 && part.gpus_size() > 1) {
    of_gpus_.push_back(
        {FindingKind::kNumaUnknown,
         {report_.node},
         fmt::format("{} of {} GPUs tell no NUMA node", without_numa, part.gpus_size())});
  }
  // GPUs of one board whose links differ: which ones are down.
  for (const v1::MeasuredGpu& gpu : part.gpus()) {
    const auto down = std::count_if(gpu.links().begin(), gpu.links().end(),
                                    [](const v1::MeasuredLink& link) { return !link.up(); });
    if (!gpu.lost() && down > 0 &&
        static_cast<uint64_t>(down) * static_cast<uint64_t>(part.gpus_size()) !=
            report_.bad_links) {
      of_gpus_.push_back(
          {FindingKind::kNvlinkLinkDown,
           {report_.node, Cut(gpu.pci_address().empty() ? gpu.uuid() : gpu.pci_address())},
           fmt::format("links {} are down, {} of {}", LinksDown(gpu), down, gpu.links_size())});
    }
  }
  const std::vector<Finding> inside = topology::HostFindings(report_.node, HostOf(part));
  of_gpus_.insert(of_gpus_.end(), inside.begin(), inside.end());
}

void MeasuredNode::TakeDomain(const v1::MeasuredNvlinkDomain& domain) {
  of_domain_.clear();
  domain_health_ = NodeHealth::kUnknown;
  switch (domain.state()) {
    case v1::MeasuredNvlinkDomain::MEMBER: {
      report_.domain_state = topology::DomainState::kMember;
      report_.nvlink_domain = fmt::format("{}.{}", domain.cluster_uuid(), domain.clique_id());
      std::transform(report_.nvlink_domain.begin(), report_.nvlink_domain.end(),
                     report_.nvlink_domain.begin(),
                     [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
      break;
    }
    case v1::MeasuredNvlinkDomain::NONE:
      report_.domain_state = topology::DomainState::kNone;
      report_.nvlink_domain.clear();
      break;
    default:
      report_.domain_state = topology::DomainState::kUnknown;
      report_.nvlink_domain.clear();
      break;
  }
  std::string faults;
  for (const std::string& fault : domain.faults()) {
    if (faults.size() < kMeasuredTextMax) {
      faults += (faults.empty() ? "" : ", ") + Cut(fault);
    }
  }
  if (domain.health() == v1::MeasuredNvlinkDomain::UNHEALTHY ||
      domain.health() == v1::MeasuredNvlinkDomain::LIMITED) {
    const bool unhealthy = domain.health() == v1::MeasuredNvlinkDomain::UNHEALTHY;
    domain_health_ = unhealthy ? NodeHealth::kUnhealthy : NodeHealth::kDegraded;
    of_domain_.push_back({FindingKind::kFabricUnhealthy,
                          {report_.node},
                          fmt::format("{}{}{}", unhealthy ? "unhealthy" : "limited capacity",
                                      faults.empty() ? "" : ": ", faults)});
  } else if (domain.health() == v1::MeasuredNvlinkDomain::HEALTHY) {
    domain_health_ = NodeHealth::kHealthy;
  }
}

void MeasuredNode::TakeNics(const v1::MeasuredNics& part) {
  report_.nics.clear();
  of_nics_.clear();
  for (const v1::MeasuredNic& nic : part.nics()) {
    topology::ReportedNic reported{.node_guid = nic.node_guid(), .port_guids = {}};
    for (const v1::MeasuredPort& port : nic.ports()) {
      if (port.guid() != 0) {
        reported.port_guids.push_back(port.guid());
      }
    }
    reported.compute =
        std::any_of(nic.gpu_distances().begin(), nic.gpu_distances().end(), [](int distance) {
          return distance == v1::PCI_PIX || distance == v1::PCI_PXB ||
                 distance == v1::PCI_SAME_BOARD;
        });
    const auto down = std::count_if(nic.ports().begin(), nic.ports().end(),
                                    [](const v1::MeasuredPort& port) { return !port.active(); });
    if (reported.compute && !nic.virtual_function() && down > 0) {
      of_nics_.push_back(
          {FindingKind::kMissingPort,
           {report_.node, Cut(nic.device())},
           fmt::format("{} of its {} ports are not active", down, nic.ports_size())});
    }
    // A virtual function has the GUIDs of nobody that a fabric shows as a host of its own.
    if (nic.node_guid() != 0 || !reported.port_guids.empty()) {
      report_.nics.push_back(std::move(reported));
    }
  }
  if (part.source() == v1::MeasuredNics::OVERLAY) {
    of_nics_.push_back({FindingKind::kOverlayUsed, {report_.node}, "an overlay file of the site"});
  }
}

void MeasuredNode::TakePlace(const v1::MeasuredPlace& place) {
  of_place_.clear();
  if (!place.machine().empty()) {
    of_place_.push_back({FindingKind::kGuestTree, {report_.node}, Cut(place.machine())});
  }
}

// A probe that could not answer leaves its part as it was, and says so.
void MeasuredNode::TakeProbes(const v1::NodeMeasurement& measurement) {
  of_probes_.clear();
  for (const v1::ProbeOutcome& probe : measurement.probes()) {
    if (!probe.problem().empty()) {
      of_probes_.push_back({FindingKind::kStale,
                            {report_.node, Cut(probe.name())},
                            fmt::format("the probe cannot tell: {}", Cut(probe.problem()))});
    }
  }
}

void MeasuredNode::Conclude() {
  report_.health = report_.lost_gpus > 0                    ? NodeHealth::kUnhealthy
                   : domain_health_ != NodeHealth::kUnknown ? domain_health_
                   : gpus_told_                             ? NodeHealth::kHealthy
                                                            : NodeHealth::kUnknown;
  report_.findings.clear();
  for (const auto* part : {&of_gpus_, &of_domain_, &of_nics_, &of_place_, &of_probes_}) {
    report_.findings.insert(report_.findings.end(), part->begin(), part->end());
  }
}

}  // namespace asterism::controller
