#include "topology/import/nccl_xml.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/import/text_lines.h"

namespace asterism::topology {
namespace {

// PCI base and sub class, the upper 16 bits of 24.
bool IsAcceleratorClass(uint64_t code) {
  return code >> 8 == 0x0302 || code >> 8 == 0x0300 || code >> 8 == 0x1200;
}
bool IsNetworkClass(uint64_t code) {
  return code >> 16 == 0x02;
}

// A PCI device of the file with its way from the CPU.
struct PciPlace {
  std::string address;
  std::vector<const XmlElement*> bridges;  // outermost first
  const XmlElement* cpu = nullptr;
};

class NcclReader {
 public:
  NcclReader(std::string_view name, const XmlElement& root) : root_(root) {
    out_.source = std::string(name);
    out_.format = "nccl-xml";
  }

  absl::StatusOr<Imported> Read() {
    if (root_.name == "graphs") {
      out_.outcome = Outcome::kNotTopology;
      out_.summary["graphs"] = root_.children.size();
      out_.summary["root"] = root_.name;
      out_.Note(root_.line, FindingKind::kUnreadablePart, out_.source,
                "NCCL graphs are no topology: give the file of NCCL_TOPO_DUMP_FILE");
      return std::move(out_);
    }
    if (root_.name != "system") {
      return absl::InvalidArgumentError(
          fmt::format("{}: line {}: the root is <{}>: a topology of NCCL begins with <system>",
                      out_.source, root_.line, Excerpt(root_.name)));
    }
    nlohmann::ordered_json cpus = nlohmann::ordered_json::array();
    for (const XmlElement& cpu : root_.children) {
      if (cpu.name == "cpu") {
        cpus.push_back(std::string(cpu.Attribute("numaid")));
        std::vector<const XmlElement*> bridges;
        Walk(cpu, cpu, bridges);
      }
    }
    if (gpus_.size() > kHostDevicesMax || nics_.size() > kHostDevicesMax) {
      return absl::InvalidArgumentError(
          fmt::format("{}: more than {} devices of one kind", out_.source, kHostDevicesMax));
    }
    out_.summary["cpus"] = std::move(cpus);
    BuildHost();
    return std::move(out_);
  }

 private:
  void Walk(const XmlElement& parent, const XmlElement& cpu,
            std::vector<const XmlElement*>& bridges) {
    for (const XmlElement& child : parent.children) {
      if (child.name == "nic" || child.name == "net") {
        net_ports_ += child.name == "net" ? 1 : 0;
        Walk(child, cpu, bridges);
      } else if (child.name == "pci") {
        TakePci(child, cpu, bridges);
        bridges.push_back(&child);
        Walk(child, cpu, bridges);
        bridges.pop_back();
      }
    }
  }

  void TakePci(const XmlElement& pci, const XmlElement& cpu,
               const std::vector<const XmlElement*>& bridges) {
    const std::string_view address = pci.Attribute("busid");
    if (address.empty()) {
      out_.Damage(pci.line, "a pci element without busid");
      return;
    }
    if (!seen_.emplace(address, pci.line).second) {
      out_.Damage(pci.line, fmt::format("the PCI address {} is there twice", Excerpt(address)));
      return;
    }
    const std::optional<uint64_t> code = HexOf(pci.Attribute("class"));
    const XmlElement* gpu = ChildNamed(pci, "gpu");
    const bool has_nic = ChildNamed(pci, "nic") != nullptr;
    PciPlace place{std::string(address), bridges, &cpu};
    if (gpu != nullptr || has_nic ||
        (code.has_value() && (IsAcceleratorClass(*code) || IsNetworkClass(*code)))) {
      devices_.push_back(&pci);
    }
    if (gpu != nullptr || (code.has_value() && IsAcceleratorClass(*code))) {
      gpu_elements_.push_back(gpu);
      gpus_.push_back(std::move(place));
    } else if (has_nic || (code.has_value() && IsNetworkClass(*code))) {
      nics_.push_back(std::move(place));
    }
  }

  static const XmlElement* ChildNamed(const XmlElement& parent, std::string_view name) {
    for (const XmlElement& child : parent.children) {
      if (child.name == name) {
        return &child;
      }
    }
    return nullptr;
  }

  // A shared bridge (kPxb; kPix for the innermost of both), the same CPU (kNode), else farther.
  static PathLevel Distance(const PciPlace& left, const PciPlace& right) {
    if (!left.bridges.empty() && !right.bridges.empty() &&
        left.bridges.front() == right.bridges.front()) {
      return left.bridges.back() == right.bridges.back() ? PathLevel::kPix : PathLevel::kPxb;
    }
    return left.cpu == right.cpu ? PathLevel::kNode : PathLevel::kSys;
  }

  static size_t SharedBridges(const PciPlace& left, const PciPlace& right) {
    size_t shared = 0;
    while (shared < std::min(left.bridges.size(), right.bridges.size()) &&
           left.bridges[shared] == right.bridges[shared]) {
      ++shared;
    }
    return shared;
  }

  void BuildHost() {
    HostTopology host;
    for (const PciPlace& gpu : gpus_) {
      HostGpu& added = host.gpus.emplace_back();
      added.label = gpu.address;
      if (const auto numa = DecimalOf(gpu.cpu->Attribute("numaid")); numa && *numa < 4096) {
        added.numa = static_cast<int>(*numa);
      }
    }
    for (const PciPlace& nic : nics_) {
      host.nics.push_back({.label = nic.address, .device = nic.address});
    }
    host.Resize();
    for (size_t i = 0; i < gpus_.size(); ++i) {
      for (size_t j = 0; j < gpus_.size(); ++j) {
        if (i != j) {
          host.pair(i, j).level = Distance(gpus_[i], gpus_[j]);
        }
      }
      for (size_t j = 0; j < nics_.size(); ++j) {
        host.nic_level(i, j) = Distance(gpus_[i], nics_[j]);
      }
    }
    ReadLinks(host);
    ComparePcieLinks();
    Summarise(host);
    out_.host = std::move(host);
  }

  // Devices of one kind on one machine should have equal PCIe links.
  void ComparePcieLinks() {
    std::map<std::pair<std::string, std::string>, std::vector<const XmlElement*>> kinds;
    for (const XmlElement* pci : devices_) {
      kinds[{std::string(pci->Attribute("vendor")), std::string(pci->Attribute("device"))}]
          .push_back(pci);
    }
    for (const auto& [kind, members] : kinds) {
      for (const std::string_view field : {"link_width", "link_speed"}) {
        std::map<std::string_view, size_t> seen;
        for (const XmlElement* pci : members) {
          ++seen[pci->Attribute(field)];
        }
        const auto usual = std::max_element(
            seen.begin(), seen.end(),
            [](const auto& left, const auto& right) { return left.second < right.second; });
        if (seen.size() < 2 || 2 * usual->second <= members.size()) {
          continue;
        }
        for (const XmlElement* pci : members) {
          const std::string_view value = pci->Attribute(field);
          if (value != usual->first && LinkNumber(value) < LinkNumber(usual->first)) {
            out_.Note(pci->line, FindingKind::kPcieBelowPeers, std::string(pci->Attribute("busid")),
                      fmt::format("its {} is {}, that of its peers {}", field, Excerpt(value),
                                  Excerpt(usual->first)));
          }
        }
      }
    }
  }

  // Of "16" or "32.0 GT/s PCIe", in tenths; 0 for none.
  static uint64_t LinkNumber(std::string_view text) {
    const size_t dot = text.find_first_not_of("0123456789");
    const uint64_t whole = DecimalOf(text.substr(0, dot)).value_or(0) * 10;
    const bool fraction = dot != std::string_view::npos && text[dot] == '.' &&
                          dot + 1 < text.size() && IsDigitChar(text[dot + 1]);
    return whole + (fraction ? static_cast<uint64_t>(text[dot + 1] - '0') : 0);
  }

  // GPUs that reach the same switch chip are linked.
  void ReadLinks(HostTopology& host) {
    std::map<std::string_view, size_t> index;
    for (size_t i = 0; i < gpus_.size(); ++i) {
      index.emplace(gpus_[i].address, i);
    }
    std::map<std::string, std::vector<std::pair<size_t, uint16_t>>> by_switch;
    for (size_t i = 0; i < gpus_.size(); ++i) {
      int64_t sum = 0;
      for (const XmlElement& link : LinksOf(i)) {
        has_links_ = true;
        const auto count = static_cast<uint16_t>(
            std::min<uint64_t>(DecimalOf(link.Attribute("count")).value_or(1), 1000));
        sum += count;
        const std::string_view target = link.Attribute("target");
        const auto peer = index.find(target);
        if (peer == index.end()) {
          by_switch[std::string(target)].emplace_back(i, count);
        } else if (peer->second == i) {
          out_.Note(link.line, FindingKind::kNvlinkIslandSmallerThanPeers, gpus_[i].address,
                    "its links have itself as their target: an island of one");
        } else {
          host.pair(i, peer->second).links = count;
        }
      }
      sums_.insert(sum);
    }
    for (const auto& [target, members] : by_switch) {
      for (const auto& [gpu, count] : members) {
        for (const auto& [other, ignored] : members) {
          if (gpu != other) {
            host.pair(gpu, other).links =
                static_cast<uint16_t>(host.pair(gpu, other).links + count);
          }
        }
      }
    }
    host.links_known = has_links_;
  }

  std::vector<XmlElement> LinksOf(size_t gpu) const {
    std::vector<XmlElement> links;
    if (gpu_elements_[gpu] != nullptr) {
      for (const XmlElement& child : gpu_elements_[gpu]->children) {
        if (child.name == "nvlink" || child.name == "xgmi") {
          links.push_back(child);
        }
      }
    }
    return links;
  }

  void Summarise(const HostTopology& host) {
    auto& summary = out_.summary;
    summary["gpus"] = gpus_.size();
    summary["nics"] = nics_.size();
    summary["net_ports"] = net_ports_;
    std::vector<size_t> islands;
    if (has_links_) {
      for (const auto& island : NvlinkIslands(host)) {
        islands.push_back(island.size());
      }
      std::sort(islands.rbegin(), islands.rend());
    }
    summary["accel_islands"] = islands;
    summary["accel_links_per_gpu"] = sums_;
    nlohmann::ordered_json nearest = nlohmann::ordered_json::object();
    for (const PciPlace& gpu : gpus_) {
      nearest[gpu.address] = NearestOf(gpu);
    }
    summary["gpu_nearest_nics"] = std::move(nearest);
    if (gpus_.empty()) {
      out_.Note(0, FindingKind::kOverlayUsed, out_.source,
                "the file knows no GPU: it is an overlay for a probed tree");
    }
  }

  // The cards that share most bridges with the GPU, else those of its CPU.
  nlohmann::ordered_json NearestOf(const PciPlace& gpu) const {
    size_t most = 0;
    std::vector<std::string> names;
    for (const PciPlace& nic : nics_) {
      const size_t shared = SharedBridges(gpu, nic);
      if (shared > most) {
        names.clear();
        most = shared;
      }
      if (shared == most && (most > 0 || nic.cpu == gpu.cpu)) {
        names.push_back(nic.address);
      }
    }
    std::sort(names.begin(), names.end());
    return {most > 0 ? "same_pci_bridge" : names.empty() ? "none" : "same_cpu", names};
  }

  const XmlElement& root_;
  Imported out_;
  std::vector<PciPlace> gpus_;
  std::vector<PciPlace> nics_;
  std::vector<const XmlElement*> gpu_elements_;
  std::vector<const XmlElement*> devices_;  // GPUs and cards
  std::map<std::string, uint32_t, std::less<>> seen_;
  std::set<int64_t> sums_;
  size_t net_ports_ = 0;
  bool has_links_ = false;
};

class HwlocCounter {
 public:
  void Walk(const XmlElement& element) {
    if (element.name == "object") {
      const std::string_view type = element.Attribute("type");
      ++counts_[std::string(type)];
      if (type == "NUMANode") {
        gpu_numa_ += element.Attribute("subtype") == "GPUMemory" ? 1 : 0;
      }
    } else if (element.name == "distances2" || element.name == "distances2hetero") {
      distances_.push_back({{"name", std::string(element.Attribute("name"))},
                            {"objects", DecimalOf(element.Attribute("nbobjs")).value_or(0)}});
    }
    for (const XmlElement& child : element.children) {
      Walk(child);
    }
  }

  nlohmann::ordered_json Summary() {
    return {{"packages", counts_["Package"]},
            {"numa_nodes", counts_["NUMANode"]},
            {"gpu_memory_numa_nodes", gpu_numa_},
            {"cores", counts_["Core"]},
            {"pus", counts_["PU"]},
            {"bridges", counts_["Bridge"]},
            {"pci_devices", counts_["PCIDev"]},
            {"distances", distances_}};
  }

 private:
  std::map<std::string, int64_t> counts_;
  int64_t gpu_numa_ = 0;
  nlohmann::ordered_json distances_ = nlohmann::ordered_json::array();
};

}  // namespace

absl::StatusOr<Imported> ImportNcclXml(std::string_view name, const XmlElement& root) {
  return NcclReader(name, root).Read();
}

absl::StatusOr<Imported> ImportHwlocXml(std::string_view name, const XmlElement& root) {
  if (root.name != "topology") {
    return absl::InvalidArgumentError(fmt::format("{}: line {}: the root is <{}>, not <topology>",
                                                  name, root.line, Excerpt(root.name)));
  }
  Imported out;
  out.source = std::string(name);
  out.format = "hwloc-xml";
  HwlocCounter counter;
  counter.Walk(root);
  out.summary = counter.Summary();
  if (out.summary["packages"] == 0 && out.summary["pus"] == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: line {}: no package and no processing unit", name, root.line));
  }
  return out;
}

bool LooksLikeHwlocConsole(std::string_view head) {
  return (head.find("Machine (") != std::string_view::npos ||
          head.find("Machine L#") != std::string_view::npos) &&
         (head.find("Package L#") != std::string_view::npos ||
          head.find("NUMANode L#") != std::string_view::npos ||
          head.find("PU L#") != std::string_view::npos);
}

absl::StatusOr<Imported> ImportHwlocConsole(std::string_view name, std::string_view text) {
  Imported out;
  out.source = std::string(name);
  out.format = "hwloc-console";
  std::map<std::string_view, int64_t> counts;
  int64_t gpu_memory = 0;
  TextLines lines(text);
  while (lines.Next()) {
    const std::string_view line = Trimmed(lines.line());
    const size_t number = line.find(" L#");
    if (number == std::string_view::npos) {
      continue;
    }
    const std::string_view type = line.substr(0, line.find_first_of(" ("));
    ++counts[type];
    // "NUMANode(GPUMemory) L#1"
    gpu_memory += type == "NUMANode" && line.find("(GPUMemory)") < number ? 1 : 0;
  }
  if (counts["Package"] == 0 && counts["PU"] == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: line 1: no Package or PU line: is it the output of lstopo -v?", name));
  }
  out.summary["packages"] = counts["Package"];
  out.summary["numa_nodes"] = counts["NUMANode"];
  out.summary["gpu_memory_numa_nodes"] = gpu_memory;
  out.summary["cores"] = counts["Core"];
  out.summary["pus"] = counts["PU"];
  out.summary["pci_devices"] = counts["PCI"];
  return out;
}

}  // namespace asterism::topology
