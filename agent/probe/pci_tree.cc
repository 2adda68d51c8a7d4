#include "agent/probe/pci_tree.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "agent/probe/sysfs_text.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

constexpr uint32_t kDisplay = 0x03;
constexpr uint32_t kNetwork = 0x02;
constexpr uint32_t kProcessing = 0x12;  // accelerators of AMD and of others
constexpr uint32_t kCoProcessor = 0x0b40;

bool IsHex(std::string_view text, size_t digits_min, size_t digits_max) {
  return text.size() >= digits_min && text.size() <= digits_max &&
         std::ranges::all_of(text, [](char letter) {
           return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') ||
                  (letter >= 'A' && letter <= 'F');
         });
}

// "pci0000:17", also "pci10000:e0"
bool IsHostBridge(std::string_view part) {
  if (!part.starts_with("pci")) {
    return false;
  }
  const size_t colon = part.find(':');
  return colon != std::string_view::npos && IsHex(part.substr(3, colon - 3), 4, 8) &&
         IsHex(part.substr(colon + 1), 2, 2);
}

bool Matters(uint32_t kind) {
  const uint32_t base = kind >> 16;
  return base == kDisplay || base == kNetwork || base == kProcessing || kind >> 8 == kCoProcessor;
}

size_t SharedBridges(const PciPlace& left, const PciPlace& right) {
  const auto ends = std::ranges::mismatch(left.bridges, right.bridges);
  return static_cast<size_t>(ends.in1 - left.bridges.begin());
}

// The port of the switch that leads to the device alone.
size_t OwnPorts(const PciPlace& place) {
  return place.from_overlay ? 0 : 1;
}

// Of the device, else of the nearest bridge that knows it, else the one node whose CPUs are those
// that the device names as near.
int NumaOf(const std::string& folder, const std::map<int, std::string>& nodes) {
  std::string at = folder;
  for (int depth = 0; depth < 32 && at.find("/pci") != std::string::npos; ++depth) {
    const std::optional<int64_t> told = SysfsNumber(at + "/numa_node");
    if (told.has_value() && *told >= 0) {
      return static_cast<int>(*told);
    }
    at.erase(at.find_last_of('/'));
  }
  const std::string cpus = SysfsText(folder + "/local_cpulist").value_or("");
  if (nodes.size() > 1 && !cpus.empty()) {
    for (const auto& [number, list] : nodes) {
      if (list == cpus) {
        return number;
      }
    }
  }
  return -1;
}

}  // namespace

std::optional<std::string> NormalPciAddress(std::string_view text) {
  const size_t last_colon = text.find_last_of(':');
  const size_t dot = text.find_last_of('.');
  if (last_colon == std::string_view::npos || last_colon == 0 || dot == std::string_view::npos ||
      dot < last_colon) {
    return std::nullopt;
  }
  const size_t first_colon = text.find_last_of(':', last_colon - 1);
  // Without a domain it is 0.
  const std::string_view domain =
      first_colon == std::string_view::npos ? "0" : text.substr(0, first_colon);
  const size_t bus_at = first_colon == std::string_view::npos ? 0 : first_colon + 1;
  const std::array<std::string_view, 4> parts = {domain, text.substr(bus_at, last_colon - bus_at),
                                                 text.substr(last_colon + 1, dot - last_colon - 1),
                                                 text.substr(dot + 1)};
  if (!IsHex(parts[0], 1, 8) || !IsHex(parts[1], 1, 2) || !IsHex(parts[2], 1, 2) ||
      !IsHex(parts[3], 1, 1)) {
    return std::nullopt;
  }
  std::array<uint32_t, 4> numbers{};
  for (size_t i = 0; i < parts.size(); ++i) {
    std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), numbers[i], 16);
  }
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", numbers[0], numbers[1], numbers[2], numbers[3]);
}

PciPlace PciPlaceOfPath(std::string_view path) {
  PciPlace place;
  size_t at = 0;
  while (at < path.size()) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, slash - at);
    at = slash + 1;
    if (IsHostBridge(part)) {
      // A bridge that opens a domain of its own (VMD) stands below another one.
      place.host.empty() ? place.host = std::string(part) : place.bridges.emplace_back(part);
    } else if (!place.host.empty()) {
      if (const auto address = NormalPciAddress(part)) {
        place.bridges.push_back(*address);
      }
    }
  }
  if (!place.bridges.empty()) {
    place.bridges.pop_back();  // the device itself
  }
  return place;
}

const PciPlace* PciTree::Find(const std::string& address) const {
  const auto found = devices.find(address);
  return found == devices.end() ? nullptr : &found->second;
}

v1::PciDistance PciTree::Distance(const std::string& left, const std::string& right) const {
  const PciPlace* const first = Find(left);
  const PciPlace* const second = Find(right);
  if (first == nullptr || second == nullptr) {
    return v1::PCI_UNKNOWN;
  }
  const size_t shared = first->host == second->host ? SharedBridges(*first, *second) : 0;
  if (shared > 0) {
    const bool one_switch = first->bridges.size() - shared <= OwnPorts(*first) &&
                            second->bridges.size() - shared <= OwnPorts(*second);
    return one_switch ? v1::PCI_PIX : v1::PCI_PXB;
  }
  if (!first->host.empty() && first->host == second->host) {
    return v1::PCI_PHB;
  }
  if (first->numa < 0 || second->numa < 0) {
    return v1::PCI_UNKNOWN;
  }
  return first->numa == second->numa ? v1::PCI_NODE : v1::PCI_SYS;
}

void PciTree::Apply(const PciOverlay& overlay) {
  for (auto& [address, place] : devices) {
    if (const auto whole = overlay.places.find(address); whole != overlay.places.end()) {
      place.host = whole->second.host;
      place.bridges = whole->second.bridges;
      place.from_overlay = true;
      place.numa = whole->second.numa >= 0 ? whole->second.numa : place.numa;
      overlaid = true;
      continue;
    }
    for (size_t i = place.bridges.size(); i-- > 0;) {
      const auto bridge = overlay.places.find(place.bridges[i]);
      if (bridge == overlay.places.end()) {
        continue;
      }
      std::vector<std::string> chain = bridge->second.bridges;
      chain.insert(chain.end(), place.bridges.begin() + static_cast<ptrdiff_t>(i),
                   place.bridges.end());
      place.bridges = std::move(chain);
      place.host = bridge->second.host;
      place.numa = bridge->second.numa >= 0 ? bridge->second.numa : place.numa;
      overlaid = true;
      break;
    }
  }
}

std::map<int, std::string> ReadNumaNodes(const std::string& sysfs) {
  std::map<int, std::string> nodes;
  const std::string folder = sysfs + "/devices/system/node";
  for (const std::string& name : SysfsNames(folder)) {
    if (!name.starts_with("node")) {
      continue;
    }
    const std::optional<int64_t> number = NumberOf(std::string_view(name).substr(4));
    const std::string cpus = SysfsText(folder + "/" + name + "/cpulist").value_or("");
    // Memory of a GPU is a node without CPUs.
    if (number.has_value() && !cpus.empty()) {
      nodes.emplace(static_cast<int>(*number), cpus);
    }
  }
  return nodes;
}

absl::StatusOr<PciTree> ReadPciTree(const std::string& sysfs) {
  const std::string folder = sysfs + "/bus/pci/devices";
  const std::vector<std::string> names = SysfsNames(folder, 1 << 16);
  const std::map<int, std::string> nodes = ReadNumaNodes(sysfs);
  PciTree tree;
  for (const std::string& name : names) {
    const std::string link = folder + "/" + name;
    const std::optional<std::string> address = NormalPciAddress(name);
    const auto kind = static_cast<uint32_t>(SysfsNumber(link + "/class").value_or(0));
    if (!address.has_value() || !Matters(kind)) {
      continue;
    }
    const std::string real = SysfsRealPath(link);
    if (real.empty()) {
      continue;  // it is just being removed
    }
    if (tree.devices.size() == kPciDevicesMax) {
      return absl::ResourceExhaustedError(fmt::format(
          "{} holds more than {} accelerators and network cards", folder, kPciDevicesMax));
    }
    PciPlace place = PciPlaceOfPath(real);
    place.numa = NumaOf(real, nodes);
    place.kind = kind;
    place.vendor = static_cast<uint32_t>(SysfsNumber(real + "/vendor").value_or(0));
    place.driver = LastPart(SysfsRealPath(real + "/driver"));
    place.physical_function =
        NormalPciAddress(LastPart(SysfsRealPath(real + "/physfn"))).value_or("");
    tree.devices.emplace(*address, std::move(place));
  }
  return tree;
}

}  // namespace asterism::agent
