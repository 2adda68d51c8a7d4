#include "topology/topology_keeper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace asterism::topology {
namespace {

// Few reports touch their own conditions; many are cheaper together.
constexpr size_t kSingleConditionsMax = 64;

// What labels say about places; what a former leader wrote is no news.
bool SaysTheSame(const LabelledNode& left, const LabelledNode& right) {
  const auto same = [](const std::vector<LabelLevel>& one, const std::vector<LabelLevel>& other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                      [](const LabelLevel& a, const LabelLevel& b) {
                        return a.key == b.key && a.value == b.value;
                      });
  };
  return left.nvlink_domain == right.nvlink_domain && same(left.levels, right.levels) &&
         same(left.declared, right.declared) && left.gpu_count == right.gpu_count &&
         left.resources.gpu_capacity == right.resources.gpu_capacity &&
         left.findings == right.findings;
}

bool IsMeasured(PlaceOrigin origin) {
  return origin == PlaceOrigin::kNvlink || origin == PlaceOrigin::kFabric ||
         origin == PlaceOrigin::kRemembered;
}

}  // namespace

std::string_view PlaceOriginName(PlaceOrigin origin) {
  constexpr std::array<std::string_view, kPlaceOrigins> kNames = {
      "", "nvlink", "fabric", "label", "declared", "remembered", "by-name"};
  return kNames[static_cast<size_t>(origin)];
}

TopologyKeeper::TopologyKeeper(KeeperOptions options) : options_(std::move(options)) {
  Intern("");
  auto empty = std::make_shared<TopologySnapshot>();
  absl::StatusOr<Cluster> cluster = BuildCluster(LevelNames(), {});
  CHECK_THAT(cluster.ok(), "the level list of a TopologyKeeper is not valid");
  empty->cluster = std::make_shared<const Cluster>(*std::move(cluster));
  empty->conditions = std::make_shared<const std::vector<NodeCondition>>();
  empty->origins =
      std::make_shared<const std::vector<std::vector<PlaceOrigin>>>(options_.levels.size());
  empty->findings = std::make_shared<const std::vector<Finding>>();
  snapshot_ = std::move(empty);
}

std::vector<std::string> TopologyKeeper::LevelNames() const {
  std::vector<std::string> names = {options_.innermost};
  for (const LevelSource& level : options_.levels) {
    names.push_back(level.name);
  }
  if (!options_.outermost.empty()) {
    names.push_back(options_.outermost);
  }
  return names;
}

uint32_t TopologyKeeper::Intern(std::string_view value) {
  const auto found = value_ids_.find(value);
  if (found != value_ids_.end()) {
    return found->second;
  }
  const auto id = static_cast<uint32_t>(values_.size());
  values_.emplace_back(value);
  value_ids_.emplace(std::string(value), id);
  return id;
}

// What a former leader wrote, where it could have measured it.
void TopologyKeeper::Remember(Member& member) {
  member.remembered.assign(options_.levels.size(), 0);
  for (size_t index = 0; index < options_.levels.size(); ++index) {
    const LevelSource& level = options_.levels[index];
    const std::string key = std::string(kDomainLabelPrefix) + level.name;
    for (const LabelLevel& former : member.labels.former) {
      if (former.key == key && level.kind != LevelSource::Kind::kLabel &&
          level.kind != LevelSource::Kind::kDeclared && !former.value.starts_with("by-name-")) {
        member.remembered[index] = Intern(former.value);
      }
    }
  }
}

// True: a level that was remembered is not any more, since somebody took its label away.
bool TopologyKeeper::ForgetRemoved(Member& member, const std::vector<LabelLevel>& former) {
  bool forgot = false;
  for (const LabelLevel& before : member.labels.former) {
    const bool there = std::any_of(former.begin(), former.end(), [&before](const LabelLevel& now) {
      return now.key == before.key;
    });
    for (size_t index = 0; !there && index < options_.levels.size(); ++index) {
      if (before.key == std::string(kDomainLabelPrefix) + options_.levels[index].name) {
        forgot |= std::exchange(member.remembered[index], 0) != 0;
      }
    }
  }
  return forgot;
}

bool TopologyKeeper::TakeNode(LabelledNode node) {
  const auto [it, added] = members_.try_emplace(node.name);
  Member& member = it->second;
  member.absences = 0;
  if (!node.nvlink_domain.empty() && (!member.report.has_value() || member.last_domain.empty())) {
    member.last_domain = node.nvlink_domain;
  } else if (!added && !member.report.has_value() && node.nvlink_domain.empty() &&
             member.last_domain == member.labels.nvlink_domain) {
    member.last_domain.clear();  // the label is gone, and nobody else has said so
  }
  const bool forgot = !added && ForgetRemoved(member, node.former);
  const bool news = added || forgot || !SaysTheSame(member.labels, node);
  member.labels = std::move(node);
  if (added) {
    Remember(member);
    if (const auto early = early_reports_.find(it->first); early != early_reports_.end()) {
      NodeReport report = std::move(early->second);
      early_reports_.erase(early);
      if (TakeReport(std::move(report), now_) == Effect::kRebuild) {
        CollectOwners();
        AnalyzeFabrics();
      }
    }
  }
  return news;
}

void TopologyKeeper::PutNodes(std::vector<LabelledNode> nodes, absl::Time now) {
  now_ = std::max(now_, now);
  if (nodes.empty()) {
    return;
  }
  std::set<std::string, std::less<>> listed;
  for (LabelledNode& node : nodes) {
    listed.insert(node.name);
    TakeNode(std::move(node));
  }
  for (auto it = members_.begin(); it != members_.end();) {
    const bool absent = !listed.contains(it->first);
    it->second.absences += absent ? 1 : 0;
    const auto next = std::next(it);
    if (it->second.absences >= kListingsToForget) {
      DropNode(std::string(it->first));
    }
    it = next;
  }
  Rebuild(false);
}

bool TopologyKeeper::PutNode(LabelledNode node) {
  unsettled_ |= TakeNode(std::move(node));
  return unsettled_;
}

bool TopologyKeeper::DropNode(std::string_view node) {
  early_reports_.erase(std::string(node));
  if (const auto it = members_.find(node); it != members_.end()) {
    if (it->second.report.has_value()) {
      CountLinks(*it->second.report, -1);
    }
    members_.erase(it);
    unsettled_ = true;
  }
  return unsettled_;
}

void TopologyKeeper::Settle() {
  if (unsettled_) {
    Rebuild(false);
  }
}

void TopologyKeeper::RemoveNode(std::string_view node) {
  DropNode(node);
  Settle();
}

void TopologyKeeper::PutReport(NodeReport report, absl::Time now) {
  std::vector<NodeReport> one;
  one.push_back(std::move(report));
  PutReports(std::move(one), now);
}

void TopologyKeeper::PutReports(std::vector<NodeReport> reports, absl::Time now) {
  now_ = std::max(now_, now);
  Effect most = Effect::kNone;
  std::vector<std::string> names;
  for (NodeReport& report : reports) {
    if (reports.size() <= kSingleConditionsMax) {
      names.push_back(report.node);
    }
    most = std::max(most, TakeReport(std::move(report), now));
  }
  if (most == Effect::kRebuild) {
    CollectOwners();
    AnalyzeFabrics();
    Rebuild(false);
  } else if (most == Effect::kConditions || (most == Effect::kCondition && names.empty())) {
    PublishConditions();
  } else if (most == Effect::kCondition) {
    for (const std::string& name : names) {
      PublishCondition(name);
    }
  }
}

void TopologyKeeper::Hear(std::string_view node, absl::Time now) {
  now_ = std::max(now_, now);
  if (const auto it = members_.find(node); it != members_.end() && it->second.report.has_value()) {
    it->second.heard = now;
  }
}

// True: what is usual for the product has changed, and with it the conditions of its other nodes.
bool TopologyKeeper::CountLinks(const NodeReport& report, int step) {
  if (report.product.empty()) {
    return false;
  }
  const uint32_t down_before = UsualLinks(report, false);
  const uint32_t up_before = UsualLinks(report, true);
  ProductLinks& links = links_[report.product];
  for (auto* counts : {&links.nodes_by_down, &links.nodes_by_up}) {
    const uint32_t count = counts == &links.nodes_by_down ? report.bad_links : report.good_links;
    size_t& nodes = (*counts)[count];
    nodes = step > 0 ? nodes + 1 : nodes - std::min<size_t>(nodes, 1);
    if (nodes == 0) {
      counts->erase(count);
    }
  }
  return UsualLinks(report, false) != down_before || UsualLinks(report, true) != up_before;
}

TopologyKeeper::Effect TopologyKeeper::TakeReport(NodeReport report, absl::Time now) {
  const auto it = members_.find(report.node);
  if (it == members_.end()) {
    if (early_reports_.size() < kEarlyReportsMax) {
      early_reports_[report.node] = std::move(report);
    }
    return Effect::kNone;
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
  const bool same_nics = member.report.has_value() && member.report->nics == report.nics;
  const bool same_gpus =
      domain.empty() || (member.report.has_value() && member.report->gpu_count == report.gpu_count);
  // It takes away what a former leader remembered.
  const bool denies =
      report.domain_state == DomainState::kNone &&
      std::any_of(member.remembered.begin(), member.remembered.end(),
                  [this](uint32_t value) { return value != 0 && !IsOfFabric(values_[value]); });
  const bool rebuild =
      domain != member.last_domain || (!same_nics && !report.nics.empty()) || !same_gpus || denies;
  if (report.nics.empty() && member.report.has_value()) {
    report.nics = std::move(member.report->nics);  // not told yet after a restart
  }
  bool usual_changed = member.report.has_value() && CountLinks(*member.report, -1);
  usual_changed = CountLinks(report, 1) || usual_changed;
  member.last_domain = std::move(domain);
  member.report = std::move(report);
  member.heard = now;
  return rebuild ? Effect::kRebuild : usual_changed ? Effect::kConditions : Effect::kCondition;
}

void TopologyKeeper::PutFabric(std::string source, Fabric fabric, absl::Time now) {
  now_ = std::max(now_, now);
  if (fabrics_.Put(std::move(source), std::move(fabric), now)) {
    AnalyzeFabrics();
    Rebuild(false);
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

void TopologyKeeper::Confirm() {
  if (!held_.empty()) {
    Rebuild(true);
  }
}

void TopologyKeeper::Tick(absl::Time now) {
  now_ = std::max(now_, now);
  if (!held_.empty() && now_ - held_since_ >= options_.hold &&
      options_.hold > absl::ZeroDuration()) {
    Rebuild(false);
    return;
  }
  PublishConditions();
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

// Nodes that would leave or change a domain that they are in. New nodes and new knowledge are no
// moves, and neither is what people change in labels.
std::vector<TopologyKeeper::Move> TopologyKeeper::FindMoves() const {
  std::vector<Move> moves;
  for (const auto& [name, member] : members_) {
    for (size_t level = 0; level < member.published.size(); ++level) {
      const Place& before = member.published[level];
      const Place& after = member.proposed[level];
      if (before.value != 0 && before.value != after.value &&
          before.origin != PlaceOrigin::kByName &&
          (IsMeasured(before.origin) || IsMeasured(after.origin))) {
        moves.push_back({name, member.proposed});
        break;
      }
    }
  }
  return moves;
}

void TopologyKeeper::Rebuild(bool confirmed) {
  unsettled_ = false;
  Propose();
  std::vector<Move> moves = FindMoves();
  size_t known = 0;
  for (const auto& [name, member] : members_) {
    known += member.published.empty() ? 0 : 1;
  }
  const bool mass =
      moves.size() >= kMassNodesMin &&
      static_cast<double>(moves.size()) > options_.moves_max * static_cast<double>(known);
  const bool again = !held_.empty() && held_ == moves && now_ - held_since_ >= options_.hold;
  if (!mass || again || confirmed) {
    held_.clear();
    Publish();
    return;
  }
  // The rest of the update counts at once.
  for (const Move& move : moves) {
    Member& member = members_.find(move.node)->second;
    member.proposed = member.published;
  }
  if (held_ != moves) {
    held_since_ = now_;
    held_ = std::move(moves);
  }
  Publish();
}

void TopologyKeeper::Publish() {
  // In the order of the former snapshot, which is that of the next one but for what moved; then
  // what is new.
  std::vector<Members::value_type*> order(snapshot_->cluster->node_count(), nullptr);
  std::vector<Members::value_type*> added;
  for (auto& each : members_) {
    const NodeId node = each.second.node;
    (node.valid() ? order[node.index()] : added.emplace_back()) = &each;
  }
  std::erase(order, nullptr);
  order.insert(order.end(), added.begin(), added.end());
  std::vector<NodeFacts> facts;
  facts.reserve(order.size());
  for (const Members::value_type* each : order) {
    NodeFacts& fact = facts.emplace_back(NodeFacts{each->first, {}});
    fact.domains.reserve(each->second.proposed.size());
    for (const Place& place : each->second.proposed) {
      fact.domains.push_back(values_[place.value]);
    }
  }
  absl::StatusOr<Cluster> cluster = BuildCluster(LevelNames(), std::move(facts));
  if (BUG_IF(!cluster.ok(), "a merged topology is refused")) {
    return;
  }
  auto next = std::make_shared<TopologySnapshot>();
  next->generation = snapshot_->generation + 1;
  next->change_held = !held_.empty();
  next->cluster = std::make_shared<const Cluster>(*std::move(cluster));
  auto origins = std::make_shared<std::vector<std::vector<PlaceOrigin>>>(options_.levels.size());
  for (auto& level : *origins) {
    level.assign(next->cluster->node_count(), PlaceOrigin::kNobody);
  }
  for (auto& [name, member] : members_) {
    member.node = next->cluster->FindNode(name);
    for (size_t level = 0; level < member.proposed.size(); ++level) {
      (*origins)[level][member.node.index()] = member.proposed[level].origin;
    }
    member.published = member.proposed;
  }
  next->origins = std::move(origins);
  next->conditions = std::make_shared<const std::vector<NodeCondition>>(Conditions(*next->cluster));
  next->findings = std::make_shared<const std::vector<Finding>>(Findings());
  snapshot_ = std::move(next);
}

// One node's health and counts: the domains stay as they are.
void TopologyKeeper::PublishCondition(std::string_view name) {
  const NodeId node = snapshot_->cluster->FindNode(name);
  const auto member = members_.find(name);
  if (!node.valid() || member == members_.end()) {
    return;
  }
  const NodeCondition condition = ConditionOf(member->second, name);
  if (condition == (*snapshot_->conditions)[node.index()]) {
    return;
  }
  auto conditions = std::make_shared<std::vector<NodeCondition>>(*snapshot_->conditions);
  (*conditions)[node.index()] = condition;
  auto next = std::make_shared<TopologySnapshot>(*snapshot_);
  ++next->generation;
  next->conditions = std::move(conditions);
  snapshot_ = std::move(next);
}

void TopologyKeeper::PublishConditions() {
  std::vector<NodeCondition> conditions = Conditions(*snapshot_->cluster);
  std::vector<Finding> findings = Findings();
  if (conditions == *snapshot_->conditions && findings == *snapshot_->findings) {
    return;
  }
  auto next = std::make_shared<TopologySnapshot>(*snapshot_);
  ++next->generation;
  next->conditions = std::make_shared<const std::vector<NodeCondition>>(std::move(conditions));
  next->findings = std::make_shared<const std::vector<Finding>>(std::move(findings));
  snapshot_ = std::move(next);
}

std::optional<std::vector<TopologyKeeper::DomainLabel>> TopologyKeeper::DomainLabels(
    std::string_view node) const {
  const auto it = members_.find(node);
  if (it == members_.end()) {
    return std::nullopt;
  }
  std::vector<DomainLabel> labels;
  for (const Place& place : it->second.published) {
    labels.push_back({.value = place.origin == PlaceOrigin::kByName ? "" : values_[place.value],
                      .measured = IsMeasured(place.origin)});
  }
  labels.resize(options_.levels.size());
  return labels;
}

std::vector<SourceState> TopologyKeeper::Sources(absl::Time now) const {
  SourceState agents{.name = "agents"};
  SourceState labels{.name = "labels"};
  SourceState declared{.name = "declared"};
  size_t stale = 0;
  for (const auto& [name, member] : members_) {
    if (member.report.has_value()) {
      ++agents.nodes;
      stale += now - member.heard > options_.report_ttl ? 1 : 0;
      agents.last_seen = std::max(agents.last_seen, member.heard);
    }
    labels.nodes += member.labels.levels.empty() && member.labels.nvlink_domain.empty() ? 0 : 1;
    declared.nodes +=
        std::any_of(member.labels.declared.begin(), member.labels.declared.end(),
                    [](const LabelLevel& each) { return each.key.starts_with(kDeclaredPrefix); })
            ? 1
            : 0;
  }
  agents.state = stale == 0              ? SourceState::State::kReady
                 : stale == agents.nodes ? SourceState::State::kStale
                                         : SourceState::State::kPartial;
  std::vector<SourceState> sources;
  for (SourceState* each : {&agents, &labels, &declared}) {
    if (each->nodes > 0) {
      sources.push_back(std::move(*each));
    }
  }
  for (const auto& [name, observed] : fabrics_.Observed()) {
    sources.push_back({.name = "fabric/" + name,
                       .state = now - observed > options_.fabric_ttl ? SourceState::State::kStale
                                                                     : SourceState::State::kReady,
                       .last_seen = observed});
  }
  return sources;
}

std::array<size_t, kPlaceOrigins> TopologyKeeper::CountOrigins(size_t index) const {
  std::array<size_t, kPlaceOrigins> counts = {};
  for (const auto& [name, member] : members_) {
    if (index < member.published.size()) {
      ++counts[static_cast<size_t>(member.published[index].origin)];
    }
  }
  return counts;
}

}  // namespace asterism::topology
