#include "topology/host_findings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace asterism::topology {
namespace {

class HostExaminer {
 public:
  HostExaminer(std::string_view name, const HostTopology& host) : name_(name), host_(host) {}

  std::vector<Finding> Examine() {
    Islands();
    FewerLinks();
    PeerAccessOfNearGpus();
    VisiblePart();
    FlatTree();
    SortFindings(findings_);
    return std::move(findings_);
  }

 private:
  void Add(FindingKind kind, std::vector<std::string> objects, std::string evidence) {
    objects.insert(objects.begin(), std::string(name_));
    findings_.push_back({kind, std::move(objects), std::move(evidence)});
  }

  // Bridged pairs are no board; an island of three or more that holds most GPUs is.
  void Islands() {
    const auto islands = NvlinkIslands(host_);
    size_t largest = 0;
    for (const auto& island : islands) {
      largest = std::max(largest, island.size());
    }
    if (largest < 3 || 2 * largest <= host_.gpus.size()) {
      return;
    }
    for (const auto& island : islands) {
      for (const size_t gpu : island) {
        if (island.size() < largest) {
          Add(FindingKind::kNvlinkIslandSmallerThanPeers, {host_.gpus[gpu].label},
              fmt::format("has no link to the {} GPUs that are linked with each other", largest));
        }
      }
    }
  }

  // A board where nearly all pairs have one number of links.
  void FewerLinks() {
    std::vector<uint16_t> counts;
    for (const GpuPair& pair : host_.pairs) {
      if (pair.links > 0) {
        counts.push_back(pair.links);
      }
    }
    if (counts.size() < 6) {
      return;
    }
    std::sort(counts.begin(), counts.end());
    const uint16_t usual = counts[counts.size() / 2];
    const auto below = std::lower_bound(counts.begin(), counts.end(), usual) - counts.begin();
    if (below == 0 || 2 * static_cast<size_t>(below) > counts.size() || usual < 3) {
      return;
    }
    for (size_t i = 0; i < host_.gpus.size(); ++i) {
      size_t fewer = 0;
      size_t linked = 0;
      uint16_t least = usual;
      for (size_t j = 0; j < host_.gpus.size(); ++j) {
        const uint16_t links = host_.pair(i, j).links;
        linked += links > 0 ? 1 : 0;
        fewer += links > 0 && links < usual ? 1 : 0;
        least = links > 0 ? std::min(least, links) : least;
      }
      if (linked > 0 && fewer == linked) {
        Add(FindingKind::kNvlinkLinkDown, {host_.gpus[i].label},
            fmt::format("{} links to its peers, which have {} between each other", least, usual));
      }
    }
  }

  void PeerAccessOfNearGpus() {
    size_t impossible = 0;
    size_t near = 0;
    for (size_t i = 0; i < host_.gpus.size(); ++i) {
      for (size_t j = i + 1; j < host_.gpus.size(); ++j) {
        const GpuPair& pair = host_.pair(i, j);
        const bool close = pair.level != PathLevel::kUnknown && pair.level <= PathLevel::kNode;
        near += close ? 1 : 0;
        impossible += close && pair.access == PeerAccess::kImpossible ? 1 : 0;
      }
    }
    if (impossible > 0) {
      Add(FindingKind::kP2pImpossible, {},
          fmt::format("{} of {} pairs of GPUs that are near by PCI have no peer access", impossible,
                      near));
    }
  }

  // Several switches with two cards or more each, most of them without any GPU.
  void VisiblePart() {
    const size_t nics = host_.nics.size();
    if (host_.nic_to_nic.size() != nics * nics || host_.gpus.empty()) {
      return;
    }
    std::vector<bool> done(nics, false);
    size_t switches = 0;
    size_t without_gpu = 0;
    for (size_t start = 0; start < nics; ++start) {
      if (done[start]) {
        continue;
      }
      size_t cards = 0;
      bool gpu_near = false;
      for (size_t nic = 0; nic < nics; ++nic) {
        if (nic == start || IsNear(host_.nic_to_nic[start * nics + nic])) {
          done[nic] = true;
          ++cards;
          for (size_t gpu = 0; gpu < host_.gpus.size(); ++gpu) {
            gpu_near = gpu_near || IsNear(host_.nic_level(gpu, nic));
          }
        }
      }
      if (cards >= 2) {
        ++switches;
        without_gpu += gpu_near ? 0 : 1;
      }
    }
    if (switches >= 2 && 2 * without_gpu >= switches && without_gpu < switches) {
      Add(FindingKind::kGpuCountMismatch, {},
          fmt::format(
              "{} GPUs are visible, and {} of {} PCIe switches with network cards have no GPU",
              host_.gpus.size(), without_gpu, switches));
    }
  }

  static bool IsNear(PathLevel level) {
    return level == PathLevel::kPix || level == PathLevel::kPxb;
  }

  // On bare metal some cards are nearer than others once there are several of both.
  void FlatTree() {
    if (host_.gpus.size() < 4 || host_.nics.size() < 4) {
      return;
    }
    const bool flat = std::all_of(host_.gpu_to_nic.begin(), host_.gpu_to_nic.end(),
                                  [](PathLevel level) { return level == PathLevel::kPhb; });
    if (flat) {
      Add(FindingKind::kGuestTree, {},
          fmt::format("all {} network cards are PHB to all {} GPUs", host_.nics.size(),
                      host_.gpus.size()));
    }
  }

  std::string_view name_;
  const HostTopology& host_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> HostFindings(std::string_view name, const HostTopology& host) {
  return HostExaminer(name, host).Examine();
}

}  // namespace asterism::topology
