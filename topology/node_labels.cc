#include "topology/node_labels.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/strings.h"
#include "fmt/format.h"

namespace asterism::topology {
namespace {

// One way of saying where a node is, inner to outer.
struct LabelScheme {
  std::string_view source;
  std::array<std::string_view, 4> keys;  // empty: fewer levels
};

// Newer spellings before older ones of the same tool; what a tool measured before what a cloud
// says.
constexpr std::array<LabelScheme, 8> kLabelSchemes = {{
    {"topograph",
     {"network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine",
      "network.topology.nvidia.com/core", ""}},
    {"topograph",
     {"network.topology.nvidia.com/block", "network.topology.nvidia.com/spine",
      "network.topology.nvidia.com/datacenter", ""}},
    {"coreweave", {"ib.coreweave.cloud/leafgroup", "ib.coreweave.cloud/fabric", "", ""}},
    {"coreweave", {"backend.coreweave.cloud/leafgroup", "backend.coreweave.cloud/fabric", "", ""}},
    {"gcp",
     {"cloud.google.com/gce-topology-host", "cloud.google.com/gce-topology-subblock",
      "cloud.google.com/gce-topology-block", ""}},
    {"oci",
     {"oci.oraclecloud.com/rdma.local_block_id", "oci.oraclecloud.com/host.network_block_id", "",
      ""}},
    {"crusoe", {"ib.partition.id", "crusoe.ai/pod.id", "", ""}},
    {"ascend",
     {"huawei.com/topotree.serverid", "huawei.com/topotree.rackid",
      "huawei.com/topotree.superpodid", ""}},
}};

constexpr std::string_view kTopographTier = "fabric.topograph.run/tier-";
constexpr std::string_view kAwsLayer = "topology.k8s.aws/network-node-layer-";
constexpr int kTiersMax = 15;

std::optional<int64_t> WholeOf(const std::string* text) {
  if (text == nullptr || text->empty() || text->size() > 12) {
    return std::nullopt;
  }
  int64_t value = 0;
  for (const char digit : *text) {
    if (digit < '0' || digit > '9') {
      return std::nullopt;
    }
    value = value * 10 + (digit - '0');
  }
  return value;
}

class LabelReader {
 public:
  LabelReader(const Labels& labels, LabelledNode& node) : labels_(labels), node_(node) {}

  void Read() {
    ReadAccelerator();
    if (!ReadTopographTiers() && !ReadAwsLayers()) {
      ReadSchemes();
    }
    ReadDomain();
    ReadOurs();
    ReadExpectations();
  }

 private:
  const std::string* Get(std::string_view key) const {
    const auto it = std::find_if(labels_.begin(), labels_.end(),
                                 [key](const auto& each) { return each.first == key; });
    return it == labels_.end() ? nullptr : &it->second;
  }

  void Find(FindingKind kind, std::string evidence) {
    node_.findings.push_back({kind, {node_.name}, std::move(evidence)});
  }

  void ReadAccelerator() {
    if (const std::string* product = Get("nvidia.com/gpu.product"); product != nullptr) {
      node_.product = *product;
    }
    node_.gpu_count = WholeOf(Get("nvidia.com/gpu.count"));
    if (const std::string* machine = Get("nvidia.com/gpu.machine"); machine != nullptr) {
      node_.guest = machine->starts_with("Standard-PC") || *machine == "KVM" ||
                    machine->starts_with("HVM") || machine->find("Virtual") != std::string::npos ||
                    machine->starts_with("VMware") || *machine == "Google-Compute-Engine";
    }
    const std::string* strategy = Get("nvidia.com/mig.strategy");
    node_.mig_single = strategy != nullptr && *strategy == "single" &&
                       node_.product.find("-MIG-") != std::string::npos;
  }

  bool ReadTopographTiers() {
    for (int tier = 0; tier <= kTiersMax; ++tier) {
      const std::string key = fmt::format("{}{}", kTopographTier, tier);
      const std::string* value = Get(key);
      if (value == nullptr) {
        break;
      }
      node_.levels.push_back({key, *value});
    }
    node_.source = node_.levels.empty() ? "" : "topograph";
    return !node_.levels.empty();
  }

  // Layer 1 is the outermost; how many there are differs by instance type.
  bool ReadAwsLayers() {
    for (int layer = 1; layer <= kTiersMax; ++layer) {
      const std::string key = fmt::format("{}{}", kAwsLayer, layer);
      const std::string* value = Get(key);
      if (value == nullptr) {
        break;
      }
      node_.levels.insert(node_.levels.begin(), {key, *value});
    }
    node_.source = node_.levels.empty() ? "" : "aws";
    return !node_.levels.empty();
  }

  void ReadSchemes() {
    for (const LabelScheme& scheme : kLabelSchemes) {
      std::vector<LabelLevel> levels;
      bool any = false;
      for (const std::string_view key : scheme.keys) {
        if (!key.empty()) {
          const std::string* value = Get(key);
          any = any || (value != nullptr && !value->empty());
          levels.push_back({std::string(key), value == nullptr ? "" : *value});
        }
      }
      if (any && (node_.levels.empty() || Known(levels) > Known(node_.levels))) {
        if (node_.levels.empty() || node_.source == scheme.source) {
          node_.levels = std::move(levels);
          node_.source = scheme.source;
        }
      }
    }
    while (!node_.levels.empty() && node_.levels.back().value.empty()) {
      node_.levels.pop_back();
    }
  }

  static size_t Known(const std::vector<LabelLevel>& levels) {
    return static_cast<size_t>(std::count_if(
        levels.begin(), levels.end(), [](const LabelLevel& each) { return !each.value.empty(); }));
  }

  void ReadDomain() {
    if (const std::string* clique = Get("nvidia.com/gpu.clique"); clique != nullptr) {
      node_.clique = *clique;
      if (IsZeroClique(*clique)) {
        Find(FindingKind::kCliqueZeroUuid, fmt::format("nvidia.com/gpu.clique is \"{}\"", *clique));
      } else if (clique->find('.') != std::string::npos) {
        node_.nvlink_domain = *clique;
        std::transform(
            node_.nvlink_domain.begin(), node_.nvlink_domain.end(), node_.nvlink_domain.begin(),
            [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
      }
      return;
    }
    for (const std::string_view key :
         {"accelerator.topograph.run/domain", "network.topology.nvidia.com/accelerator"}) {
      if (const std::string* domain = Get(key); domain != nullptr && !domain->empty()) {
        node_.nvlink_domain = *domain;
        return;
      }
    }
  }

  void ReadOurs() {
    for (const auto& [key, value] : labels_) {
      if (value.empty()) {
        continue;
      }
      if (key.starts_with(kDeclaredPrefix)) {
        node_.declared.push_back({key, value});
      } else if (key.starts_with(kDomainLabelPrefix)) {
        node_.former.push_back({key, value});
      }
    }
  }

  void ReadExpectations() {
    const std::optional<int64_t> current = WholeOf(Get("ib.coreweave.cloud/leaves.current"));
    const std::optional<int64_t> expected = WholeOf(Get("ib.coreweave.cloud/leaves.expected"));
    if (current.has_value() && expected.has_value() && *current < *expected) {
      Find(FindingKind::kMissingPort,
           fmt::format("{} of {} expected leafs (labels ib.coreweave.cloud/leaves.*)", *current,
                       *expected));
    }
    const NodeResources& resources = node_.resources;
    if (resources.gpu_allocatable < resources.gpu_capacity) {
      Find(FindingKind::kCapacityAllocatableGap,
           fmt::format("{} of {} GPUs can be allocated", resources.gpu_allocatable,
                       resources.gpu_capacity));
    }
    if (node_.guest) {
      Find(FindingKind::kGuestTree,
           fmt::format("label nvidia.com/gpu.machine is \"{}\"", *Get("nvidia.com/gpu.machine")));
    }
  }

  const Labels& labels_;
  LabelledNode& node_;
};

}  // namespace

int64_t LabelledNode::WholeGpus() const {
  return mig_single ? 0 : resources.gpu_allocatable;
}

LabelledNode ReadNodeLabels(std::string_view name, const Labels& labels,
                            const NodeResources& resources) {
  LabelledNode node;
  node.name = std::string(name);
  node.resources = resources;
  LabelReader(labels, node).Read();
  return node;
}

bool IsZeroClique(std::string_view clique) {
  const std::string_view uuid = clique.substr(0, clique.find('.'));
  return !uuid.empty() && uuid.find_first_not_of("0-") == std::string_view::npos &&
         uuid.find('0') != std::string_view::npos;
}

}  // namespace asterism::topology
