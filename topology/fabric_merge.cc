#include "topology/fabric_merge.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "topology/leaf_groups.h"

namespace asterism::topology {
namespace {

// A group is named after its smallest leaf when it is first seen.
std::string FirstNameOf(const Fabric& fabric, const FabricAnalysis& analysis,
                        const FabricGroup& group) {
  uint64_t smallest = ~uint64_t{0};
  for (const uint32_t leaf : group.leafs) {
    smallest = std::min(smallest, fabric.devices[analysis.leafs[leaf].device].guid);
  }
  return fmt::format("leaf-{:016x}", smallest);
}

}  // namespace

bool FabricMerge::Put(std::string source, Fabric fabric, absl::Time now) {
  const bool answer =
      std::any_of(fabric.devices.begin(), fabric.devices.end(),
                  [](const FabricDevice& device) { return device.kind == DeviceKind::kSwitch; });
  if (!answer || fabric.half_links.empty()) {
    return false;
  }
  fragments_[std::move(source)] = {std::move(fabric), now};
  return true;
}

void FabricMerge::RememberGroup(const std::string& node, const std::string& id) {
  group_ids_.Remember(node, id);
}

// The fragments become one fabric by the GUIDs of their devices; of two that tell of one port the
// newer counts.
Fabric FabricMerge::Joined() const {
  std::vector<const Fragment*> newest_first;
  for (const auto& [source, fragment] : fragments_) {
    newest_first.push_back(&fragment);
  }
  std::stable_sort(
      newest_first.begin(), newest_first.end(),
      [](const Fragment* left, const Fragment* right) { return left->observed > right->observed; });
  Fabric joined = newest_first.front()->fabric;
  absl::flat_hash_set<uint64_t> told;
  for (const HalfLink& half : joined.half_links) {
    told.insert(uint64_t{half.device} << 16 | half.port);
  }
  for (size_t i = 1; i < newest_first.size(); ++i) {
    const Fabric& more = newest_first[i]->fabric;
    std::vector<uint32_t> index;
    for (const FabricDevice& device : more.devices) {
      const size_t before = joined.devices.size();
      index.push_back(joined.Device(device.guid, device.kind));
      if (joined.devices.size() > before) {
        joined.devices.back() = device;
      }
    }
    for (HalfLink half : more.half_links) {
      half.device = index[half.device];
      half.peer = index[half.peer];
      if (told.insert(uint64_t{half.device} << 16 | half.port).second) {
        joined.half_links.push_back(half);
      }
    }
  }
  return joined;
}

void FabricMerge::Analyze(const GuidOwners& owners) {
  if (fragments_.empty()) {
    return;
  }
  Fabric several;
  const Fabric& joined =
      fragments_.size() == 1 ? fragments_.begin()->second.fabric : (several = Joined());
  analysis_ = AnalyzeFabric(joined, owners);
  findings_ = FabricFindings(joined, *analysis_);

  std::vector<ObservedDomain> observed;
  for (const FabricGroup& group : analysis_->groups) {
    ObservedDomain& domain =
        observed.emplace_back(ObservedDomain{FirstNameOf(joined, *analysis_, group), {}});
    for (const uint32_t host : group.hosts) {
      domain.members.push_back(analysis_->hosts[host].name);
    }
  }
  const std::vector<std::string> ids = group_ids_.Assign(observed);
  for (size_t i = 0; i < observed.size(); ++i) {
    for (const std::string& host : observed[i].members) {
      group_of_node_[host] = ids[i];
    }
  }
  for (const FabricHost& host : analysis_->hosts) {
    uint32_t rails = 0;
    for (const HostPort& port : host.ports) {
      rails |= port.compute && port.rail < 32 ? uint32_t{1} << port.rail : 0;
    }
    rails_of_node_[host.name] = rails;
  }
  FindTiers(joined, ids);
}

// Groups that share most switches of the tier above are one domain of that tier.
void FabricMerge::FindTiers(const Fabric& fabric, const std::vector<std::string>& ids) {
  if (analysis_->tiers.size() <= 2 || ids.empty()) {
    return;
  }
  std::vector<uint32_t> group_of_device(fabric.devices.size(), kNoGroup);
  for (const LeafSwitch& leaf : analysis_->leafs) {
    group_of_device[leaf.device] = leaf.group;
  }
  std::vector<std::vector<uint32_t>> above(ids.size());
  for (const HalfLink& half : fabric.half_links) {
    if (group_of_device[half.device] != kNoGroup &&
        fabric.devices[half.peer].kind == DeviceKind::kSwitch) {
      above[group_of_device[half.device]].push_back(half.peer);
    }
  }
  LeafHosts spines;
  for (const std::vector<uint32_t>& each : above) {
    spines.AddLeaf(each);
  }
  const LeafGrouping tiers = GroupLeafs(spines);
  std::vector<size_t> first(tiers.group_count, ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t& first_of_tier = first[tiers.group_of_leaf[i]];
    first_of_tier = std::min(first_of_tier, i);
    tier_of_group_[ids[i]] = "tier-" + ids[first_of_tier];
  }
}

const std::string* FabricMerge::GroupOf(std::string_view node) const {
  const auto it = group_of_node_.find(node);
  return it == group_of_node_.end() ? nullptr : &it->second;
}

const std::string* FabricMerge::TierOf(std::string_view group) const {
  const auto it = tier_of_group_.find(group);
  return it == tier_of_group_.end() ? nullptr : &it->second;
}

uint32_t FabricMerge::RailsOf(std::string_view node) const {
  const auto it = rails_of_node_.find(node);
  return it == rails_of_node_.end() ? 0 : it->second;
}

std::vector<std::string> FabricMerge::OlderThan(absl::Time time) const {
  std::vector<std::string> sources;
  for (const auto& [source, fragment] : fragments_) {
    if (fragment.observed < time) {
      sources.push_back(source);
    }
  }
  return sources;
}

std::vector<std::pair<std::string, absl::Time>> FabricMerge::Observed() const {
  std::vector<std::pair<std::string, absl::Time>> observed;
  for (const auto& [source, fragment] : fragments_) {
    observed.emplace_back(source, fragment.observed);
  }
  return observed;
}

}  // namespace asterism::topology
