#include "topology/import/accelerator_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "topology/import/text_lines.h"

namespace asterism::topology {
namespace {

constexpr uint64_t kXgmiLink = 11;  // HSA_IOLINKTYPE of the kernel's kfd_topology

struct KfdNode {
  uint64_t simd_count = 0;
  uint64_t unique_id = 0;
  uint64_t hive_id = 0;
  bool has_properties = false;
};

// A file of the tree: its path and where it belongs.
struct KfdFile {
  std::optional<uint64_t> node;
  bool link = false;        // of io_links or p2p_links
  bool properties = false;  // the node's own
};

KfdFile FileOf(std::string_view path) {
  KfdFile file;
  const size_t nodes = path.find("nodes/");
  if (nodes == std::string_view::npos || !path.ends_with("properties")) {
    return file;
  }
  const std::string_view rest = path.substr(nodes + 6);
  const size_t slash = rest.find('/');
  file.node = DecimalOf(rest.substr(0, slash));
  const std::string_view inside = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  file.link = inside.starts_with("io_links/") || inside.starts_with("p2p_links/");
  file.properties = inside == "properties";
  return file;
}

}  // namespace

bool LooksLikeKfdTree(std::string_view head) {
  return head.find("=== ") != std::string_view::npos &&
         head.find("nodes/") != std::string_view::npos &&
         (head.find("io_links") != std::string_view::npos ||
          head.find("simd_count") != std::string_view::npos);
}

absl::StatusOr<Imported> ImportKfdTree(std::string_view name, std::string_view text) {
  Imported out;
  out.source = std::string(name);
  out.format = "kfd-tree";
  std::map<uint64_t, KfdNode> nodes;
  KfdFile file;
  uint64_t highest = 0;
  size_t xgmi = 0;
  TextLines lines(text);
  while (lines.Next()) {
    const std::string_view line = Trimmed(lines.line());
    if (line.starts_with("=== ")) {
      file = FileOf(Trimmed(line.substr(4)));
      if (file.node.has_value()) {
        highest = std::max(highest, *file.node);
        nodes[*file.node].has_properties |= file.properties;
      }
      continue;
    }
    const std::vector<std::string_view> words = WordsOf(line);
    if (words.size() != 2 || !file.node.has_value()) {
      continue;
    }
    // Unique ids use all 64 bits: more digits than DecimalOf takes are kept by their hash.
    const std::optional<uint64_t> number = DecimalOf(words[1]);
    const uint64_t value = number.value_or(std::hash<std::string_view>{}(words[1]) | 1);
    if (file.link) {
      xgmi += words[0] == "type" && value == kXgmiLink ? 1 : 0;
      if (words[0] == "node_to") {
        highest = std::max(highest, value);
      }
    } else if (file.properties) {
      KfdNode& node = nodes[*file.node];
      if (words[0] == "simd_count") {
        node.simd_count = value;
      } else if (words[0] == "unique_id") {
        node.unique_id = value;
      } else if (words[0] == "hive_id") {
        node.hive_id = value;
      }
    }
  }
  if (nodes.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: line 1: no nodes/N/properties", name));
  }
  size_t gpus = 0;
  std::set<uint64_t> devices;
  std::set<uint64_t> hives;
  for (const auto& [id, node] : nodes) {
    if (node.simd_count > 0) {
      ++gpus;
      devices.insert(node.unique_id);
      if (node.hive_id != 0) {
        hives.insert(node.hive_id);
      }
    } else if (!node.has_properties) {
      out.Damage(0, fmt::format("node {} has no properties", id));
    }
  }
  out.summary["kfd_nodes_in_file"] = nodes.size();
  out.summary["cpu_nodes"] = nodes.size() - gpus;
  out.summary["gpu_nodes"] = gpus;
  out.summary["devices"] = devices.size();
  out.summary["hives"] = hives.size();
  out.summary["xgmi_half_links"] = xgmi;
  out.summary["highest_node_id_referenced"] = highest;
  if (highest >= nodes.size()) {
    out.Damage(0, fmt::format("the file holds {} nodes, its links name node {}: it is not whole",
                              nodes.size(), highest));
  }
  return out;
}

bool LooksLikeRocmNuma(std::string_view head) {
  return head.find("(Topology) Numa Node:") != std::string_view::npos;
}

absl::StatusOr<Imported> ImportRocmNuma(std::string_view name, std::string_view text) {
  Imported out;
  out.source = std::string(name);
  out.format = "rocm-numa";
  HostTopology host;
  nlohmann::ordered_json numa = nlohmann::ordered_json::array();
  TextLines lines(text);
  while (lines.Next()) {
    const std::string_view line = Trimmed(lines.line());
    const size_t mark = line.find("(Topology) Numa Node:");
    if (mark == std::string_view::npos || !line.starts_with("GPU[")) {
      continue;
    }
    HostGpu gpu{.label = std::string(line.substr(0, line.find(']') + 1))};
    const std::string_view value = Trimmed(line.substr(mark + 21));
    if (const auto node = DecimalOf(value); node.has_value() && *node < 4096) {
      gpu.numa = static_cast<int>(*node);
      numa.push_back(*gpu.numa);
    } else {
      numa.push_back(nullptr);
      out.Note(lines.number(), FindingKind::kNumaUnknown, gpu.label,
               fmt::format("its NUMA node is \"{}\"", Excerpt(value)));
    }
    host.gpus.push_back(std::move(gpu));
  }
  out.summary["gpus"] = host.gpus.size();
  out.summary["numa"] = std::move(numa);
  host.Resize();
  out.host = std::move(host);
  return out;
}

}  // namespace asterism::topology
