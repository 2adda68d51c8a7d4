#include "agent/probe/kfd_probe.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "agent/probe/sysfs_text.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

constexpr uint64_t kXgmi = 11;

// "simd_count 304" a line. Numbers are unsigned of 64 bits.
std::map<std::string, uint64_t> KfdProperties(const std::string& path) {
  std::map<std::string, uint64_t> properties;
  const std::string text = SysfsText(path).value_or("");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t blank = line.find(' ');
    if (blank == std::string::npos) {
      continue;
    }
    uint64_t value = 0;
    bool number = blank + 1 < line.size();
    for (size_t i = blank + 1; i < line.size() && number; ++i) {
      number = line[i] >= '0' && line[i] <= '9';
      value = value * 10 + static_cast<uint64_t>(line[i] - '0');
    }
    if (number) {
      properties[line.substr(0, blank)] = value;
    }
  }
  return properties;
}

struct KfdNode {
  std::string folder;
  std::map<std::string, uint64_t> properties;
  std::string key;

  uint64_t Get(const std::string& name) const {
    const auto found = properties.find(name);
    return found == properties.end() ? 0 : found->second;
  }
  std::string PciAddress() const {
    const uint64_t place = Get("location_id");  // bus, device and function in 16 bits
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", Get("domain"), place >> 8 & 0xff,
                       place >> 3 & 0x1f, place & 0x7);
  }
};

// 90402 -> "gfx942"; the last two parts are hexadecimal digits there.
std::string Architecture(uint64_t version) {
  return version == 0
             ? ""
             : fmt::format("gfx{}{:x}{:x}", version / 10000, version / 100 % 100, version % 100);
}

uint64_t MemoryOf(const std::string& node) {
  uint64_t bytes = 0;
  for (const std::string& bank : SysfsNames(node + "/mem_banks", 64)) {
    const auto properties = KfdProperties(node + "/mem_banks/" + bank + "/properties");
    const auto heap = properties.find("heap_type");
    const auto size = properties.find("size_in_bytes");
    // 1 and 2: memory of the card, seen by the CPU or not.
    if (heap != properties.end() && (heap->second == 1 || heap->second == 2) &&
        size != properties.end()) {
      bytes += size->second;
    }
  }
  return bytes;
}

void AddXgmi(const KfdNode& node, const std::map<uint64_t, KfdNode>& nodes,
             std::set<std::string>& seen, v1::MeasuredGpu& gpu) {
  for (const std::string& link : SysfsNames(node.folder + "/io_links", kKfdNodesMax)) {
    const auto properties = KfdProperties(node.folder + "/io_links/" + link + "/properties");
    const auto type = properties.find("type");
    const auto to = properties.find("node_to");
    if (type == properties.end() || type->second != kXgmi || to == properties.end()) {
      continue;
    }
    const auto peer = nodes.find(to->second);
    // Partitions of one card are no peers, and those of another are one.
    if (peer == nodes.end() || peer->second.key == node.key ||
        !seen.insert(peer->second.key).second) {
      continue;
    }
    v1::MeasuredLink& told = *gpu.add_links();
    told.set_number(static_cast<uint32_t>(gpu.links_size() - 1));
    told.set_up(true);
    told.set_remote(v1::MeasuredLink::REMOTE_GPU);
    told.set_remote_pci_address(peer->second.PciAddress());
    const auto rate = properties.find("max_bandwidth");  // MB/s
    told.set_bytes_per_second(rate == properties.end() ? 0 : rate->second * 1'000'000);
  }
}

}  // namespace

KfdProbe::KfdProbe(ProbeRoots roots, absl::Duration period)
    : Probe("kfd", period), roots_(std::move(roots)) {}

ProbeResult KfdProbe::Run() {
  ProbeResult result;
  v1::MeasuredGpus& gpus = *result.parts.mutable_gpus();
  const std::string folder = roots_.sysfs + "/class/kfd/kfd/topology/nodes";
  std::map<uint64_t, KfdNode> nodes;  // with GPUs, by number
  for (const std::string& name : SysfsNames(folder, kKfdNodesMax)) {
    const std::optional<int64_t> number = NumberOf(name);
    if (!number.has_value() || *number < 0) {
      continue;
    }
    KfdNode node;
    node.folder = folder + "/" + name;
    node.properties = KfdProperties(node.folder + "/properties");
    if (node.Get("simd_count") == 0) {
      continue;  // a CPU, or a GPU that this container may not use: its file is empty
    }
    const uint64_t unique = node.Get("unique_id");
    node.key = unique != 0 ? fmt::format("GPU-{:016x}", unique) : node.PciAddress();
    nodes.emplace(static_cast<uint64_t>(*number), std::move(node));
  }
  std::map<std::string, std::vector<const KfdNode*>> cards;
  for (const auto& [number, node] : nodes) {
    cards[node.key].push_back(&node);
  }
  size_t hidden = 0;
  for (const std::string& name : SysfsNames(folder, kKfdNodesMax)) {
    hidden += SysfsNumber(folder + "/" + name + "/gpu_id").value_or(0) != 0 &&
                      KfdProperties(folder + "/" + name + "/properties").empty()
                  ? 1
                  : 0;
  }
  if (hidden > 0) {
    return ProbeResult::Failed(fmt::format(
        "the kernel hides {} of the GPUs of this node: run the agent with all devices", hidden));
  }
  for (const auto& [key, parts] : cards) {
    const KfdNode& first = *parts.front();
    v1::MeasuredGpu& gpu = *gpus.add_gpus();
    gpu.set_uuid(key);
    gpu.set_pci_address(first.PciAddress());
    gpu.set_product(SysfsText(first.folder + "/name").value_or(""));
    gpu.set_architecture(Architecture(first.Get("gfx_target_version")));
    gpu.set_minor(static_cast<int32_t>(first.Get("drm_render_minor")));
    gpu.set_numa_node(-1);
    gpu.set_mig(parts.size() > 1);
    uint64_t memory = 0;
    std::set<std::string> seen;
    for (const KfdNode* part : parts) {
      memory += MemoryOf(part->folder);
      AddXgmi(*part, nodes, seen, gpu);
    }
    // What the partitions call theirs may be one memory, counted several times.
    gpu.set_memory_bytes(parts.size() == 1 ? memory : 0);
  }
  // In the order of their PCI addresses, as NVIDIA's driver counts.
  std::sort(gpus.mutable_gpus()->begin(), gpus.mutable_gpus()->end(),
            [](const v1::MeasuredGpu& left, const v1::MeasuredGpu& right) {
              return left.pci_address() < right.pci_address();
            });
  return result;
}

}  // namespace asterism::agent
