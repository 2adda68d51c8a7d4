#include "topology/fabric_hosts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "base/strings.h"

namespace asterism::topology {
namespace {

constexpr size_t kPortsOfUsualHost = 8;

// Names that installers give; many machines share them.
constexpr std::array<std::string_view, 8> kDefaultNames = {
    "localhost", "ubuntu", "debian", "centos", "rocky", "linux", "host", "(none)"};

bool IsDigitOf(char letter) {
  return letter >= '0' && letter <= '9';
}

bool LooksLikeDevice(std::string_view word) {
  for (const std::string_view start :
       {"mlx", "HCA-", "hfi", "ib", "roce", "bnxt", "efa", "irdma", "eth", "en"}) {
    if (word.starts_with(start) && word.size() > start.size()) {
      return true;
    }
  }
  return false;
}

// Digits fold to one: "a05-c17" and "a5-c3" are formed alike.
std::string NameForm(std::string_view name) {
  std::string form;
  for (const char letter : name) {
    if (!IsDigitOf(letter)) {
      form.push_back(letter);
    } else if (form.empty() || form.back() != '0') {
      form.push_back('0');
    }
  }
  return form;
}

struct DeviceNumber {
  std::string_view scheme;  // "mlx5_"
  uint32_t number;
};

std::optional<DeviceNumber> NumberOf(std::string_view device) {
  size_t begin = device.size();
  while (begin > 0 && IsDigitOf(device[begin - 1])) {
    --begin;
  }
  if (begin == device.size() || device.size() - begin > 6) {
    return std::nullopt;
  }
  uint32_t number = 0;
  for (const char digit : device.substr(begin)) {
    number = number * 10 + static_cast<uint32_t>(digit - '0');
  }
  return DeviceNumber{device.substr(0, begin), number};
}

class HostFinder {
 public:
  HostFinder(const Fabric& fabric, const PortTable& ports, const GuidOwners& owners,
             FabricAnalysis& analysis)
      : fabric_(fabric), ports_(ports), owners_(owners), out_(analysis) {}

  void Find() {
    CountDevices();
    SplitDescriptions();
    NameHosts();
    AddPorts();
    MarkComputePorts();
    FindLeafs();
    AddSlowPortsOfLeafs();
    CompareNames();
    AddLoneLeafs();
    GiveRoles();
    NumberRails();
  }

 private:
  void CountDevices() {
    for (const FabricDevice& device : fabric_.devices) {
      out_.switch_count += device.kind == DeviceKind::kSwitch ? 1 : 0;
      if (device.kind == DeviceKind::kAdapter) {
        out_.adapter_count += device.line != 0 ? 1 : 0;
        out_.aggregation_count += IsAggregationService(device) ? 1 : 0;
      }
    }
  }

  void SplitDescriptions() {
    descriptions_.resize(fabric_.devices.size());
    for (size_t device = 0; device < fabric_.devices.size(); ++device) {
      if (fabric_.devices[device].kind == DeviceKind::kAdapter) {
        descriptions_[device] = SplitDescription(fabric_.devices[device].name);
      }
    }
  }

  // Names found by the GUID of the adapter or of one of its ports win over descriptions.
  void NameHosts() {
    host_of_.assign(fabric_.devices.size(), kNoDevice);
    std::vector<const std::string*> owner(fabric_.devices.size(), nullptr);
    if (!owners_.empty()) {
      FindOwners(owner);
    }
    base::StringMap<uint32_t> by_name;
    uint32_t last = kNoDevice;
    for (uint32_t device = 0; device < fabric_.devices.size(); ++device) {
      const FabricDevice& adapter = fabric_.devices[device];
      if (adapter.kind != DeviceKind::kAdapter || IsAggregationService(adapter)) {
        continue;
      }
      std::string_view name =
          owner[device] != nullptr ? std::string_view(*owner[device]) : descriptions_[device].host;
      if (name.empty()) {
        out_.nameless.push_back(device);
        continue;
      }
      // The adapters of a host often stand together.
      if (last != kNoDevice && out_.hosts[last].name == name) {
        host_of_[device] = last;
        continue;
      }
      auto it = by_name.find(name);
      if (it == by_name.end()) {
        it = by_name.emplace(std::string(name), static_cast<uint32_t>(out_.hosts.size())).first;
        out_.hosts.push_back({.name = std::string(name)});
        out_.hosts.back().ports.reserve(kPortsOfUsualHost);
        out_.hosts.back().default_name =
            std::find(kDefaultNames.begin(), kDefaultNames.end(), name) != kDefaultNames.end();
      }
      host_of_[device] = last = it->second;
    }
  }

  void FindOwners(std::vector<const std::string*>& owner) const {
    const auto look = [&](uint32_t device, uint64_t guid) {
      if (const auto it = owners_.find(guid); it != owners_.end() && owner[device] == nullptr) {
        owner[device] = &it->second;
      }
    };
    size_t unowned = 0;
    for (uint32_t device = 0; device < fabric_.devices.size(); ++device) {
      if (fabric_.devices[device].kind == DeviceKind::kAdapter) {
        look(device, fabric_.devices[device].guid);
        unowned += owner[device] == nullptr ? 1 : 0;
      }
    }
    if (unowned == 0) {
      return;
    }
    for (const HalfLink& half : fabric_.half_links) {
      if (half.adapter_port_guid != 0) {
        const bool own = fabric_.devices[half.device].kind == DeviceKind::kAdapter;
        const uint32_t adapter = own ? half.device : half.peer;
        if (owner[adapter] == nullptr) {
          look(adapter, half.adapter_port_guid);
        }
      }
    }
  }

  void AddPort(uint32_t adapter, uint16_t port, uint32_t target, uint16_t target_port,
               const HalfLink& half) {
    if (host_of_[adapter] != kNoDevice && fabric_.devices[target].kind == DeviceKind::kSwitch) {
      out_.hosts[host_of_[adapter]].ports.push_back({.adapter = adapter,
                                                     .switch_device = target,
                                                     .port = port,
                                                     .switch_port = target_port,
                                                     .gbps = half.gbps()});
    }
  }

  void AddPorts() {
    std::vector<bool> linked(fabric_.devices.size(), false);
    for (uint32_t i = 0; i < fabric_.half_links.size(); ++i) {
      const HalfLink& half = fabric_.half_links[i];
      if (fabric_.devices[half.device].kind == DeviceKind::kAdapter) {
        AddPort(half.device, half.port, half.peer, half.peer_port, half);
        linked[half.device] = true;
      } else if (fabric_.devices[half.peer].kind == DeviceKind::kAdapter &&
                 ports_.Reverse(fabric_, i) == kNoHalfLink) {
        AddPort(half.peer, half.peer_port, half.device, half.port, half);
        linked[half.peer] = true;
      }
    }
    for (uint32_t device = 0; device < fabric_.devices.size(); ++device) {
      if (host_of_[device] != kNoDevice && !linked[device]) {
        out_.hosts[host_of_[device]].ports.push_back({.adapter = device});
      }
    }
    for (FabricHost& host : out_.hosts) {
      const auto by_adapter = [](const HostPort& left, const HostPort& right) {
        return std::tie(left.adapter, left.port) < std::tie(right.adapter, right.port);
      };
      if (!std::is_sorted(host.ports.begin(), host.ports.end(), by_adapter)) {
        std::sort(host.ports.begin(), host.ports.end(), by_adapter);
      }
    }
  }

  void MarkComputePorts() {
    std::vector<uint32_t> rates;
    for (const FabricHost& host : out_.hosts) {
      for (const HostPort& port : host.ports) {
        if (port.switch_device != kNoDevice && port.gbps > 0) {
          rates.push_back(port.gbps);
        }
      }
    }
    out_.modal_gbps = ModeOf(rates);
    std::vector<uint32_t> counts;
    for (FabricHost& host : out_.hosts) {
      for (HostPort& port : host.ports) {
        port.compute =
            port.switch_device != kNoDevice && (port.gbps == 0 || port.gbps == out_.modal_gbps);
        host.compute_ports += port.compute ? 1 : 0;
      }
      if (host.compute_ports > 0) {
        counts.push_back(host.compute_ports);
      }
    }
    out_.modal_compute_ports = ModeOf(counts);
  }

  bool IsStrong(const FabricHost& host) const {
    return host.compute_ports > 0 && 2 * host.compute_ports > out_.modal_compute_ports;
  }

  // A switch with compute ports of two strong hosts, and of a tenth of what is usual.
  void FindLeafs() {
    std::vector<uint32_t> strong_hosts(fabric_.devices.size(), 0);
    std::vector<uint32_t> last_host(fabric_.devices.size(), kNoDevice);
    for (uint32_t host = 0; host < out_.hosts.size(); ++host) {
      if (!IsStrong(out_.hosts[host])) {
        continue;
      }
      for (const HostPort& port : out_.hosts[host].ports) {
        if (port.compute && last_host[port.switch_device] != host) {
          last_host[port.switch_device] = host;
          ++strong_hosts[port.switch_device];
        }
      }
    }
    std::vector<uint32_t> counts;
    for (const uint32_t count : strong_hosts) {
      if (count > 0) {
        counts.push_back(count);
      }
    }
    const uint32_t least = std::max(2U, (ModeOf(counts) + 9) / 10);
    leaf_of_.assign(fabric_.devices.size(), kNoDevice);
    for (uint32_t device = 0; device < fabric_.devices.size(); ++device) {
      if (strong_hosts[device] >= least) {
        leaf_of_[device] = static_cast<uint32_t>(out_.leafs.size());
        out_.leafs.push_back({.device = device});
      }
    }
  }

  // A port that trained low on a compute leaf is a slow compute port; elsewhere it is storage.
  void AddSlowPortsOfLeafs() {
    for (FabricHost& host : out_.hosts) {
      if (!IsStrong(host)) {
        continue;
      }
      for (HostPort& port : host.ports) {
        if (!port.compute && port.switch_device != kNoDevice &&
            leaf_of_[port.switch_device] != kNoDevice) {
          port.compute = true;
          ++host.compute_ports;
        }
      }
    }
  }

  void CompareNames() {
    const std::vector<std::string> usual = UsualForms();
    for (FabricHost& host : out_.hosts) {
      host.foreign_name =
          !usual.empty() && !std::binary_search(usual.begin(), usual.end(), NameForm(host.name));
    }
  }

  size_t PortsOnLeafs(const FabricHost& host) const {
    return static_cast<size_t>(
        std::count_if(host.ports.begin(), host.ports.end(), [this](const HostPort& port) {
          return port.switch_device != kNoDevice && leaf_of_[port.switch_device] != kNoDevice;
        }));
  }

  // The only host of its switch is a host all the same when it is named like the others.
  void AddLoneLeafs() {
    if (out_.leafs.empty()) {
      return;
    }
    for (const FabricHost& host : out_.hosts) {
      if (!IsStrong(host) || host.foreign_name || host.default_name || PortsOnLeafs(host) > 0) {
        continue;
      }
      for (const HostPort& port : host.ports) {
        if (port.compute && leaf_of_[port.switch_device] == kNoDevice) {
          leaf_of_[port.switch_device] = static_cast<uint32_t>(out_.leafs.size());
          out_.leafs.push_back({.device = port.switch_device});
        }
      }
    }
  }

  void GiveRoles() {
    for (FabricHost& host : out_.hosts) {
      size_t attached = 0;
      const size_t on_leafs = PortsOnLeafs(host);
      for (const HostPort& port : host.ports) {
        attached += port.switch_device != kNoDevice ? 1 : 0;
      }
      const bool astray = on_leafs == 0 && host.foreign_name && !out_.leafs.empty();
      if (IsStrong(host) && !astray) {
        host.role = HostRole::kGpu;
      } else if (attached == 0) {
        host.role = HostRole::kUnattached;
      } else if (on_leafs < attached) {
        host.role = host.compute_ports > 0 ? HostRole::kManagement : HostRole::kUnattached;
      } else if (host.compute_ports == 0 || host.foreign_name || host.default_name) {
        host.role = HostRole::kNonCompute;
      } else {
        host.role = HostRole::kDegraded;
      }
      // A name like no other with another number of ports: a gateway, a server nobody named.
      if (host.role == HostRole::kGpu && host.compute_ports < out_.modal_compute_ports &&
          (host.default_name || host.foreign_name)) {
        host.role = HostRole::kNonCompute;
      }
    }
  }

  // The forms that a twentieth of the strong hosts share (halls and rows differ in letters); none
  // when most names are formed like no other.
  std::vector<std::string> UsualForms() const {
    base::StringMap<size_t> counts;
    size_t strong = 0;
    for (const FabricHost& host : out_.hosts) {
      if (IsStrong(host)) {
        ++strong;
        ++counts[NameForm(host.name)];
      }
    }
    const size_t least = std::max<size_t>(2, (strong + 19) / 20);
    std::vector<std::string> usual;
    size_t covered = 0;
    for (const auto& [form, count] : counts) {
      if (count >= least) {
        usual.push_back(form);
        covered += count;
      }
    }
    std::sort(usual.begin(), usual.end());
    return 2 * covered > strong ? usual : std::vector<std::string>();
  }

  // Which rail a port of a host is: the place of the device's number among the numbers that devices
  // of this naming have. Where names do not tell, the place among the host's own adapters.
  void NumberRails() {
    std::vector<uint32_t> adapters;
    for (const FabricHost& host : out_.hosts) {
      if (host.role == HostRole::kGpu) {
        adapters.push_back(CountComputeAdapters(host));
      }
    }
    out_.rail_count = ModeOf(adapters);
    const base::StringMap<std::vector<uint32_t>> numbers = UsualNumbers();
    for (FabricHost& host : out_.hosts) {
      if (host.role != HostRole::kManagement && !NumberByName(host, numbers)) {
        NumberByOrder(host);
      }
      NumberPlanes(host);
    }
  }

  static uint32_t CountComputeAdapters(const FabricHost& host) {
    uint32_t count = 0;
    uint32_t last = kNoDevice;
    for (const HostPort& port : host.ports) {
      if (port.compute && port.adapter != last) {
        ++count;
        last = port.adapter;
      }
    }
    return count;
  }

  std::string_view DeviceOf(const HostPort& port) const {
    return descriptions_[port.adapter].device;
  }

  base::StringMap<std::vector<uint32_t>> UsualNumbers() const {
    base::StringMap<absl::flat_hash_map<uint32_t, uint32_t>> seen;
    for (const FabricHost& host : out_.hosts) {
      if (host.role != HostRole::kGpu) {
        continue;
      }
      uint32_t last = kNoDevice;
      for (const HostPort& port : host.ports) {
        const std::optional<DeviceNumber> number = NumberOf(DeviceOf(port));
        if (port.compute && number.has_value() && port.adapter != last) {
          auto it = seen.find(number->scheme);
          if (it == seen.end()) {
            it = seen.emplace(std::string(number->scheme), decltype(seen)::mapped_type()).first;
          }
          ++it->second[number->number];
          last = port.adapter;
        }
      }
    }
    base::StringMap<std::vector<uint32_t>> usual;
    for (const auto& [scheme, counts] : seen) {
      uint32_t most = 0;
      for (const auto& [number, count] : counts) {
        most = std::max(most, count);
      }
      std::vector<uint32_t> numbers;
      for (const auto& [number, count] : counts) {
        if (2 * count >= most) {
          numbers.push_back(number);
        }
      }
      if (numbers.size() == out_.rail_count) {
        std::sort(numbers.begin(), numbers.end());
        usual.emplace(scheme, std::move(numbers));
      }
    }
    return usual;
  }

  bool NumberByName(FabricHost& host, const base::StringMap<std::vector<uint32_t>>& usual) const {
    for (HostPort& port : host.ports) {
      const std::optional<DeviceNumber> number = NumberOf(DeviceOf(port));
      if (!number.has_value()) {
        return false;
      }
      const auto numbers = usual.find(number->scheme);
      if (numbers == usual.end()) {
        return false;
      }
      const auto place =
          std::lower_bound(numbers->second.begin(), numbers->second.end(), number->number);
      const bool known = place != numbers->second.end() && *place == number->number;
      port.rail = known ? static_cast<uint8_t>(place - numbers->second.begin()) : kNoRail;
    }
    return true;
  }

  void NumberByOrder(FabricHost& host) const {
    std::vector<uint32_t> adapters;
    for (const HostPort& port : host.ports) {
      if ((port.compute || port.switch_device == kNoDevice) &&
          (adapters.empty() || adapters.back() != port.adapter)) {
        adapters.push_back(port.adapter);
      }
    }
    std::sort(adapters.begin(), adapters.end(), [this](uint32_t left, uint32_t right) {
      return fabric_.devices[left].guid < fabric_.devices[right].guid;
    });
    for (HostPort& port : host.ports) {
      const auto place = std::find(adapters.begin(), adapters.end(), port.adapter);
      port.rail = place == adapters.end() || adapters.size() > 64
                      ? kNoRail
                      : static_cast<uint8_t>(place - adapters.begin());
    }
  }

  static void NumberPlanes(FabricHost& host) {
    for (HostPort& port : host.ports) {
      port.plane = port.port > 0 ? static_cast<uint8_t>(std::min(port.port - 1, 7)) : 0;
    }
  }

  const Fabric& fabric_;
  const PortTable& ports_;
  const GuidOwners& owners_;
  FabricAnalysis& out_;
  std::vector<NodeDescription> descriptions_;  // by device
  std::vector<uint32_t> host_of_;              // by device
  std::vector<uint32_t> leaf_of_;              // by device
};

}  // namespace

uint32_t ModeOf(const std::vector<uint32_t>& values) {
  // Rates and counts have few different values: the last one comes again most of the time.
  absl::flat_hash_map<uint32_t, size_t> counts;
  size_t* last = nullptr;
  uint32_t last_value = 0;
  for (const uint32_t value : values) {
    if (last == nullptr || value != last_value) {
      last = &counts[value];  // stays valid until the next insertion, which sets it again
      last_value = value;
    }
    ++*last;
  }
  uint32_t mode = 0;
  size_t most = 0;
  for (const auto& [value, count] : counts) {
    if (count > most || (count == most && value > mode)) {
      most = count;
      mode = value;
    }
  }
  return mode;
}

NodeDescription SplitDescription(std::string_view description) {
  while (!description.empty() && description.back() == ' ') {
    description.remove_suffix(1);
  }
  while (!description.empty() && description.front() == ' ') {
    description.remove_prefix(1);
  }
  if (IsFactoryDescription(description)) {
    return {};
  }
  const size_t blank = description.rfind(' ');
  if (blank == std::string_view::npos) {
    return LooksLikeDevice(description) ? NodeDescription{{}, description}
                                        : NodeDescription{description, {}};
  }
  const std::string_view device = description.substr(blank + 1);
  if (!LooksLikeDevice(device)) {
    return {description, {}};
  }
  std::string_view host = description.substr(0, blank);
  while (!host.empty() && host.back() == ' ') {
    host.remove_suffix(1);
  }
  return {host, device};
}

void FindFabricHosts(const Fabric& fabric, const PortTable& ports, const GuidOwners& owners,
                     FabricAnalysis& analysis) {
  HostFinder(fabric, ports, owners, analysis).Find();
}

}  // namespace asterism::topology
