#include "agent/probe/rdma_probe.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "agent/probe/sysfs_text.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

// Drivers fill the table of GIDs from its start; it has up to 256 entries.
constexpr int kEmptyGidsMax = 8;
constexpr int kGidsMax = 256;

// "4: ACTIVE" -> "ACTIVE"
std::string WordOfState(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

bool IsEmptyGid(std::string_view gid) {
  return gid.find_first_not_of("0:") == std::string_view::npos;
}

// Link-local: it says only which port it is.
bool IsLocalGid(std::string_view gid) {
  return gid.starts_with("fe80:");
}

struct Gids {
  std::string first;
  std::string best;  // of RoCE v2, rather one that can be routed
  std::vector<std::string> net_devices;
};

Gids ReadGids(const std::string& port) {
  Gids gids;
  int best_rank = 0;
  int empty = 0;
  for (int index = 0; index < kGidsMax && empty < kEmptyGidsMax; ++index) {
    const std::optional<std::string> gid = SysfsText(fmt::format("{}/gids/{}", port, index));
    if (!gid.has_value() || IsEmptyGid(*gid)) {
      ++empty;
      continue;
    }
    empty = 0;
    if (gids.first.empty()) {
      gids.first = *gid;
    }
    const std::string type =
        SysfsText(fmt::format("{}/gid_attrs/types/{}", port, index)).value_or("");
    const int rank = type != "RoCE v2" ? 1 : IsLocalGid(*gid) ? 2 : 3;
    if (rank > best_rank) {
      best_rank = rank;
      gids.best = *gid;
    }
    const std::string net_device =
        SysfsText(fmt::format("{}/gid_attrs/ndevs/{}", port, index)).value_or("");
    if (!net_device.empty() && !std::ranges::count(gids.net_devices, net_device)) {
      gids.net_devices.push_back(net_device);
    }
  }
  return gids;
}

// "0000:1b:00.1" -> "0000:1b:00"
std::string_view SlotOf(std::string_view address) {
  return address.substr(0, address.find_last_of('.'));
}

std::string PciAddressOfNetDevice(const std::string& sysfs, const std::string& name) {
  const std::string real = SysfsRealPath(sysfs + "/class/net/" + name + "/device");
  return NormalPciAddress(LastPart(real)).value_or("");
}

// A bond hides the ports that it is made of: those of the same card are meant.
std::vector<std::string> PhysicalNetDevices(const std::string& sysfs,
                                            const std::vector<std::string>& names,
                                            const std::string& address) {
  std::vector<std::string> physical;
  const auto add = [&](const std::string& name) {
    if (!std::ranges::count(physical, name)) {
      physical.push_back(name);
    }
  };
  for (const std::string& name : names) {
    const std::string folder = sysfs + "/class/net/" + name;
    const std::string master(LastPart(SysfsRealPath(folder + "/master")));
    const std::string bond = SysfsText(folder + "/bonding/slaves").has_value() ? name : master;
    const std::string members =
        bond.empty() ? ""
                     : SysfsText(sysfs + "/class/net/" + bond + "/bonding/slaves").value_or("");
    bool any = false;
    for (size_t at = 0; at < members.size();) {
      const size_t end = std::min(members.find(' ', at), members.size());
      const std::string member = members.substr(at, end - at);
      if (!member.empty() && !address.empty() &&
          SlotOf(PciAddressOfNetDevice(sysfs, member)) == SlotOf(address)) {
        add(member);
        any = true;
      }
      at = end + 1;
    }
    if (!any) {
      add(name);
    }
  }
  return physical;
}

// Of a device with several ports on one PCI function, those of this port.
std::vector<std::string> NetDevicesOf(const std::string& device, uint32_t port, bool one_port) {
  std::vector<std::string> mine;
  const std::string folder = device + "/device/net";
  for (const std::string& name : SysfsNames(folder)) {
    const int64_t number = SysfsNumber(folder + "/" + name + "/dev_port").value_or(0);
    if (one_port || number + 1 == port) {
      mine.push_back(name);
    }
  }
  if (mine.empty()) {
    // A device in software names the one that it is built on.
    const std::string parent = SysfsText(device + "/parent").value_or("");
    if (!parent.empty()) {
      mine.push_back(parent);
    }
  }
  return mine;
}

void ReadPort(const std::string& sysfs, const std::string& device, const std::string& address,
              bool one_port, v1::MeasuredPort& port) {
  const std::string folder = fmt::format("{}/ports/{}", device, port.number());
  port.set_state(WordOfState(SysfsText(folder + "/state").value_or("")));
  port.set_active(port.state() == "ACTIVE");
  port.set_physical_state(WordOfState(SysfsText(folder + "/phys_state").value_or("")));
  port.set_ethernet(SysfsText(folder + "/link_layer").value_or("") == "Ethernet");
  port.set_bits_per_second(RdmaRate(SysfsText(folder + "/rate").value_or("")));
  port.set_lid(static_cast<uint32_t>(
      std::clamp<int64_t>(SysfsNumber(folder + "/lid").value_or(0), 0, UINT32_MAX)));
  const Gids gids = ReadGids(folder);
  port.set_gid(port.ethernet() ? gids.best : gids.first);
  if (!port.ethernet() && gids.first.size() > 20) {
    port.set_guid(RdmaGuid(std::string_view(gids.first).substr(20)).value_or(0));
  }
  std::vector<std::string> names = NetDevicesOf(device, port.number(), one_port);
  if (names.empty()) {
    names = gids.net_devices;
  }
  for (std::string& name : PhysicalNetDevices(sysfs, names, address)) {
    port.add_net_devices(std::move(name));
  }
}

}  // namespace

RdmaProbe::RdmaProbe(ProbeRoots roots, absl::Duration period)
    : Probe("rdma", period), roots_(std::move(roots)) {}

std::optional<uint64_t> RdmaGuid(std::string_view text) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
  }
  std::string digits;
  for (const char letter : text) {
    if (letter != ':') {
      digits += letter;
    }
  }
  uint64_t guid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), guid, 16);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.size() > 16) {
    return std::nullopt;
  }
  return guid;
}

uint64_t RdmaRate(std::string_view text) {
  const size_t unit = text.find(" Gb/sec");
  if (unit == std::string_view::npos) {
    return 0;
  }
  // "2.5", "400"
  const std::string_view number = text.substr(0, unit);
  const size_t dot = std::min(number.find('.'), number.size());
  const std::optional<int64_t> whole = NumberOf(number.substr(0, dot));
  if (!whole.has_value() || *whole < 0 || *whole > 1'000'000) {
    return 0;
  }
  auto rate = static_cast<uint64_t>(*whole) * 1'000'000'000;
  uint64_t place = 100'000'000;
  for (size_t i = dot + 1; i < number.size() && place > 0; ++i, place /= 10) {
    if (number[i] < '0' || number[i] > '9') {
      return 0;
    }
    rate += static_cast<uint64_t>(number[i] - '0') * place;
  }
  return rate;
}

ProbeResult RdmaProbe::Run() {
  ProbeResult result;
  v1::MeasuredNics& nics = *result.parts.mutable_nics();
  const std::string folder = roots_.sysfs + "/class/infiniband";
  const std::vector<std::string> names = SysfsNames(folder, kRdmaDevicesMax + 1);
  if (names.size() > kRdmaDevicesMax) {
    return ProbeResult::Failed(
        fmt::format("{} holds more than {} devices", folder, kRdmaDevicesMax));
  }
  for (const std::string& name : names) {
    const std::string device = folder + "/" + name;
    const std::optional<std::string> guid = SysfsText(device + "/node_guid");
    const std::optional<uint64_t> node_guid = guid.has_value() ? RdmaGuid(*guid) : std::nullopt;
    if (!node_guid.has_value()) {
      result.gaps.push_back(
          fmt::format("{}: no node_guid that can be read: the device is left out", name));
      continue;
    }
    v1::MeasuredNic& nic = *nics.add_nics();
    nic.set_device(name);
    nic.set_node_guid(*node_guid);
    nic.set_system_image_guid(
        RdmaGuid(SysfsText(device + "/sys_image_guid").value_or("")).value_or(0));
    nic.set_kind(SysfsText(device + "/hca_type").value_or(""));
    // A subfunction stands below the PCI device that it is a part of.
    std::string real = SysfsRealPath(device + "/device");
    while (!real.empty() && !NormalPciAddress(LastPart(real)).has_value()) {
      real.erase(std::min(real.find_last_of('/'), real.size()));
    }
    nic.set_pci_address(NormalPciAddress(LastPart(real)).value_or(""));
    nic.set_numa_node(static_cast<int32_t>(SysfsNumber(device + "/device/numa_node").value_or(-1)));
    nic.set_virtual_function(!SysfsRealPath(device + "/device/physfn").empty());
    std::vector<int64_t> ports;
    for (const std::string& port : SysfsNames(device + "/ports", kRdmaPortsMax)) {
      if (const int64_t number = NumberOf(port).value_or(0); number > 0) {
        ports.push_back(number);
      }
    }
    std::ranges::sort(ports);
    for (const int64_t number : ports) {
      v1::MeasuredPort& port = *nic.add_ports();
      port.set_number(static_cast<uint32_t>(number));
      ReadPort(roots_.sysfs, device, nic.pci_address(), ports.size() == 1, port);
    }
  }
  return result;
}

}  // namespace asterism::agent
