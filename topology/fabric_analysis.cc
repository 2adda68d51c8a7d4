#include "topology/fabric_analysis.h"

#include <algorithm>
#include <deque>

#include "absl/container/flat_hash_set.h"
#include "topology/fabric_hosts.h"
#include "topology/natural_order.h"

namespace asterism::topology {
namespace {

// A leaf whose hosts agree less than this has no rail that a cable could be crossed against.
constexpr double kRailMajority = 0.7;

class FabricReader {
 public:
  FabricReader(const Fabric& fabric, const GuidOwners& owners)
      : fabric_(fabric), owners_(owners), ports_(fabric) {}

  FabricAnalysis Read() {
    FindFabricHosts(fabric_, ports_, owners_, out_);
    leaf_of_.assign(fabric_.devices.size(), kNoDevice);
    for (uint32_t leaf = 0; leaf < out_.leafs.size(); ++leaf) {
      leaf_of_[out_.leafs[leaf].device] = leaf;
    }
    FindComponents();
    CountLinks();
    FindGroups();
    OrderGroups();
    FindRails();
    FindTiers();
    CountFabrics();
    return std::move(out_);
  }

 private:
  bool IsSwitch(uint32_t device) const {
    return fabric_.devices[device].kind == DeviceKind::kSwitch;
  }

  template <typename Visit>
  void ForEachSwitchCable(Visit visit) const {
    for (uint32_t half = 0; half < fabric_.half_links.size(); ++half) {
      const HalfLink& link = fabric_.half_links[half];
      if (IsSwitch(link.device) && IsSwitch(link.peer) && ports_.StandsForCable(fabric_, half)) {
        visit(link);
      }
    }
  }

  void BuildNeighbours() {
    neighbours_.resize(fabric_.devices.size());
    ForEachSwitchCable([this](const HalfLink& link) {
      if (link.device != link.peer) {
        neighbours_[link.device].push_back(link.peer);
        neighbours_[link.peer].push_back(link.device);
      }
    });
  }

  void FindComponents() {
    BuildNeighbours();
    out_.component.assign(fabric_.devices.size(), kNoGroup);
    for (uint32_t start = 0; start < fabric_.devices.size(); ++start) {
      if (!IsSwitch(start) || out_.component[start] != kNoGroup) {
        continue;
      }
      const auto number = static_cast<uint32_t>(out_.component_count++);
      std::deque<uint32_t> waiting = {start};
      out_.component[start] = number;
      while (!waiting.empty()) {
        const uint32_t device = waiting.front();
        waiting.pop_front();
        for (const uint32_t next : neighbours_[device]) {
          if (out_.component[next] == kNoGroup) {
            out_.component[next] = number;
            waiting.push_back(next);
          }
        }
      }
    }
  }

  void CountLinks() {
    for (const FabricHost& host : out_.hosts) {
      for (const HostPort& port : host.ports) {
        if (port.switch_device != kNoDevice && leaf_of_[port.switch_device] != kNoDevice) {
          LeafSwitch& leaf = out_.leafs[leaf_of_[port.switch_device]];
          ++leaf.down_ports;
          leaf.compute_ports += port.compute ? 1 : 0;
        }
      }
    }
    for (const uint32_t device : out_.nameless) {
      nameless_.insert(device);
    }
    for (const HalfLink& link : fabric_.half_links) {
      if (leaf_of_[link.device] != kNoDevice && nameless_.contains(link.peer)) {
        ++out_.leafs[leaf_of_[link.device]].down_ports;
      }
    }
    ForEachSwitchCable([this](const HalfLink& link) {
      if (link.device == link.peer) {
        ++out_.self_loops;
        return;
      }
      const uint32_t near = leaf_of_[link.device];
      const uint32_t far = leaf_of_[link.peer];
      if (near != kNoDevice && far == kNoDevice) {
        ++out_.leafs[near].uplinks;
      } else if (near == kNoDevice && far != kNoDevice) {
        ++out_.leafs[far].uplinks;
      }
    });
    std::vector<uint32_t> down;
    std::vector<uint32_t> up;
    for (const LeafSwitch& leaf : out_.leafs) {
      down.push_back(leaf.down_ports);
      up.push_back(leaf.uplinks);
    }
    out_.modal_down = ModeOf(down);
    out_.modal_uplinks = ModeOf(up);
  }

  void FindGroups() {
    LeafHosts sets;
    std::vector<std::vector<uint32_t>> hosts_of_leaf(out_.leafs.size());
    for (uint32_t host = 0; host < out_.hosts.size(); ++host) {
      const FabricHost& each = out_.hosts[host];
      if (each.role != HostRole::kGpu && each.role != HostRole::kDegraded) {
        continue;
      }
      for (const HostPort& port : each.ports) {
        if (port.compute && leaf_of_[port.switch_device] != kNoDevice) {
          hosts_of_leaf[leaf_of_[port.switch_device]].push_back(host);
        }
      }
    }
    for (const std::vector<uint32_t>& hosts : hosts_of_leaf) {
      sets.AddLeaf(hosts);
    }
    const LeafGrouping grouping = GroupLeafs(sets);
    out_.groups.resize(grouping.group_count);
    for (uint32_t leaf = 0; leaf < out_.leafs.size(); ++leaf) {
      out_.leafs[leaf].group = grouping.group_of_leaf[leaf];
      out_.groups[grouping.group_of_leaf[leaf]].leafs.push_back(leaf);
    }
    for (uint32_t host = 0; host < out_.hosts.size(); ++host) {
      FabricHost& each = out_.hosts[host];
      if (host < grouping.group_of_host.size() && grouping.group_of_host[host] != kNoGroup) {
        each.group = grouping.group_of_host[host];
        out_.groups[each.group].hosts.push_back(host);
      } else if (each.role != HostRole::kManagement) {
        each.group = MostUsedGroup(each);
        if (each.group != kNoGroup) {
          out_.groups[each.group].other_hosts.push_back(host);
        }
      }
    }
  }

  uint32_t MostUsedGroup(const FabricHost& host) const {
    std::vector<uint32_t> groups;
    for (const HostPort& port : host.ports) {
      if (port.switch_device != kNoDevice && leaf_of_[port.switch_device] != kNoDevice) {
        groups.push_back(out_.leafs[leaf_of_[port.switch_device]].group);
      }
    }
    return groups.empty() ? kNoGroup : ModeOf(groups);
  }

  // People count racks by the names of their hosts.
  void OrderGroups() {
    const auto by_name = [this](uint32_t left, uint32_t right) {
      return NaturalLess(out_.hosts[left].name, out_.hosts[right].name);
    };
    for (FabricGroup& group : out_.groups) {
      std::sort(group.hosts.begin(), group.hosts.end(), by_name);
      std::sort(group.other_hosts.begin(), group.other_hosts.end(), by_name);
    }
    std::sort(out_.groups.begin(), out_.groups.end(),
              [&](const FabricGroup& left, const FabricGroup& right) {
                if (left.hosts.empty() || right.hosts.empty()) {
                  return left.hosts.size() > right.hosts.size();
                }
                return by_name(left.hosts.front(), right.hosts.front());
              });
    for (uint32_t group = 0; group < out_.groups.size(); ++group) {
      for (const uint32_t leaf : out_.groups[group].leafs) {
        out_.leafs[leaf].group = group;
      }
      for (const uint32_t host : out_.groups[group].hosts) {
        out_.hosts[host].group = group;
      }
      for (const uint32_t host : out_.groups[group].other_hosts) {
        out_.hosts[host].group = group;
      }
    }
  }

  // The rail and plane of most of its hosts.
  void FindRails() {
    constexpr size_t kPlanes = 8;
    std::vector<std::vector<uint32_t>> votes(out_.leafs.size());
    std::vector<uint32_t> planes_of_adapter;
    for (const FabricHost& host : out_.hosts) {
      if (host.role != HostRole::kGpu) {
        continue;
      }
      uint32_t adapter = kNoDevice;
      for (const HostPort& port : host.ports) {
        if (!port.compute) {
          continue;
        }
        if (port.adapter == adapter) {
          ++planes_of_adapter.back();
        } else {
          planes_of_adapter.push_back(1);
          adapter = port.adapter;
        }
        const uint32_t leaf = leaf_of_[port.switch_device];
        if (leaf != kNoDevice && port.rail != kNoRail && out_.leafs[leaf].group == host.group) {
          votes[leaf].push_back(static_cast<uint32_t>(port.rail * kPlanes + port.plane));
        }
      }
    }
    out_.plane_count = std::max(1U, ModeOf(planes_of_adapter));
    for (uint32_t leaf = 0; leaf < out_.leafs.size(); ++leaf) {
      if (votes[leaf].empty()) {
        continue;
      }
      const uint32_t winner = ModeOf(votes[leaf]);
      const auto agreeing = std::count(votes[leaf].begin(), votes[leaf].end(), winner);
      out_.leafs[leaf].rail = static_cast<uint8_t>(winner / kPlanes);
      out_.leafs[leaf].plane = static_cast<uint8_t>(winner % kPlanes);
      out_.leafs[leaf].rail_certain =
          static_cast<double>(agreeing) >= kRailMajority * static_cast<double>(votes[leaf].size());
    }
    FindRailsOfSpines();
  }

  // Every switch above the leafs serves leafs of one rail only, and there are several rails.
  void FindRailsOfSpines() {
    bool single = out_.rail_count > 1;
    size_t spines = 0;
    for (uint32_t device = 0; device < fabric_.devices.size() && single; ++device) {
      if (!IsSwitch(device) || leaf_of_[device] != kNoDevice) {
        continue;
      }
      uint8_t rail = kNoRail;
      for (const uint32_t next : neighbours_[device]) {
        if (leaf_of_[next] == kNoDevice) {
          continue;
        }
        const uint8_t other = out_.leafs[leaf_of_[next]].rail;
        single = single && (rail == kNoRail || rail == other);
        rail = other;
      }
      spines += rail != kNoRail ? 1 : 0;
    }
    out_.cross_rail_needs_top_tier = single && spines > 1;
  }

  void FindTiers() {
    std::vector<uint32_t> tier(fabric_.devices.size(), kNoGroup);
    std::deque<uint32_t> waiting;
    for (const LeafSwitch& leaf : out_.leafs) {
      tier[leaf.device] = 0;
      waiting.push_back(leaf.device);
    }
    while (!waiting.empty()) {
      const uint32_t device = waiting.front();
      waiting.pop_front();
      if (out_.tiers.size() <= tier[device]) {
        out_.tiers.resize(tier[device] + 1);
      }
      out_.tiers[tier[device]].push_back(device);
      for (const uint32_t next : neighbours_[device]) {
        if (tier[next] == kNoGroup) {
          tier[next] = tier[device] + 1;
          waiting.push_back(next);
        }
      }
    }
    ForEachSwitchCable([&](const HalfLink& link) {
      const bool level = tier[link.device] == tier[link.peer] && tier[link.device] != kNoGroup;
      out_.equal_tier_links += link.device != link.peer && level ? 1 : 0;
    });
    out_.tree = out_.equal_tier_links == 0;
  }

  // Rails and planes of the compute fabric may share no switch; they are one fabric all the same.
  void CountFabrics() {
    std::vector<bool> compute(out_.component_count, false);
    std::vector<bool> used(out_.component_count, false);
    for (const LeafSwitch& leaf : out_.leafs) {
      compute[out_.component[leaf.device]] = true;
    }
    for (const FabricHost& host : out_.hosts) {
      for (const HostPort& port : host.ports) {
        if (port.switch_device != kNoDevice) {
          used[out_.component[port.switch_device]] = true;
        }
      }
    }
    bool any_compute = false;
    for (size_t i = 0; i < out_.component_count; ++i) {
      any_compute = any_compute || compute[i];
      out_.fabric_count += used[i] && !compute[i] ? 1 : 0;
    }
    out_.fabric_count += any_compute ? 1 : 0;
  }

  const Fabric& fabric_;
  const GuidOwners& owners_;
  const PortTable ports_;
  FabricAnalysis out_;
  std::vector<uint32_t> leaf_of_;  // by device
  std::vector<std::vector<uint32_t>> neighbours_;
  absl::flat_hash_set<uint32_t> nameless_;
};

std::vector<std::vector<uint32_t>> SwitchNeighbours(const Fabric& fabric) {
  std::vector<std::vector<uint32_t>> neighbours(fabric.devices.size());
  for (const HalfLink& link : fabric.half_links) {
    if (fabric.devices[link.device].kind == DeviceKind::kSwitch &&
        fabric.devices[link.peer].kind == DeviceKind::kSwitch && link.device != link.peer) {
      neighbours[link.device].push_back(link.peer);
      neighbours[link.peer].push_back(link.device);
    }
  }
  return neighbours;
}

}  // namespace

size_t FabricAnalysis::CountHosts(HostRole role) const {
  return static_cast<size_t>(std::count_if(
      hosts.begin(), hosts.end(), [role](const FabricHost& host) { return host.role == role; }));
}

size_t FabricAnalysis::UplinksPresent() const {
  size_t present = 0;
  for (const LeafSwitch& leaf : leafs) {
    present += leaf.uplinks;
  }
  return present;
}

size_t FabricAnalysis::LeafsBelowNominal() const {
  return static_cast<size_t>(
      std::count_if(leafs.begin(), leafs.end(),
                    [this](const LeafSwitch& leaf) { return leaf.uplinks < modal_uplinks; }));
}

FabricAnalysis AnalyzeFabric(const Fabric& fabric, const GuidOwners& owners) {
  return FabricReader(fabric, owners).Read();
}

std::vector<size_t> TwoColouring(const Fabric& fabric) {
  const auto neighbours = SwitchNeighbours(fabric);
  std::vector<int> colour(fabric.devices.size(), -1);
  std::vector<size_t> sides = {0, 0};
  for (uint32_t start = 0; start < fabric.devices.size(); ++start) {
    if (fabric.devices[start].kind != DeviceKind::kSwitch || colour[start] >= 0) {
      continue;
    }
    std::vector<uint32_t> members = {start};
    size_t counts[2] = {0, 0};
    colour[start] = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      const uint32_t device = members[i];
      ++counts[colour[device]];
      for (const uint32_t next : neighbours[device]) {
        if (colour[next] == colour[device]) {
          return {};
        }
        if (colour[next] < 0) {
          colour[next] = 1 - colour[device];
          members.push_back(next);
        }
      }
    }
    sides[0] += std::max(counts[0], counts[1]);
    sides[1] += std::min(counts[0], counts[1]);
  }
  return sides;
}

size_t DragonflyGroups(const Fabric& fabric, const FabricAnalysis& analysis) {
  if (analysis.tree || analysis.tiers.empty()) {
    return 0;
  }
  std::vector<uint32_t> tier(fabric.devices.size(), kNoGroup);
  for (uint32_t level = 0; level < analysis.tiers.size(); ++level) {
    for (const uint32_t device : analysis.tiers[level]) {
      tier[device] = level;
    }
  }
  const auto neighbours = SwitchNeighbours(fabric);
  std::vector<uint32_t> part(fabric.devices.size(), kNoGroup);
  uint32_t parts = 0;
  for (const LeafSwitch& leaf : analysis.leafs) {
    if (part[leaf.device] != kNoGroup) {
      continue;
    }
    std::vector<uint32_t> members = {leaf.device};
    part[leaf.device] = parts;
    for (size_t i = 0; i < members.size(); ++i) {
      for (const uint32_t next : neighbours[members[i]]) {
        if (tier[next] != tier[members[i]] && part[next] == kNoGroup) {
          part[next] = parts;
          members.push_back(next);
        }
      }
    }
    ++parts;
  }
  absl::flat_hash_set<uint64_t> joined;
  for (uint32_t device = 0; device < fabric.devices.size(); ++device) {
    for (const uint32_t next : neighbours[device]) {
      if (part[device] != kNoGroup && part[next] != kNoGroup && part[device] < part[next]) {
        joined.insert(uint64_t{part[device]} << 32 | part[next]);
      }
    }
  }
  const bool all_joined = joined.size() == size_t{parts} * (parts - 1) / 2;
  return parts > 2 && all_joined ? parts : 0;
}

}  // namespace asterism::topology
