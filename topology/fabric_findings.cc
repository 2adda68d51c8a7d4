// The anomalies of an analysed fabric, in words.

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "topology/fabric_analysis.h"
#include "topology/fabric_hosts.h"

namespace asterism::topology {
namespace {

// Of a list in one finding; the count tells the rest.
constexpr size_t kExamplesMax = 4;

class FindingWriter {
 public:
  FindingWriter(const Fabric& fabric, const FabricAnalysis& analysis)
      : fabric_(fabric), in_(analysis), ports_(fabric) {
    leaf_of_.assign(fabric.devices.size(), kNoDevice);
    for (uint32_t leaf = 0; leaf < in_.leafs.size(); ++leaf) {
      leaf_of_[in_.leafs[leaf].device] = leaf;
    }
    for (const uint32_t device : in_.nameless) {
      nameless_.insert(device);
    }
  }

  std::vector<Finding> Write() {
    AbsentRails();
    ShortLeafs();
    for (const FabricHost& host : in_.hosts) {
      Roles(host);
      if (host.group != kNoGroup &&
          (host.role == HostRole::kGpu || host.role == HostRole::kDegraded) && !IsWhole(host)) {
        Cables(host);
        MissingPorts(host);
      }
    }
    MixedSpeeds();
    SelfLoops();
    Cycles();
    Nameless();
    DuplicateNames();
    SortFindings(findings_);
    return std::move(findings_);
  }

 private:
  void Add(FindingKind kind, std::vector<std::string> objects, std::string evidence) {
    findings_.push_back({kind, std::move(objects), std::move(evidence)});
  }

  std::string SwitchName(uint32_t device) const {
    const FabricDevice& found = fabric_.devices[device];
    const std::string guid = fabric_.keyed_by_name ? "" : GuidText(found.guid);
    return found.name.empty() ? guid
                              : fmt::format("{}{}{}", found.name, guid.empty() ? "" : " ", guid);
  }

  static std::string GroupName(uint32_t group) { return fmt::format("leaf group {}", group + 1); }

  // Rails and planes are counted from 1, as people do.
  std::string RailName(uint8_t rail, uint8_t plane) const {
    return in_.plane_count > 1 ? fmt::format("rail {} plane {}", rail + 1, plane + 1)
                               : fmt::format("rail {}", rail + 1);
  }

  std::string PortName(const HostPort& port) const {
    const std::string_view device = SplitDescription(fabric_.devices[port.adapter].name).device;
    const std::string name =
        device.empty() ? GuidText(fabric_.devices[port.adapter].guid) : std::string(device);
    return in_.plane_count > 1 ? fmt::format("{} port {}", name, port.port) : name;
  }

  using RailKey = std::pair<uint8_t, uint8_t>;

  std::set<RailKey> RailsOf(const FabricGroup& group) const {
    std::set<RailKey> rails;
    for (const uint32_t leaf : group.leafs) {
      if (in_.leafs[leaf].rail != kNoRail) {
        rails.emplace(in_.leafs[leaf].rail, in_.leafs[leaf].plane);
      }
    }
    return rails;
  }

  void AbsentRails() {
    std::map<RailKey, size_t> groups_with;
    for (const FabricGroup& group : in_.groups) {
      for (const RailKey& rail : RailsOf(group)) {
        ++groups_with[rail];
      }
    }
    for (uint32_t group = 0; group < in_.groups.size(); ++group) {
      const std::set<RailKey> present = RailsOf(in_.groups[group]);
      for (const auto& [rail, count] : groups_with) {
        if (2 * count > in_.groups.size() && !present.contains(rail)) {
          absent_.emplace(group, rail);
          Add(FindingKind::kAbsentRailLeaf, {GroupName(group), RailName(rail.first, rail.second)},
              fmt::format(
                  "{} of {} groups have a leaf switch for {}; this one, of {} to {}, has {} "
                  "leaf switches and none for it",
                  count, in_.groups.size(), RailName(rail.first, rail.second), FirstHost(group),
                  LastHost(group), in_.groups[group].leafs.size()));
        }
      }
    }
  }

  std::string FirstHost(uint32_t group) const {
    const auto& hosts = in_.groups[group].hosts;
    return hosts.empty() ? "no host" : in_.hosts[hosts.front()].name;
  }
  std::string LastHost(uint32_t group) const {
    const auto& hosts = in_.groups[group].hosts;
    return hosts.empty() ? "no host" : in_.hosts[hosts.back()].name;
  }

  void ShortLeafs() {
    if (!in_.tree) {
      return;  // what is up and what is down cannot be told
    }
    for (const LeafSwitch& leaf : in_.leafs) {
      if (leaf.uplinks < in_.modal_uplinks) {
        const std::string rail = leaf.rail == kNoRail ? "" : ", " + RailName(leaf.rail, leaf.plane);
        Add(FindingKind::kShortLeaf, {SwitchName(leaf.device)},
            fmt::format("{} of {} cables to the spines ({}{})", leaf.uplinks, in_.modal_uplinks,
                        GroupName(leaf.group), rail));
      }
    }
  }

  // Every port has its link, to the leaf of its rail, and no leaf of the group is without one: the
  // usual case, which needs no closer look.
  bool IsWhole(const FabricHost& host) const {
    for (const HostPort& port : host.ports) {
      const LeafSwitch* leaf = LeafOf(port);
      if (leaf == nullptr || !port.compute || leaf->group != host.group ||
          leaf->rail != port.rail || leaf->plane != port.plane) {
        return false;
      }
    }
    return host.ports.size() == in_.groups[host.group].leafs.size();
  }

  std::string PlacesOf(const FabricHost& host) const {
    std::string places;
    for (const HostPort& port : host.ports) {
      if (port.switch_device != kNoDevice) {
        places += fmt::format("{}{} on {}[{}]", places.empty() ? "" : ", ", PortName(port),
                              SwitchName(port.switch_device), port.switch_port);
      }
    }
    return places;
  }

  void Roles(const FabricHost& host) {
    const bool on_leafs = host.group != kNoGroup;
    if (host.role == HostRole::kManagement) {
      Add(FindingKind::kManagementOnSpine, {host.name},
          fmt::format("{} of {} ports that a GPU host has: {}", host.compute_ports,
                      in_.modal_compute_ports, PlacesOf(host)));
    } else if (on_leafs && (host.role == HostRole::kNonCompute || host.default_name ||
                            (host.foreign_name && host.compute_ports != in_.modal_compute_ports))) {
      const std::string why = host.default_name ? "its name is that of a fresh installation"
                              : host.foreign_name
                                  ? "its name is formed unlike those of the GPU hosts"
                                  : "its ports run at another rate";
      Add(FindingKind::kNonComputeOnLeaf, {host.name},
          fmt::format("{}; {} compute ports where GPU hosts have {}: {}", why, host.compute_ports,
                      in_.modal_compute_ports, PlacesOf(host)));
    }
  }

  const LeafSwitch* LeafOf(const HostPort& port) const {
    if (port.switch_device == kNoDevice || leaf_of_[port.switch_device] == kNoDevice) {
      return nullptr;
    }
    return &in_.leafs[leaf_of_[port.switch_device]];
  }

  // Ports that end on a leaf of another group, or on the leaf of another rail.
  void Cables(const FabricHost& host) {
    std::vector<const HostPort*> astray;
    for (const HostPort& port : host.ports) {
      const LeafSwitch* leaf = LeafOf(port);
      if (leaf == nullptr || !port.compute) {
        continue;
      }
      if (leaf->group != host.group) {
        Add(FindingKind::kForeignCable, {host.name, PortName(port)},
            fmt::format("ends on {}[{}], a leaf switch of {}; the host belongs to {}",
                        SwitchName(port.switch_device), port.switch_port, GroupName(leaf->group),
                        GroupName(host.group)));
      } else if (leaf->rail_certain && port.rail != kNoRail && leaf->plane == port.plane &&
                 leaf->rail != port.rail &&
                 !absent_.contains({host.group, {port.rail, port.plane}})) {
        astray.push_back(&port);
      }
    }
    if (2 * astray.size() > host.ports.size() && astray.size() > 2) {
      // The host numbers its adapters in another order than its peers do: not the cables are wrong.
      return;
    }
    std::sort(astray.begin(), astray.end(),
              [](const HostPort* left, const HostPort* right) { return left->rail < right->rail; });
    std::set<const HostPort*> told;
    for (const HostPort* port : astray) {
      if (told.insert(port).second) {
        Crossed(host, *port, astray, told);
      }
    }
  }

  void Crossed(const FabricHost& host, const HostPort& port,
               const std::vector<const HostPort*>& astray, std::set<const HostPort*>& told) {
    for (const HostPort* other : astray) {
      if (other->rail == LeafOf(port)->rail && LeafOf(*other)->rail == port.rail &&
          told.insert(other).second) {
        Add(FindingKind::kCrossedRails, {host.name, PortName(port), PortName(*other)},
            fmt::format("{} ends on {}[{}], the leaf switch of {}, and {} on {}[{}], that of {}",
                        PortName(port), SwitchName(port.switch_device), port.switch_port,
                        RailName(LeafOf(port)->rail, port.plane), PortName(*other),
                        SwitchName(other->switch_device), other->switch_port,
                        RailName(port.rail, other->plane)));
        return;
      }
    }
    Add(FindingKind::kCrossedRails, {host.name, PortName(port)},
        fmt::format("ends on {}[{}], the leaf switch of {}, where {} is expected",
                    SwitchName(port.switch_device), port.switch_port,
                    RailName(LeafOf(port)->rail, port.plane), RailName(port.rail, port.plane)));
  }

  void MissingPorts(const FabricHost& host) {
    if (host.default_name || (host.role == HostRole::kDegraded && host.foreign_name)) {
      return;
    }
    std::set<RailKey> have;
    std::set<uint8_t> rails_with_link;
    uint16_t usual_port = 0;
    for (const HostPort& port : host.ports) {
      if (port.switch_device != kNoDevice && port.compute) {
        // A crossed or foreign cable is told as such.
        have.emplace(port.rail, port.plane);
        if (const LeafSwitch* leaf = LeafOf(port); leaf != nullptr) {
          have.emplace(leaf->rail, leaf->plane);
        }
        rails_with_link.insert(port.rail);
        usual_port = port.switch_port;
      }
    }
    std::set<RailKey> told;
    for (const HostPort& port : host.ports) {
      if (port.switch_device == kNoDevice) {
        const RailKey rail = {port.rail, port.plane};
        if (port.rail != kNoRail && absent_.contains({host.group, rail})) {
          continue;
        }
        told.insert(rail);
        Add(FindingKind::kMissingPort, {host.name, PortName(port)},
            fmt::format("the adapter {} is there and has no link; {} expects one",
                        GuidText(fabric_.devices[port.adapter].guid), GroupName(host.group)));
      }
    }
    for (const uint32_t index : in_.groups[host.group].leafs) {
      const LeafSwitch& leaf = in_.leafs[index];
      const RailKey rail = {leaf.rail, leaf.plane};
      if (leaf.rail == kNoRail || have.contains(rail) || told.contains(rail) ||
          HasNamelessAt(leaf.device, usual_port)) {
        continue;
      }
      told.insert(rail);
      if (in_.plane_count > 1 && rails_with_link.contains(leaf.rail)) {
        Add(FindingKind::kPlaneLost, {host.name, RailName(leaf.rail, leaf.plane)},
            fmt::format("{} has a link into another plane, and none to {}",
                        AdapterOfRail(host, leaf.rail), SwitchName(leaf.device)));
      } else {
        Add(FindingKind::kMissingPort, {host.name, RailName(leaf.rail, leaf.plane)},
            fmt::format("no link to {}, the leaf switch of {} in {}; the host has {} of {} links",
                        SwitchName(leaf.device), RailName(leaf.rail, leaf.plane),
                        GroupName(host.group), host.compute_ports,
                        in_.groups[host.group].leafs.size()));
      }
    }
  }

  std::string AdapterOfRail(const FabricHost& host, uint8_t rail) const {
    for (const HostPort& port : host.ports) {
      if (port.rail == rail) {
        return std::string(SplitDescription(fabric_.devices[port.adapter].name).device);
      }
    }
    return "";
  }

  // The adapter may be there without its name: trays sit on one port number of all their leafs.
  bool HasNamelessAt(uint32_t device, uint16_t port) const {
    const uint32_t half = ports_.At(device, port);
    return half != kNoHalfLink && nameless_.contains(fabric_.half_links[half].peer);
  }

  // Cables between equal tiers should run at one rate; so should the compute ports of a leaf.
  void MixedSpeeds() {
    std::vector<uint32_t> tier(fabric_.devices.size(), kNoGroup);
    for (uint32_t level = 0; level < in_.tiers.size(); ++level) {
      for (const uint32_t device : in_.tiers[level]) {
        tier[device] = level;
      }
    }
    std::map<std::pair<uint32_t, uint32_t>, std::vector<const HalfLink*>> between;
    for (uint32_t half = 0; half < fabric_.half_links.size(); ++half) {
      const HalfLink& link = fabric_.half_links[half];
      if (fabric_.devices[link.peer].kind == DeviceKind::kSwitch &&
          fabric_.devices[link.device].kind == DeviceKind::kSwitch && link.gbps() > 0 &&
          link.device != link.peer && tier[link.device] != kNoGroup &&
          ports_.StandsForCable(fabric_, half)) {
        between[std::minmax(tier[link.device], tier[link.peer])].push_back(&link);
      }
    }
    for (const auto& [tiers, links] : between) {
      MixedCables(tiers.first, tiers.second, links);
    }
    for (const FabricHost& host : in_.hosts) {
      for (const HostPort& port : host.ports) {
        if (port.compute && port.gbps != 0 && port.gbps != in_.modal_gbps) {
          Add(FindingKind::kMixedSpeed, {host.name, PortName(port)},
              fmt::format("runs at {} Gbit/s, its peers at {}", port.gbps, in_.modal_gbps));
        }
      }
    }
  }

  void MixedCables(uint32_t low, uint32_t high, const std::vector<const HalfLink*>& links) {
    std::vector<uint32_t> rates;
    for (const HalfLink* link : links) {
      rates.push_back(link->gbps());
    }
    const uint32_t usual = ModeOf(rates);
    if (std::all_of(rates.begin(), rates.end(), [usual](uint32_t rate) { return rate == usual; })) {
      return;
    }
    std::string examples;
    size_t other = 0;
    for (const HalfLink* link : links) {
      if (link->gbps() != usual && ++other <= kExamplesMax) {
        examples += fmt::format("{}{}[{}] - {}[{}] at {}", examples.empty() ? "" : ", ",
                                SwitchName(link->device), link->port, SwitchName(link->peer),
                                link->peer_port, link->gbps());
      }
    }
    Add(FindingKind::kMixedSpeed, {fmt::format("cables between tier {} and tier {}", low, high)},
        fmt::format("{} of {} cables do not run at {} Gbit/s: {}{}", other, links.size(), usual,
                    examples, other > kExamplesMax ? ", ..." : ""));
  }

  void SelfLoops() {
    for (uint32_t half = 0; half < fabric_.half_links.size(); ++half) {
      const HalfLink& link = fabric_.half_links[half];
      if (link.device == link.peer && ports_.StandsForCable(fabric_, half)) {
        Add(FindingKind::kSelfLoop, {SwitchName(link.device)},
            fmt::format("port {} is cabled to port {} of the same switch", link.port,
                        link.peer_port));
      }
    }
  }

  void Cycles() {
    // Without leafs there are no tiers; a tree of switches can be coloured with two colours.
    if (in_.leafs.empty() && in_.switch_count > 2 && TwoColouring(fabric_).empty()) {
      Add(FindingKind::kCycle, {fmt::format("{} switches", in_.switch_count)},
          "an odd number of them forms a ring; no leaf switch could be told");
    }
    if (in_.equal_tier_links == 0) {
      return;
    }
    const size_t groups = DragonflyGroups(fabric_, in_);
    Add(FindingKind::kCycle, {fmt::format("{} switches", in_.switch_count)},
        groups > 0 ? fmt::format("{} cables join switches of equal tier; the shape is that of a "
                                 "dragonfly of {} groups",
                                 in_.equal_tier_links, groups)
                   : fmt::format("{} cables join switches of equal tier", in_.equal_tier_links));
  }

  void Nameless() {
    if (in_.nameless.empty()) {
      return;
    }
    std::string examples;
    for (size_t i = 0; i < std::min(in_.nameless.size(), kExamplesMax); ++i) {
      examples += (i == 0 ? "" : ", ") + GuidText(fabric_.devices[in_.nameless[i]].guid);
    }
    Add(FindingKind::kNamelessHca, {fmt::format("{} adapters", in_.nameless.size())},
        fmt::format("of {} adapters {} have the description \"{}\": {}{}",
                    in_.adapter_count - in_.aggregation_count, in_.nameless.size(),
                    fabric_.devices[in_.nameless.front()].name, examples,
                    in_.nameless.size() > kExamplesMax ? ", ..." : ""));
  }

  // The same switch name in two fabrics is usual, and so is an empty one.
  void DuplicateNames() {
    std::map<std::pair<uint32_t, std::string_view>, std::vector<uint32_t>> switches;
    for (uint32_t device = 0; device < fabric_.devices.size(); ++device) {
      const FabricDevice& found = fabric_.devices[device];
      if (found.kind == DeviceKind::kSwitch && !found.name.empty()) {
        switches[{in_.component[device], found.name}].push_back(device);
      }
    }
    for (const auto& [key, devices] : switches) {
      if (devices.size() > 1) {
        Add(FindingKind::kDuplicateName, {std::string(key.second)},
            fmt::format("{} switches of one fabric have this name, for example {} and {}",
                        devices.size(), GuidText(fabric_.devices[devices[0]].guid),
                        GuidText(fabric_.devices[devices[1]].guid)));
      }
    }
    for (const FabricHost& host : in_.hosts) {
      if (host.ports.size() > in_.modal_compute_ports) {
        DuplicateAdapters(host);
      }
    }
  }

  // Two machines of one name show as one host that has each device twice.
  void DuplicateAdapters(const FabricHost& host) {
    std::set<std::string_view> seen;
    std::set<uint32_t> adapters;
    for (const HostPort& port : host.ports) {
      const std::string_view device = SplitDescription(fabric_.devices[port.adapter].name).device;
      if (!device.empty() && adapters.insert(port.adapter).second && !seen.insert(device).second) {
        Add(FindingKind::kDuplicateName, {host.name},
            fmt::format("two adapters of hosts with this name are called {}", device));
        return;
      }
    }
  }

  const Fabric& fabric_;
  const FabricAnalysis& in_;
  const PortTable ports_;
  std::vector<uint32_t> leaf_of_;
  absl::flat_hash_set<uint32_t> nameless_;
  std::set<std::pair<uint32_t, RailKey>> absent_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> FabricFindings(const Fabric& fabric, const FabricAnalysis& analysis) {
  return FindingWriter(fabric, analysis).Write();
}

}  // namespace asterism::topology
