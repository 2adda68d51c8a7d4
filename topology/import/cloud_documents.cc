#include "topology/import/cloud_documents.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "topology/import/text_lines.h"

namespace asterism::topology {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kOciLevels = {  // outer to inner
    "customerHPCIslandId", "customerNetworkBlock", "customerLocalBlock", "customerGpuMemoryFabric"};
constexpr std::array<std::string_view, 4> kOciHostLevels = {"hpcIslandId", "networkBlockId",
                                                            "localBlockId", "gpuMemoryFabricId"};
constexpr std::array<std::string_view, 4> kGcpLevels = {"cluster", "block", "subblock", "host"};

class CloudReader {
 public:
  CloudReader(std::string_view name, const DocumentNode& root) : root_(root) {
    out_.source = std::string(name);
  }

  absl::StatusOr<std::optional<Imported>> Read() {
    if (root_.is_map()) {
      ReadMap();
    } else if (root_.is_list() && !root_.items.empty()) {
      ReadList();
    }
    if (out_.format.empty()) {
      return std::optional<Imported>();
    }
    return std::optional<Imported>(std::move(out_));
  }

 private:
  void ReadMap() {
    if (root_.Find("Instances") != nullptr) {
      ReadAws();
    } else if (!root_.Items("data").empty() &&
               root_.Items("data")[0].Find("networkPath") != nullptr) {
      ReadLambda();
    } else if (root_.Find("server_list") != nullptr) {
      ReadAscendTors();
    } else if (root_.Find("lldp") != nullptr) {
      ReadLldp();
    } else if (LooksLikeOciMetadata()) {
      ReadOciMetadata();
    } else if (HasItems("items", "physicalHostTopology") || HasItems("items", "resourceStatus")) {
      ReadGcp(root_.Items("items"));
    } else if (HasItems("items", "localBlockId") || HasItems("data", "localBlockId")) {
      ReadOciHosts(root_.Find("items") != nullptr ? root_.Items("items") : root_.Items("data"));
    }
  }

  bool HasItems(std::string_view list, std::string_view key) const {
    const auto& items = root_.Items(list);
    return std::any_of(items.begin(), items.end(),
                       [key](const DocumentNode& item) { return item.Find(key) != nullptr; });
  }

  void ReadList() {
    const DocumentNode& first = root_.items[0];
    if (first.Find("peer_node_name") != nullptr || first.Find("system_name") != nullptr) {
      ReadUfm();
    } else if (first.Find("links") != nullptr) {
      ReadNetqGraph();
    } else if (first.Find("DomainUUID") != nullptr) {
      ReadNetqNodes();
    } else if (first.Find("resourceStatus") != nullptr ||
               first.Find("physicalHostTopology") != nullptr) {
      ReadGcp(root_.items);
    } else if (first.Find("localBlockId") != nullptr) {
      ReadOciHosts(root_.items);
    }
  }

  // The path outer to inner becomes levels inner to outer.
  LabelledNode& AddNode(std::string_view name, std::string_view source,
                        const std::vector<std::string>& outer_to_inner, std::string_view key) {
    LabelledNode& node = out_.nodes.emplace_back();
    node.name = std::string(name);
    node.source = source;
    for (size_t i = outer_to_inner.size(); i-- > 0;) {
      node.levels.push_back({fmt::format("{}-{}", key, i + 1), outer_to_inner[i]});
    }
    return node;
  }

  // How many different values each level has, outer to inner; and values with two parents.
  void SummarisePaths(const std::vector<std::vector<std::string>>& paths) {
    std::vector<std::set<std::string>> values;
    std::map<std::string, std::set<std::string>> parents;
    for (const std::vector<std::string>& path : paths) {
      values.resize(std::max(values.size(), path.size()));
      for (size_t i = 0; i < path.size(); ++i) {
        if (path[i].empty()) {
          continue;  // not known
        }
        values[i].insert(path[i]);
        if (i > 0 && !path[i - 1].empty()) {
          parents[path[i]].insert(path[i - 1]);
        }
      }
    }
    std::vector<size_t> counts;
    for (const std::set<std::string>& each : values) {
      counts.push_back(each.size());
    }
    out_.summary["distinct_nodes_per_level_outer_to_inner"] = counts;
    for (const auto& [child, above] : parents) {
      if (above.size() > 1) {
        out_.Note(0, FindingKind::kConflict, child,
                  fmt::format("{} has {} parents, {}", child, above.size() == 2 ? "two" : "several",
                              fmt::join(above, " and ")));
      }
    }
  }

  void ReadAws() {
    out_.format = "aws-instance-topology";
    std::set<std::string> blocks;
    std::vector<std::vector<std::string>> paths;
    for (const DocumentNode& instance : root_.Items("Instances")) {
      std::vector<std::string> path;
      for (const DocumentNode& node : instance.Items("NetworkNodes")) {
        path.push_back(node.text);
      }
      const std::string_view id = instance.Text("InstanceId");
      if (id.empty() || path.empty()) {
        out_.Damage(instance.line, "an instance without InstanceId or NetworkNodes");
        continue;
      }
      AddNode(id, "aws", path, "network-node-layer");
      if (const std::string_view block = instance.Text("CapacityBlockId"); !block.empty()) {
        blocks.emplace(block);
      }
      paths.push_back(std::move(path));
    }
    out_.summary["instances"] = paths.size();
    out_.summary["capacity_blocks"] = blocks.size();
    out_.summary["order"] = "outer_to_inner";
    SummarisePaths(paths);
  }

  void ReadLambda() {
    out_.format = "lambda-instance-topology";
    std::vector<std::vector<std::string>> paths;
    std::set<std::string> domains;
    for (const DocumentNode& instance : root_.Items("data")) {
      std::vector<std::string> path;
      for (const DocumentNode& node : instance.Items("networkPath")) {
        path.emplace_back(node.is_map() ? node.Text("id") : std::string_view(node.text));
      }
      std::reverse(path.begin(), path.end());
      LabelledNode& node = AddNode(instance.Text("id"), "lambda", path, "layer");
      if (const DocumentNode* nvlink = instance.Find("nvlink");
          nvlink != nullptr && nvlink->is_map()) {
        const auto either = [nvlink](std::string_view first, std::string_view second) {
          return nvlink->Find(first) != nullptr ? nvlink->Text(first) : nvlink->Text(second);
        };
        const std::string_view domain = either("DomainID", "domainId");
        const std::string_view clique = either("CliqueID", "cliqueId");
        if (!domain.empty()) {
          node.nvlink_domain =
              clique.empty() ? std::string(domain) : fmt::format("{}.{}", domain, clique);
          domains.insert(node.nvlink_domain);
        }
      }
      paths.push_back(std::move(path));
    }
    out_.summary["instances"] = paths.size();
    out_.summary["nvlink_domains"] = domains.size();
    out_.summary["order"] = "inner_to_outer";
    SummarisePaths(paths);
  }

  bool LooksLikeOciMetadata() const {
    const auto has_key = [](const DocumentNode& node) {
      return std::any_of(kOciLevels.begin(), kOciLevels.end(),
                         [&node](std::string_view key) { return node.Find(key) != nullptr; });
    };
    return has_key(root_) ||
           std::any_of(root_.fields.begin(), root_.fields.end(),
                       [&](const DocumentField& field) { return has_key(field.value); });
  }

  // One node's answer, or several as `node: {...}`.
  void ReadOciMetadata() {
    out_.format = "oci-imds";
    size_t nodes = 0;
    size_t complete = 0;
    size_t without_fabric = 0;
    std::vector<std::string> malformed;
    const auto take = [&](std::string_view name, const DocumentNode& value) {
      ++nodes;
      std::vector<std::string> path;
      std::string why;
      for (const std::string_view key : kOciLevels) {
        const DocumentNode* found = value.Find(key);
        const bool text = found != nullptr && found->kind == DocumentNode::Kind::kText;
        if (found != nullptr && !text && found->kind != DocumentNode::Kind::kNull) {
          why =
              fmt::format("{} of {} is {}, not a string", key, name,
                          found->kind == DocumentNode::Kind::kNumber ? "a number" : "a structure");
        }
        path.push_back(text ? found->text : "");
      }
      without_fabric += path.back().empty() ? 1 : 0;
      if (!why.empty()) {
        malformed.emplace_back(name);
        out_.Damage(value.line, why);
        return;
      }
      complete += std::none_of(path.begin(), path.end(),
                               [](const std::string& each) { return each.empty(); })
                      ? 1
                      : 0;
      AddNode(name, "oci", path, "oci-level");
    };
    if (root_.Find(kOciLevels[1]) != nullptr) {
      take(out_.source, root_);
    } else {
      for (const DocumentField& field : root_.fields) {
        take(field.key, field.value);
      }
    }
    out_.summary["nodes"] = nodes;
    out_.summary["complete"] = complete;
    out_.summary["malformed"] = malformed;
    out_.summary["without_memory_fabric"] = without_fabric;
    out_.summary["levels_outer_to_inner"] = kOciLevels;
  }

  void ReadOciHosts(const std::vector<DocumentNode>& hosts) {
    out_.format = "oci-compute-hosts";
    std::vector<std::vector<std::string>> paths;
    for (const DocumentNode& host : hosts) {
      std::vector<std::string> path;
      for (const std::string_view key : kOciHostLevels) {
        path.emplace_back(host.Text(key));
      }
      const std::string_view id =
          host.Find("instanceId") != nullptr ? host.Text("instanceId") : host.Text("id");
      AddNode(id, "oci", path, "oci-level");
      paths.push_back(std::move(path));
    }
    out_.summary["instances"] = paths.size();
    out_.summary["order"] = "outer_to_inner";
    SummarisePaths(paths);
  }

  void ReadGcp(const std::vector<DocumentNode>& instances) {
    out_.format = "gcp-instances";
    std::vector<std::vector<std::string>> paths;
    size_t unset = 0;
    for (const DocumentNode& instance : instances) {
      const DocumentNode* status = instance.Find("resourceStatus");
      const DocumentNode* place =
          (status == nullptr ? &instance : status)->Find("physicalHostTopology");
      if (place == nullptr) {
        ++unset;
        continue;
      }
      std::vector<std::string> path;
      for (const std::string_view key : kGcpLevels) {
        path.emplace_back(place->Text(key));
      }
      AddNode(instance.Text("name"), "gcp", path, "gcp-level");
      paths.push_back(std::move(path));
    }
    out_.summary["instances"] = paths.size();
    out_.summary["without_topology"] = unset;
    out_.summary["order"] = "outer_to_inner";
    SummarisePaths(paths);
  }

  void ReadUfm() {
    out_.format = "ufm-ports";
    Fabric fabric;
    size_t ports = 0;
    std::map<std::string, uint16_t, std::less<>> next_port;
    for (const DocumentNode& port : root_.items) {
      ++ports;
      const std::string_view system = port.Text("system_name");
      const std::string_view peer = port.Text("peer_node_name");
      if (system.empty()) {
        out_.Damage(port.line, "a port without system_name");
        continue;
      }
      const std::string_view description = port.Text("node_description");
      const bool host = port.Text("description").find("Computer") != std::string_view::npos ||
                        SplitDescription(description).device.size() > 1;
      // One adapter a port: the description names its device.
      const std::string key =
          host ? fmt::format("{} {}", system, SplitDescription(description).device)
               : std::string(system);
      const uint32_t device =
          fabric.DeviceNamed(key, host ? DeviceKind::kAdapter : DeviceKind::kSwitch);
      fabric.devices[device].line = static_cast<uint32_t>(ports);
      if (peer.empty() || peer == "N/A") {
        continue;
      }
      const uint32_t target =
          fabric.DeviceNamed(peer, host ? DeviceKind::kSwitch : DeviceKind::kUnknown);
      HalfLink half{.device = device, .peer = target};
      half.port = host ? 1 : Next(next_port, system);
      half.peer_port = Next(next_port, peer);
      fabric.half_links.push_back(half);
    }
    for (FabricDevice& device : fabric.devices) {
      device.kind = device.kind == DeviceKind::kUnknown ? DeviceKind::kSwitch : device.kind;
    }
    out_.summary["ports"] = ports;
    out_.fabric = std::move(fabric);
  }

  static uint16_t Next(std::map<std::string, uint16_t, std::less<>>& ports, std::string_view name) {
    auto it = ports.find(name);
    if (it == ports.end()) {
      it = ports.emplace(std::string(name), 0).first;
    }
    it->second = static_cast<uint16_t>(it->second + 1);
    return std::min<uint16_t>(it->second, kPortMax - 1);
  }

  void ReadNetqGraph() {
    out_.format = "netq-graph";
    size_t links = 0;
    size_t cables = 0;
    std::set<std::string> switches;
    std::set<std::string> hosts;
    for (const DocumentNode& graph : root_.items) {
      for (const DocumentNode& link : graph.Items("links")) {
        ++links;
        for (const DocumentNode& cable : link.Items("compounded_links")) {
          ++cables;
          for (const DocumentNode& end : cable.Items("interfaces")) {
            const std::string_view port = end.Text("interface");
            (port.starts_with("swp") ? switches : hosts).emplace(end.Text("node"));
          }
        }
      }
      // Nodes are listed below the sites that hold them.
      for (const DocumentNode& site : graph.Items("nodes")) {
        for (const DocumentNode& node : site.Items("compounded_nodes")) {
          const std::string_view type = node.Text("device_type");
          if (type == "switch" || type == "host") {
            (type == "switch" ? switches : hosts).emplace(node.Text("id"));
          }
        }
      }
    }
    for (const std::string& each : switches) {
      hosts.erase(each);
    }
    out_.summary["links"] = links;
    out_.summary["cables"] = cables;
    out_.summary["switches"] = switches.size();
    out_.summary["hosts"] = hosts.size();
  }

  void ReadNetqNodes() {
    out_.format = "netq-compute-nodes";
    size_t gpus = 0;
    std::set<std::string> domains;
    std::vector<int64_t> slots;
    std::vector<int64_t> trays;
    for (const DocumentNode& item : root_.items) {
      gpus += item.Items("GpuIDList").size();
      domains.emplace(item.Text("DomainUUID"));
      if (const DocumentNode* place = item.Find("LocationInfo"); place != nullptr) {
        slots.push_back(static_cast<int64_t>(DecimalOf(place->Text("SlotID")).value_or(0)));
        trays.push_back(static_cast<int64_t>(DecimalOf(place->Text("TrayIndex")).value_or(0)));
      }
      LabelledNode& node = out_.nodes.emplace_back();
      node.name = std::string(item.Text("Name"));
      node.source = "netq";
      // A UUID of NetQ's own: never compared with a clique.
      node.nvlink_domain = fmt::format("netq:{}", item.Text("DomainUUID"));
      if (const std::string_view health = item.Text("Health");
          !health.empty() && health != "HEALTHY") {
        out_.Note(0, FindingKind::kFabricUnhealthy, node.name,
                  fmt::format("Health is {}", Excerpt(health)));
      }
    }
    out_.summary["compute_nodes"] = root_.items.size();
    out_.summary["gpus"] = gpus;
    out_.summary["nvlink_domains"] = domains.size();
    out_.summary["slots"] = slots;
    out_.summary["trays"] = trays;
  }

  void ReadAscendTors() {
    out_.format = "ascend-tor-node";
    int64_t npus = 0;
    size_t servers = 0;
    size_t shared = 0;
    const auto& tors = root_.Items("server_list");
    for (const DocumentNode& tor : tors) {
      shared += tor.Text("IsSharedTor") == "1" ? 1 : 0;
      for (const DocumentNode& server : tor.Items("server")) {
        ++servers;
        const auto count = static_cast<int64_t>(DecimalOf(server.Text("npu_count")).value_or(0));
        npus += count;
        LabelledNode& node = out_.nodes.emplace_back();
        node.name = std::string(server.Text("server_ip"));
        node.source = "ascend";
        node.gpu_count = count;
        node.levels.push_back({"tor", std::string(tor.Text("tor_id"))});
      }
    }
    out_.summary["tors"] = tors.size();
    out_.summary["servers"] = servers;
    out_.summary["npus"] = npus;
    out_.summary["shared_tors"] = shared;
  }

  // ------------------------------------------------ lldpd
  // json0: lists everywhere, values in `value`; json: maps keyed by name.
  static std::string_view ValueOf(const DocumentNode* node) {
    if (node == nullptr) {
      return {};
    }
    if (node->is_list()) {
      return node->items.empty() ? std::string_view() : ValueOf(&node->items[0]);
    }
    return node->is_map() ? node->Text("value") : std::string_view(node->text);
  }

  static const DocumentNode* FirstOf(const DocumentNode* node) {
    return node != nullptr && node->is_list() && !node->items.empty() ? &node->items[0] : node;
  }

  void ReadLldp() {
    out_.format = "lldp";
    Fabric fabric;
    const DocumentNode* lldp = FirstOf(root_.Find("lldp"));
    const DocumentNode* interfaces = lldp == nullptr ? nullptr : lldp->Find("interface");
    size_t seen = 0;
    if (interfaces != nullptr && interfaces->is_list()) {
      for (const DocumentNode& each : interfaces->items) {
        if (each.Find("chassis") != nullptr) {
          seen += TakeNeighbour(fabric, each.Text("name"), each) ? 1 : 0;
        } else {
          for (const DocumentField& field : each.fields) {
            seen += TakeNeighbour(fabric, field.key, field.value) ? 1 : 0;
          }
        }
      }
    } else if (interfaces != nullptr) {
      for (const DocumentField& field : interfaces->fields) {
        seen += TakeNeighbour(fabric, field.key, field.value) ? 1 : 0;
      }
    }
    if (seen == 0) {
      out_.Damage(0, "no neighbour: the attachment is unknown, not absent");
    }
    out_.summary["interfaces"] = seen;
    out_.fabric = std::move(fabric);
  }

  bool TakeNeighbour(Fabric& fabric, std::string_view interface, const DocumentNode& entry) {
    const DocumentNode* chassis = FirstOf(entry.Find("chassis"));
    const DocumentNode* port = FirstOf(entry.Find("port"));
    if (chassis == nullptr) {
      return false;
    }
    std::string_view name = ValueOf(chassis->Find("name"));
    std::string_view id = ValueOf(chassis->Find("id"));
    if (id.empty() && name.empty() && chassis->fields.size() == 1 &&
        chassis->fields[0].value.is_map()) {
      name = chassis->fields[0].key;
      id = ValueOf(chassis->fields[0].value.Find("id"));
    }
    const std::string_view port_id =
        port == nullptr ? std::string_view() : ValueOf(port->Find("id"));
    if (id.empty() && name.empty()) {
      out_.Damage(entry.line,
                  fmt::format("the neighbour of {} has no chassis id", Excerpt(interface)));
      return false;
    }
    const uint32_t target = fabric.DeviceNamed(id.empty() ? name : id, DeviceKind::kSwitch);
    if (!name.empty()) {
      fabric.devices[target].name = std::string(name);
    }
    const uint32_t device =
        fabric.DeviceNamed(fmt::format("{} {}", out_.source, interface), DeviceKind::kAdapter);
    size_t digits = port_id.size();
    while (digits > 0 && IsDigitChar(port_id[digits - 1])) {
      --digits;
    }
    const uint64_t number = DecimalOf(port_id.substr(digits)).value_or(0);
    fabric.half_links.push_back(
        {.device = device,
         .peer = target,
         .port = 1,
         .peer_port = static_cast<uint16_t>(std::min<uint64_t>(number, kPortMax - 1))});
    return true;
  }

  const DocumentNode& root_;
  Imported out_;
};

}  // namespace

absl::StatusOr<std::optional<Imported>> ImportCloud(std::string_view name,
                                                    const std::vector<DocumentNode>& documents) {
  if (documents.size() != 1) {
    return std::optional<Imported>();
  }
  return CloudReader(name, documents[0]).Read();
}

}  // namespace asterism::topology
