#include "test/topology/fabric_generator.h"

#include <utility>

#include "base/rng.h"
#include "fmt/format.h"

namespace asterism::topology {
namespace {

constexpr uint64_t kSwitchGuids = 0x0c42a10000000000;
constexpr uint64_t kAdapterGuids = 0xb83fd20000000000;

class FabricMaker {
 public:
  FabricMaker(const FabricShape& shape, uint64_t seed) : shape_(shape), rng_(seed) {}

  GeneratedFabric Make() {
    MakeSwitches();
    MakeHosts();
    Cross();
    Stray();
    Cut();
    Cable();
    made_.group_of_leaf.resize(made_.fabric.devices.size(), kNoDevice);
    return std::move(made_);
  }

 private:
  void MakeSwitches() {
    uint64_t guid = kSwitchGuids;
    for (size_t group = 0; group < shape_.groups; ++group) {
      for (size_t rail = 0; rail < shape_.rails; ++rail) {
        const uint32_t leaf = Switch(guid++, fmt::format("leaf-{}-{}", group, rail));
        made_.group_of_leaf.resize(leaf + 1, kNoDevice);
        made_.group_of_leaf[leaf] = static_cast<uint32_t>(group);
        leafs_.push_back(leaf);
      }
    }
    for (size_t spine = 0; spine < shape_.spines; ++spine) {
      spines_.push_back(Switch(guid++, fmt::format("spine-{}", spine)));
    }
    next_port_.assign(made_.fabric.devices.size(), 1);
  }

  uint32_t Switch(uint64_t guid, std::string name) {
    const uint32_t device = made_.fabric.Device(guid, DeviceKind::kSwitch);
    made_.fabric.devices[device].name = std::move(name);
    made_.fabric.devices[device].line = 1;
    made_.fabric.devices[device].declared_ports = 65;
    return device;
  }

  void MakeHosts() {
    uint64_t guid = kAdapterGuids;
    for (size_t group = 0; group < shape_.groups; ++group) {
      for (size_t i = 0; i < shape_.hosts_per_group; ++i) {
        const std::string name = fmt::format("h{:06}", made_.hosts.size());
        for (size_t rail = 0; rail < shape_.rails; ++rail) {
          const uint32_t adapter = made_.fabric.Device(guid, DeviceKind::kAdapter);
          guid += 4;
          made_.fabric.devices[adapter].name = fmt::format("{} mlx5_{}", name, rail);
          made_.fabric.devices[adapter].line = 1;
          made_.fabric.devices[adapter].declared_ports = 1;
          adapters_.push_back(adapter);
          leaf_of_link_.push_back(leafs_[group * shape_.rails + rail]);
        }
        made_.hosts.push_back(name);
        made_.group_of_host.push_back(static_cast<uint32_t>(group));
      }
    }
  }

  void Cross() {
    const auto wanted = static_cast<size_t>(shape_.crossed * static_cast<double>(adapters_.size()));
    while (shape_.rails > 1 && made_.links_crossed + 1 < wanted) {
      const size_t host = rng_.Below(made_.hosts.size());
      const size_t one = rng_.Below(shape_.rails);
      const size_t other = (one + 1 + rng_.Below(shape_.rails - 1)) % shape_.rails;
      std::swap(leaf_of_link_[host * shape_.rails + one],
                leaf_of_link_[host * shape_.rails + other]);
      made_.links_crossed += 2;
    }
  }

  void Stray() {
    for (size_t i = 0; i < shape_.foreign; ++i) {
      leaf_of_link_[rng_.Below(leaf_of_link_.size())] = leafs_[rng_.Below(leafs_.size())];
    }
  }

  void Cut() {
    const auto wanted = static_cast<size_t>(shape_.missing * static_cast<double>(adapters_.size()));
    while (made_.links_missing < wanted) {
      uint32_t& leaf = leaf_of_link_[rng_.Below(leaf_of_link_.size())];
      made_.links_missing += leaf == kNoDevice ? 0 : 1;
      leaf = kNoDevice;
    }
  }

  void Cable() {
    for (size_t link = 0; link < adapters_.size(); ++link) {
      if (leaf_of_link_[link] != kNoDevice) {
        Join(leaf_of_link_[link], next_port_[leaf_of_link_[link]]++, adapters_[link], 1);
      }
    }
    for (size_t i = 0; i < leafs_.size(); ++i) {
      const size_t uplinks = shape_.uplinks == 0 ? spines_.size() : shape_.uplinks;
      for (size_t uplink = 0; uplink < uplinks; ++uplink) {
        const uint32_t target = spines_[(i * uplinks + uplink) % spines_.size()];
        // Spines stand for chassis here: they have as many ports as are needed.
        Join(leafs_[i], next_port_[leafs_[i]]++, target, next_port_[target]++);
      }
    }
  }

  void Join(uint32_t device, uint16_t port, uint32_t peer, uint16_t peer_port) {
    HalfLink half{.device = device,
                  .peer = peer,
                  .port = port,
                  .peer_port = peer_port,
                  .width = 4,
                  .speed = LaneSpeed::kNdr};
    const bool host = made_.fabric.devices[peer].kind == DeviceKind::kAdapter;
    half.adapter_port_guid = host ? made_.fabric.devices[peer].guid : 0;
    made_.fabric.half_links.push_back(half);
    if (!host || shape_.adapter_records) {
      std::swap(half.device, half.peer);
      std::swap(half.port, half.peer_port);
      made_.fabric.half_links.push_back(half);
    }
  }

  const FabricShape shape_;
  base::Rng rng_;
  GeneratedFabric made_;
  std::vector<uint32_t> leafs_;
  std::vector<uint32_t> spines_;
  std::vector<uint32_t> adapters_;
  std::vector<uint32_t> leaf_of_link_;  // by adapter
  std::vector<uint16_t> next_port_;     // by device; switches come first
};

std::string IdOf(const FabricDevice& device) {
  return fmt::format("{}-{:016x}", device.kind == DeviceKind::kSwitch ? 'S' : 'H', device.guid);
}

}  // namespace

GeneratedFabric MakeFabric(const FabricShape& shape, uint64_t seed) {
  return FabricMaker(shape, seed).Make();
}

std::string DumpText(const Fabric& fabric) {
  std::vector<std::vector<const HalfLink*>> links(fabric.devices.size());
  for (const HalfLink& half : fabric.half_links) {
    links[half.device].push_back(&half);
  }
  std::string text = "#\n# Topology file: generated on Mon Mar  2 04:11:07 2026\n#\n";
  text.reserve(fabric.half_links.size() * 110 + fabric.devices.size() * 150);
  for (size_t i = 0; i < fabric.devices.size(); ++i) {
    const FabricDevice& device = fabric.devices[i];
    const bool is_switch = device.kind == DeviceKind::kSwitch;
    fmt::format_to(std::back_inserter(text), "\nvendid=0x2c9\ndevid=0x{}\nsysimgguid=0x{:x}\n",
                   is_switch ? "d2f2" : "1021", device.guid);
    if (is_switch) {
      fmt::format_to(
          std::back_inserter(text),
          "switchguid=0x{:x}({:x})\nSwitch\t{} \"{}\"\t\t# \"{}\" enhanced port 0 lid {} "
          "lmc 0\n",
          device.guid, device.guid, device.declared_ports, IdOf(device), device.name, i + 1);
    } else {
      fmt::format_to(std::back_inserter(text), "caguid=0x{:x}\nCa\t{} \"{}\"\t\t# \"{}\"\n",
                     device.guid, device.declared_ports, IdOf(device), device.name);
    }
    for (const HalfLink* half : links[i]) {
      const FabricDevice& peer = fabric.devices[half->peer];
      const bool peer_is_switch = peer.kind == DeviceKind::kSwitch;
      if (is_switch && peer_is_switch) {
        fmt::format_to(std::back_inserter(text), "[{}]\t\"{}\"[{}]\t\t# \"{}\" lid {} {}x{}\n",
                       half->port, IdOf(peer), half->peer_port, peer.name, half->peer + 1,
                       half->width, LaneSpeedName(half->speed));
      } else if (is_switch) {
        fmt::format_to(std::back_inserter(text),
                       "[{}]\t\"{}\"[{}]({:x}) \t\t# \"{}\" lid {} {}x{}\n", half->port, IdOf(peer),
                       half->peer_port, peer.guid, peer.name, half->peer + 1, half->width,
                       LaneSpeedName(half->speed));
      } else {
        fmt::format_to(std::back_inserter(text),
                       "[{}]({:x}) \t\"{}\"[{}]\t\t# lid {} lmc 0 \"{}\" lid {} {}x{}\n",
                       half->port, device.guid, IdOf(peer), half->peer_port, i + 1, peer.name,
                       half->peer + 1, half->width, LaneSpeedName(half->speed));
      }
    }
  }
  return text;
}

}  // namespace asterism::topology
