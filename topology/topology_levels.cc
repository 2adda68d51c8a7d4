// What TopologyKeeper makes of its sources, level by level. A fill gives places to nodes that have
// none yet, so the order of fills is the rank of sources.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "topology/natural_order.h"
#include "topology/topology_keeper.h"

namespace asterism::topology {

using Kind = LevelSource::Kind;

bool TopologyKeeper::IsOfFabric(std::string_view domain) {
  return domain.starts_with("leaf-") || domain.starts_with("tier-");
}

void TopologyKeeper::Propose() {
  for (auto& [name, member] : members_) {
    member.proposed.assign(options_.levels.size(), Place());
    member.group = fabrics_.empty() ? nullptr : fabrics_.GroupOf(name);
  }
  CountNvlinkDomains();
  for (size_t index = 0; index < options_.levels.size(); ++index) {
    const LevelSource& level = options_.levels[index];
    switch (level.kind) {
      case Kind::kAuto:
        FillNvlink(index, /*several_nodes=*/true);  // one of one node is no more than the node
        FillSlices(level, index);
        break;
      case Kind::kNvlink:
        FillNvlink(index, /*several_nodes=*/false);
        break;
      case Kind::kLeafGroup:
        FillLeafGroups(index);
        break;
      case Kind::kSlice:
        FillSlices(level, index);
        break;
      case Kind::kTier:
        FillTiers(index);
        break;
      case Kind::kLabel:
        FillLabels(level, index);
        break;
      case Kind::kDeclared:
        break;
    }
    if (level.kind == Kind::kLabel) {
      continue;
    }
    FillRemembered(index);
    if (level.kind == Kind::kAuto || level.kind == Kind::kLeafGroup) {
      FillLabels(level, index);
    }
    FillDeclared(index);
    if (level.kind == Kind::kAuto) {
      FillByName(level, index);
    }
  }
}

void TopologyKeeper::CountNvlinkDomains() {
  nvlink_domains_.clear();
  for (const auto& [name, member] : members_) {
    if (!member.last_domain.empty()) {
      NvlinkDomain& domain = nvlink_domains_[member.last_domain];
      ++domain.nodes;
      domain.gpus += ConditionOf(member, name).gpu_count;
    }
  }
}

void TopologyKeeper::FillNvlink(size_t index, bool several_nodes) {
  for (auto& [name, member] : members_) {
    if (member.last_domain.empty() || member.proposed[index].value != 0) {
      continue;
    }
    const NvlinkDomain& domain = nvlink_domains_.find(member.last_domain)->second;
    if (domain.gpus <= options_.nvlink_gpus_max && (!several_nodes || domain.nodes > 1)) {
      member.proposed[index] = {Intern(member.last_domain), PlaceOrigin::kNvlink};
    }
  }
}

void TopologyKeeper::FillLeafGroups(size_t index) {
  for (auto& [name, member] : members_) {
    if (member.group != nullptr) {
      member.proposed[index] = {Intern(*member.group), PlaceOrigin::kFabric};
    }
  }
}

// A node keeps its place in its group for good; a new one takes the first free place, or one in the
// slice that a former leader gave it.
void TopologyKeeper::SeatNewcomers(const LevelSource& level) {
  const size_t size = std::max<size_t>(1, level.slice_nodes);
  const std::string key = std::string(kDomainLabelPrefix) + level.name;
  std::map<std::string, std::vector<std::string>, std::less<>> newcomers;
  for (const auto& [name, member] : members_) {
    if (member.group == nullptr) {
      continue;
    }
    const auto seat = seats_.find(name);
    if (seat == seats_.end() || seat->second.group != *member.group) {
      newcomers[*member.group].push_back(name);
    }
  }
  for (auto& [group, names] : newcomers) {
    std::sort(names.begin(), names.end(), NaturalLess);
    std::vector<std::string>& slots = slots_[group];
    for (std::string& slot : slots) {
      const std::string* place = fabrics_.GroupOf(slot);
      if (!slot.empty() && (!members_.contains(slot) || place == nullptr || *place != group)) {
        if (const auto seat = seats_.find(slot);
            seat != seats_.end() && seat->second.group == group) {
          seats_.erase(seat);
        }
        slot.clear();
      }
    }
    const auto sit = [&, &group = group](const std::string& name, size_t number) {
      slots.resize(std::max(slots.size(), number + 1));
      slots[number] = name;
      seats_[name] = {group, number};
    };
    std::vector<std::string> others;
    for (const std::string& name : names) {
      const Member& member = members_.find(name)->second;
      size_t slice = size_t{1} << 20;
      for (const LabelLevel& former : member.labels.former) {
        const std::string prefix = group + "-s";
        if (former.key == key && former.value.starts_with(prefix) &&
            former.value.size() <= prefix.size() + 5 && former.value.size() > prefix.size()) {
          slice = 0;
          for (const char digit : former.value.substr(prefix.size())) {
            slice = digit >= '0' && digit <= '9' ? slice * 10 + static_cast<size_t>(digit - '0')
                                                 : size_t{1} << 20;
          }
        }
      }
      bool seated = false;
      for (size_t i = 0; slice < members_.size() && i < size && !seated; ++i) {
        const size_t number = slice * size + i;
        if (number >= slots.size() || slots[number].empty()) {
          sit(name, number);
          seated = true;
        }
      }
      if (!seated) {
        others.push_back(name);
      }
    }
    size_t number = 0;
    for (const std::string& name : others) {
      while (number < slots.size() && !slots[number].empty()) {
        ++number;
      }
      sit(name, number);
    }
  }
}

void TopologyKeeper::FillSlices(const LevelSource& level, size_t index) {
  if (fabrics_.empty()) {
    return;
  }
  SeatNewcomers(level);
  const size_t size = std::max<size_t>(1, level.slice_nodes);
  std::string last_group;
  std::vector<uint32_t> slices;  // of last_group, by slice
  for (auto& [name, member] : members_) {
    const std::string* const group = member.group;
    if (group == nullptr || member.proposed[index].value != 0) {
      continue;
    }
    const auto seat = seats_.find(name);
    if (seat == seats_.end() || seat->second.group != *group) {
      continue;
    }
    if (*group != last_group) {
      last_group = *group;
      slices.clear();
    }
    const size_t slice = seat->second.number / size;
    slices.resize(std::max(slices.size(), slice + 1), 0);
    if (slices[slice] == 0) {
      slices[slice] = Intern(fmt::format("{}-s{}", *group, slice));
    }
    member.proposed[index] = {slices[slice], PlaceOrigin::kFabric};
  }
}

void TopologyKeeper::FillTiers(size_t index) {
  for (auto& [name, member] : members_) {
    if (const std::string* tier =
            member.group == nullptr ? nullptr : fabrics_.TierOf(*member.group);
        tier != nullptr) {
      member.proposed[index] = {Intern(*tier), PlaceOrigin::kFabric};
    }
  }
}

void TopologyKeeper::FillLabels(const LevelSource& level, size_t index) {
  for (auto& [name, member] : members_) {
    const LabelledNode& labels = member.labels;
    for (const std::vector<LabelLevel>* list : {&labels.declared, &labels.levels}) {
      for (const LabelLevel& each : *list) {
        const bool wanted = level.label.empty() ? list == &labels.levels : each.key == level.label;
        if (wanted && member.proposed[index].value == 0 && !each.value.empty()) {
          member.proposed[index] = {Intern(each.value), each.key.starts_with(kDeclaredPrefix)
                                                            ? PlaceOrigin::kDeclared
                                                            : PlaceOrigin::kLabel};
        }
      }
    }
  }
}

// What people declare fills what nobody measured.
void TopologyKeeper::FillDeclared(size_t index) {
  const std::string key = std::string(kDeclaredPrefix) + options_.levels[index].name;
  for (auto& [name, member] : members_) {
    if (member.proposed[index].value != 0) {
      continue;
    }
    for (const LabelLevel& each : member.labels.declared) {
      if (each.key == key && !each.value.empty()) {
        member.proposed[index] = {Intern(each.value), PlaceOrigin::kDeclared};
      }
    }
  }
}

// Until somebody says something. A node whose place is known some other way needs no memory of it
// any more.
void TopologyKeeper::FillRemembered(size_t index) {
  for (auto& [name, member] : members_) {
    uint32_t& remembered = member.remembered[index];
    if (remembered == 0) {
      continue;
    }
    const bool denied = !IsOfFabric(values_[remembered]) && member.report.has_value() &&
                        member.report->domain_state == DomainState::kNone;
    if (member.proposed[index].value != 0 || denied) {
      remembered = 0;
    } else {
      member.proposed[index] = {remembered, PlaceOrigin::kRemembered};
    }
  }
}

// Nothing is known of any node: slices in the order of names, better than one domain a node.
void TopologyKeeper::FillByName(const LevelSource& level, size_t index) {
  const bool known = std::any_of(members_.begin(), members_.end(), [index](const auto& each) {
    return each.second.proposed[index].value != 0;
  });
  if (known) {
    return;
  }
  std::vector<std::string>& slots = slots_[""];
  absl::flat_hash_set<std::string> seated(slots.begin(), slots.end());
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    if (!seated.contains(name)) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end(), NaturalLess);
  slots.insert(slots.end(), names.begin(), names.end());
  const size_t size = std::max<size_t>(1, level.slice_nodes);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (const auto it = members_.find(slots[i]); it != members_.end()) {
      it->second.proposed[index] = {Intern(fmt::format("by-name-{}", i / size)),
                                    PlaceOrigin::kByName};
    }
  }
}

}  // namespace asterism::topology
