#include "topology/topology_keeper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/natural_order.h"

namespace asterism::topology {
namespace {

constexpr size_t kExamplesOfMoves = 5;

}  // namespace

TopologyKeeper::TopologyKeeper(KeeperOptions options) : options_(std::move(options)) {
  auto empty = std::make_shared<TopologySnapshot>();
  std::vector<std::string> levels = {"node"};
  for (const LevelSource& level : options_.levels) {
    levels.push_back(level.name);
  }
  levels.emplace_back("cluster");
  absl::StatusOr<Cluster> cluster = BuildCluster(std::move(levels), {});
  CHECK_THAT(cluster.ok(), "the level list of a TopologyKeeper is not valid");
  empty->cluster = std::make_shared<const Cluster>(*std::move(cluster));
  empty->conditions = std::make_shared<const std::vector<NodeCondition>>();
  empty->findings = std::make_shared<const std::vector<Finding>>();
  snapshot_ = std::move(empty);
}

void TopologyKeeper::PutNodes(std::vector<LabelledNode> nodes, absl::Time now) {
  if (nodes.empty()) {
    return;
  }
  std::set<std::string, std::less<>> listed;
  for (LabelledNode& node : nodes) {
    listed.insert(node.name);
    Member& member = members_[node.name];
    member.absences = 0;
    if (!node.nvlink_domain.empty()) {
      member.last_domain = member.report.has_value() && !member.last_domain.empty()
                               ? member.last_domain
                               : node.nvlink_domain;
    }
    member.labels = std::move(node);
  }
  for (auto it = members_.begin(); it != members_.end();) {
    const bool absent = !listed.contains(it->first);
    it->second.absences += absent ? 1 : 0;
    it = it->second.absences >= kListingsToForget ? members_.erase(it) : std::next(it);
  }
  Rebuild(now);
}

void TopologyKeeper::PutReport(NodeReport report, absl::Time now) {
  const std::string name = report.node;
  switch (TakeReport(std::move(report), now)) {
    case Effect::kNone:
      return;
    case Effect::kCondition:
      PublishCondition(name, now);
      return;
    case Effect::kRebuild:
      CollectOwners();
      AnalyzeFabrics();
      Rebuild(now);
      return;
  }
}

void TopologyKeeper::PutReports(std::vector<NodeReport> reports, absl::Time now) {
  Effect most = Effect::kNone;
  for (NodeReport& report : reports) {
    most = std::max(most, TakeReport(std::move(report), now));
  }
  if (most == Effect::kRebuild) {
    CollectOwners();
    AnalyzeFabrics();
    Rebuild(now);
  } else if (most == Effect::kCondition) {
    PublishConditions(now);
  }
}

TopologyKeeper::Effect TopologyKeeper::TakeReport(NodeReport report, absl::Time now) {
  const auto it = members_.find(report.node);
  if (it == members_.end()) {
    return Effect::kNone;  // no node of the cluster, or not listed yet: the agent repeats itself
  }
  Member& member = it->second;
  if (member.report.has_value() && member.report->boot_id == report.boot_id &&
      report.generation < member.report->generation) {
    return Effect::kNone;
  }
  std::string domain = member.last_domain;
  if (report.domain_state == DomainState::kMember && !IsZeroClique(report.nvlink_domain)) {
    domain = report.nvlink_domain;
  } else if (report.domain_state == DomainState::kNone) {
    domain = "";
  }
  const bool same_nics =
      member.report.has_value() &&
      std::equal(member.report->nics.begin(), member.report->nics.end(), report.nics.begin(),
                 report.nics.end(), [](const ReportedNic& left, const ReportedNic& right) {
                   return left.node_guid == right.node_guid && left.port_guids == right.port_guids;
                 });
  const bool rebuild = domain != member.last_domain || (!same_nics && !report.nics.empty());
  if (report.nics.empty() && member.report.has_value()) {
    report.nics = std::move(member.report->nics);  // not told yet after a restart
  }
  member.last_domain = std::move(domain);
  member.report = std::move(report);
  member.heard = now;
  return rebuild ? Effect::kRebuild : Effect::kCondition;
}

// One node's health and counts: the domains stay as they are.
void TopologyKeeper::PublishCondition(std::string_view name, absl::Time now) {
  const NodeId node = snapshot_->cluster->FindNode(name);
  if (!node.valid()) {
    return;
  }
  auto conditions = std::make_shared<std::vector<NodeCondition>>(*snapshot_->conditions);
  (*conditions)[node.index()] = ConditionOf(members_.find(name)->second, name, now);
  auto next = std::make_shared<TopologySnapshot>(*snapshot_);
  ++next->generation;
  next->conditions = std::move(conditions);
  snapshot_ = std::move(next);
}

void TopologyKeeper::PutFabric(std::string source, Fabric fabric, absl::Time now) {
  if (fabrics_.Put(std::move(source), std::move(fabric), now)) {
    AnalyzeFabrics();
    Rebuild(now);
  }
}

// What we labelled before a restart keeps the ids of groups.
void TopologyKeeper::AnalyzeFabrics() {
  if (fabrics_.empty()) {
    return;
  }
  if (!fabrics_.analyzed()) {
    for (const auto& [name, member] : members_) {
      for (const LabelLevel& former : member.labels.former) {
        if (former.value.starts_with("leaf-")) {
          fabrics_.RememberGroup(name, former.value.substr(0, former.value.find("-s")));
        }
      }
    }
  }
  fabrics_.Analyze(owners_);
}

void TopologyKeeper::RemoveNode(std::string_view node) {
  if (const auto it = members_.find(node); it != members_.end()) {
    members_.erase(it);
    published_.erase(std::string(node));
    Rebuild(absl::InfinitePast());
  }
}

void TopologyKeeper::Confirm() {
  if (held_.has_value()) {
    Paths paths = *std::move(held_);
    held_.reset();
    Publish(std::move(paths), absl::InfinitePast());
  }
}

void TopologyKeeper::Tick(absl::Time now) {
  PublishConditions(now);
}

void TopologyKeeper::CollectOwners() {
  owners_.clear();
  owners_.reserve(members_.size() * 8);
  for (const auto& [name, member] : members_) {
    if (!member.report.has_value()) {
      continue;
    }
    for (const ReportedNic& nic : member.report->nics) {
      owners_.emplace(nic.node_guid, name);
      for (const uint64_t port : nic.port_guids) {
        owners_.emplace(port, name);
      }
    }
  }
}

bool TopologyKeeper::AddNvlink(size_t index, Paths& paths) const {
  bool any = false;
  auto member = members_.begin();  // `paths` has the same names in the same order
  for (auto& [name, path] : paths) {
    path[index] = member->second.last_domain;
    any = any || !path[index].empty();
    ++member;
  }
  return any;
}

bool TopologyKeeper::AddLeafGroups(size_t index, Paths& paths) const {
  bool any = false;
  auto member = members_.begin();
  for (auto& [name, path] : paths) {
    const std::vector<LabelLevel>& levels = (member++)->second.labels.levels;
    const std::string* group = fabrics_.GroupOf(name);
    if (group != nullptr) {
      path[index] = *group;
    } else if (!levels.empty()) {
      path[index] = levels[0].value;
    }
    any = any || !path[index].empty();
  }
  return any;
}

// A node keeps its place in its group for good; a new one takes the first free place.
bool TopologyKeeper::AddSlices(const LevelSource& level, size_t index, Paths& paths) {
  std::map<std::string, std::vector<std::string>, std::less<>> newcomers;
  for (const auto& [name, path] : paths) {
    const std::string* group = fabrics_.GroupOf(name);
    const auto seat = seats_.find(name);
    if (group != nullptr && (seat == seats_.end() || seat->second.group != *group)) {
      newcomers[*group].push_back(name);
    }
  }
  for (auto& [group, names] : newcomers) {
    std::sort(names.begin(), names.end(), NaturalLess);
    std::vector<std::string>& slots = slots_[group];
    auto next = names.begin();
    for (std::string& slot : slots) {
      const std::string* place = fabrics_.GroupOf(slot);
      const bool free = !members_.contains(slot) || place == nullptr || *place != group;
      if (free && next != names.end()) {
        seats_.erase(slot);
        slot = *next++;
      }
    }
    slots.insert(slots.end(), next, names.end());
  }
  for (const auto& [group, names] : newcomers) {
    const std::vector<std::string>& slots = slots_[group];
    for (size_t i = 0; i < slots.size(); ++i) {
      if (const std::string* place = fabrics_.GroupOf(slots[i]);
          place != nullptr && *place == group) {
        seats_[slots[i]] = {group, i};
      }
    }
  }
  bool any = false;
  const size_t size = std::max<size_t>(1, level.slice_nodes);
  for (auto& [name, path] : paths) {
    const std::string* group = fabrics_.GroupOf(name);
    const auto seat = seats_.find(name);
    if (group != nullptr && seat != seats_.end() && seat->second.group == *group) {
      path[index] = fmt::format("{}-s{}", *group, seat->second.number / size);
      any = true;
    }
  }
  return any;
}

bool TopologyKeeper::AddTiers(size_t index, Paths& paths) const {
  bool any = false;
  for (auto& [name, path] : paths) {
    const std::string* group = fabrics_.GroupOf(name);
    if (const std::string* tier = group == nullptr ? nullptr : fabrics_.TierOf(*group);
        tier != nullptr) {
      path[index] = *tier;
      any = true;
    }
  }
  return any;
}

bool TopologyKeeper::AddLabels(const LevelSource& level, size_t index, Paths& paths) const {
  bool any = false;
  for (auto& [name, path] : paths) {
    const LabelledNode& labels = members_.find(name)->second.labels;
    for (const std::vector<LabelLevel>* list : {&labels.declared, &labels.levels}) {
      for (const LabelLevel& each : *list) {
        const bool wanted = level.label.empty() ? list == &labels.levels : each.key == level.label;
        if (wanted && path[index].empty()) {
          path[index] = each.value;
          any = any || !each.value.empty();
        }
      }
    }
  }
  return any;
}

// Nothing is known: slices in the order of names, better than one domain a node.
void TopologyKeeper::AddByName(const LevelSource& level, size_t index, Paths& paths) {
  std::vector<std::string>& slots = slots_[""];
  std::vector<std::string> names;
  for (const auto& [name, path] : paths) {
    if (std::find(slots.begin(), slots.end(), name) == slots.end()) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end(), NaturalLess);
  slots.insert(slots.end(), names.begin(), names.end());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (const auto it = paths.find(slots[i]); it != paths.end()) {
      it->second[index] = fmt::format("by-name-{}", i / std::max<size_t>(1, level.slice_nodes));
    }
  }
}

bool TopologyKeeper::AddLevel(const LevelSource& level, size_t index, Paths& paths) {
  switch (level.kind) {
    case LevelSource::Kind::kAuto:
      return AddNvlink(index, paths) || AddSlices(level, index, paths) ||
             AddLabels(level, index, paths);
    case LevelSource::Kind::kNvlink:
      return AddNvlink(index, paths);
    case LevelSource::Kind::kLeafGroup:
      return AddLeafGroups(index, paths);
    case LevelSource::Kind::kSlice:
      return AddSlices(level, index, paths);
    case LevelSource::Kind::kTier:
      return AddTiers(index, paths);
    case LevelSource::Kind::kLabel:
      return AddLabels(level, index, paths);
  }
  return false;
}

// What people declare fills what nobody measured.
bool TopologyKeeper::AddDeclared(size_t index, Paths& paths) const {
  const std::string key = std::string(kDeclaredPrefix) + options_.levels[index].name;
  bool any = false;
  for (auto& [name, path] : paths) {
    if (!path[index].empty()) {
      continue;
    }
    for (const LabelLevel& each : members_.find(name)->second.labels.declared) {
      if (each.key == key) {
        path[index] = each.value;
        any = true;
      }
    }
  }
  return any;
}

TopologyKeeper::Paths TopologyKeeper::ProposePaths() {
  Paths paths;
  for (const auto& [name, member] : members_) {
    paths.emplace_hint(paths.end(), name, std::vector<std::string>(options_.levels.size()));
  }
  for (size_t index = 0; index < options_.levels.size(); ++index) {
    const bool measured = AddLevel(options_.levels[index], index, paths);
    const bool declared = AddDeclared(index, paths);
    if (!measured && !declared && options_.levels[index].kind == LevelSource::Kind::kAuto) {
      AddByName(options_.levels[index], index, paths);
    }
  }
  // What was known and is not told any more stays.
  auto before = published_.begin();
  for (auto& [name, path] : paths) {
    while (before != published_.end() && before->first < name) {
      ++before;
    }
    if (before == published_.end() || before->first != name) {
      continue;
    }
    for (size_t level = 0; level < path.size(); ++level) {
      if (path[level].empty()) {
        path[level] = before->second[level];
      }
    }
  }
  return paths;
}

// Nodes that would leave or change a domain that they are in. New nodes and new knowledge are no
// moves.
bool TopologyKeeper::IsMassChange(const Paths& paths) const {
  size_t moves = 0;
  auto after = paths.begin();
  for (const auto& [name, before] : published_) {
    while (after != paths.end() && after->first < name) {
      ++after;
    }
    bool moved = after == paths.end() || after->first != name;
    for (size_t level = 0; !moved && level < before.size(); ++level) {
      moved = !before[level].empty() && before[level] != after->second[level] &&
              !before[level].starts_with("by-name-");
    }
    moves += moved ? 1 : 0;
  }
  return static_cast<double>(moves) > options_.moves_max * static_cast<double>(published_.size());
}

void TopologyKeeper::Rebuild(absl::Time now) {
  Paths paths = ProposePaths();
  if (IsMassChange(paths) && !(held_.has_value() && *held_ == paths)) {
    held_ = std::move(paths);
    auto next = std::make_shared<TopologySnapshot>(*snapshot_);
    ++next->generation;
    next->change_held = true;
    next->findings = std::make_shared<const std::vector<Finding>>(Findings(now));
    snapshot_ = std::move(next);
    return;
  }
  held_.reset();
  Publish(std::move(paths), now);
}

void TopologyKeeper::Publish(Paths paths, absl::Time now) {
  std::vector<NodeFacts> facts;
  facts.reserve(paths.size());
  // In the order of the former snapshot, which is that of the next one but for what moved.
  const Cluster& former = *snapshot_->cluster;
  for (size_t node = 0; node < former.node_count(); ++node) {
    if (const auto it = paths.find(former.node_name(NodeId(node))); it != paths.end()) {
      facts.push_back({it->first, it->second});
    }
  }
  for (const auto& [name, path] : paths) {
    if (!former.FindNode(name).valid()) {
      facts.push_back({name, path});
    }
  }
  std::vector<std::string> levels = {"node"};
  for (const LevelSource& level : options_.levels) {
    levels.push_back(level.name);
  }
  levels.emplace_back("cluster");
  absl::StatusOr<Cluster> cluster = BuildCluster(std::move(levels), std::move(facts));
  if (BUG_IF(!cluster.ok(), "a merged topology is refused")) {
    return;
  }
  published_ = std::move(paths);
  auto next = std::make_shared<TopologySnapshot>();
  next->generation = snapshot_->generation + 1;
  next->cluster = std::make_shared<const Cluster>(*std::move(cluster));
  next->conditions =
      std::make_shared<const std::vector<NodeCondition>>(Conditions(*next->cluster, now));
  next->findings = std::make_shared<const std::vector<Finding>>(Findings(now));
  snapshot_ = std::move(next);
}

void TopologyKeeper::PublishConditions(absl::Time now) {
  auto next = std::make_shared<TopologySnapshot>(*snapshot_);
  ++next->generation;
  next->conditions =
      std::make_shared<const std::vector<NodeCondition>>(Conditions(*snapshot_->cluster, now));
  next->findings = std::make_shared<const std::vector<Finding>>(Findings(now));
  snapshot_ = std::move(next);
}

NodeCondition TopologyKeeper::ConditionOf(const Member& member, std::string_view name,
                                          absl::Time now) const {
  NodeCondition condition;
  condition.gpu_count = static_cast<uint32_t>(
      std::max<int64_t>(0, member.labels.gpu_count.value_or(member.labels.resources.gpu_capacity)));
  condition.rail_mask = fabrics_.RailsOf(name);
  if (member.report.has_value()) {
    condition.stale = now - member.heard > options_.report_ttl;
    condition.health = condition.stale ? NodeHealth::kUnknown : member.report->health;
    condition.gpu_count = member.report->gpu_count;
    condition.bad_links = member.report->bad_links;
  }
  return condition;
}

std::vector<NodeCondition> TopologyKeeper::Conditions(const Cluster& cluster,
                                                      absl::Time now) const {
  std::vector<NodeCondition> conditions(cluster.node_count());
  for (size_t i = 0; i < conditions.size(); ++i) {
    const std::string& name = cluster.node_name(NodeId(i));
    if (const auto member = members_.find(name); member != members_.end()) {
      conditions[i] = ConditionOf(member->second, name, now);
    }
  }
  return conditions;
}

std::vector<Finding> TopologyKeeper::Findings(absl::Time now) const {
  std::vector<Finding> findings = fabrics_.findings();
  for (const auto& [name, member] : members_) {
    findings.insert(findings.end(), member.labels.findings.begin(), member.labels.findings.end());
    if (!member.report.has_value()) {
      continue;
    }
    const NodeReport& report = *member.report;
    if (now - member.heard > options_.report_ttl) {
      findings.push_back({FindingKind::kStale, {name}, "its agent is silent"});
    }
    if (report.bad_links > 0) {
      findings.push_back({FindingKind::kNvlinkLinkDown,
                          {name},
                          fmt::format("{} NVLinks are down, says its agent", report.bad_links)});
    }
    if (report.domain_state == DomainState::kMember && IsZeroClique(report.nvlink_domain)) {
      findings.push_back({FindingKind::kCliqueZeroUuid, {name}, report.nvlink_domain});
    }
    if (!member.labels.nvlink_domain.empty() && report.domain_state == DomainState::kMember &&
        member.labels.nvlink_domain != report.nvlink_domain) {
      findings.push_back({FindingKind::kConflict,
                          {name},
                          fmt::format("its label says NVLink domain {}, its agent {}",
                                      member.labels.nvlink_domain, report.nvlink_domain)});
    }
    if (member.labels.gpu_count.has_value() && report.gpu_count > 0 &&
        *member.labels.gpu_count != int64_t{report.gpu_count} && !member.labels.mig_single) {
      findings.push_back({FindingKind::kGpuCountMismatch,
                          {name},
                          fmt::format("its label says {} GPUs, its agent sees {}",
                                      *member.labels.gpu_count, report.gpu_count)});
    }
  }
  for (const std::string& source : fabrics_.OlderThan(now - options_.fabric_ttl)) {
    findings.push_back({FindingKind::kStale, {source}, "no answer for longer than its time"});
  }
  if (held_.has_value()) {
    size_t moves = 0;
    std::string examples;
    for (const auto& [name, before] : published_) {
      const auto after = held_->find(name);
      if (after == held_->end() || after->second != before) {
        if (++moves <= kExamplesOfMoves) {
          examples += (examples.empty() ? "" : ", ") + name;
        }
      }
    }
    findings.push_back({FindingKind::kMassChangeHeld,
                        {fmt::format("{} nodes", moves)},
                        fmt::format("of {} nodes {} would move: {}", published_.size(), moves,
                                    examples + (moves > kExamplesOfMoves ? ", ..." : ""))});
  }
  SortFindings(findings);
  return findings;
}

}  // namespace asterism::topology
