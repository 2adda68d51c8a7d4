// What TopologyKeeper knows of each node, and what is wrong with the cluster.
#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.h"
#include "fmt/format.h"
#include "topology/natural_order.h"
#include "topology/topology_keeper.h"

namespace asterism::topology {
namespace {

constexpr size_t kExamplesOfMoves = 5;
// Fewer nodes of a product say nothing about what is usual.
constexpr size_t kPeersMin = 3;

}  // namespace

// What most nodes of the product have; nothing where there is no majority to speak of.
uint32_t TopologyKeeper::UsualLinks(const NodeReport& report, bool up) const {
  const auto found = links_.find(report.product);
  const uint32_t own = up ? report.good_links : 0;
  if (found == links_.end()) {
    return own;
  }
  const auto& counts = up ? found->second.nodes_by_up : found->second.nodes_by_down;
  size_t nodes = 0;
  std::pair<uint32_t, size_t> most = {0, 0};
  for (const auto& [count, of_nodes] : counts) {
    nodes += of_nodes;
    if (of_nodes > most.second) {
      most = {count, of_nodes};
    }
  }
  return nodes >= kPeersMin && 2 * most.second > nodes ? most.first : own;
}

NodeCondition TopologyKeeper::ConditionOf(const Member& member, std::string_view name) const {
  NodeCondition condition;
  condition.gpu_count = static_cast<uint32_t>(
      std::max<int64_t>(0, member.labels.gpu_count.value_or(member.labels.resources.gpu_capacity)));
  condition.rail_mask = fabrics_.RailsOf(name);
  if (!member.report.has_value()) {
    return condition;
  }
  const NodeReport& report = *member.report;
  condition.stale = now_ - member.heard > options_.report_ttl;
  condition.gpu_count = report.gpu_count;
  // A board of which every node has some links dark was built so.
  const uint32_t usual = UsualLinks(report, false);
  condition.bad_links = report.bad_links - std::min(report.bad_links, usual);
  condition.health = condition.stale ? NodeHealth::kUnknown
                     : condition.bad_links > 0 && report.health != NodeHealth::kUnhealthy
                         ? NodeHealth::kDegraded
                         : report.health;
  return condition;
}

std::vector<NodeCondition> TopologyKeeper::Conditions(const Cluster& cluster) const {
  std::vector<NodeCondition> conditions(cluster.node_count());
  for (const auto& [name, member] : members_) {
    if (member.node.valid()) {
      conditions[member.node.index()] = ConditionOf(member, name);
    }
  }
  return conditions;
}

void TopologyKeeper::FindOfReport(const std::string& name, const Member& member,
                                  std::vector<Finding>& findings) const {
  const NodeReport& report = *member.report;
  findings.insert(findings.end(), report.findings.begin(), report.findings.end());
  if (now_ - member.heard > options_.report_ttl) {
    findings.push_back({FindingKind::kStale, {name}, "its agent is silent"});
  }
  if (const uint32_t down = ConditionOf(member, name).bad_links; down > 0) {
    const uint32_t usual = UsualLinks(report, false);
    findings.push_back(
        {FindingKind::kNvlinkLinkDown,
         {name},
         fmt::format(
             "{} of {} NVLinks are down, says its agent{}", down,
             report.bad_links + report.good_links - usual,
             usual > 0 ? fmt::format(" ({} are dark on every {})", usual, report.product) : "")});
  } else if (const uint32_t up = UsualLinks(report, true); report.good_links < up) {
    findings.push_back({FindingKind::kNvlinkIslandSmallerThanPeers,
                        {name},
                        fmt::format("{} NVLinks are up; other nodes with {} have {}",
                                    report.good_links, report.product, up)});
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
  } else if (!member.labels.gpu_count.has_value() && member.labels.resources.told &&
             report.gpu_count > 0 && !report.product.empty() &&
             int64_t{report.gpu_count} < member.labels.resources.gpu_capacity) {
    findings.push_back({FindingKind::kGpuCountMismatch,
                        {name},
                        fmt::format("the node has {} GPUs, its agent sees {}",
                                    member.labels.resources.gpu_capacity, report.gpu_count)});
  }
}

void TopologyKeeper::FindOfDomains(std::vector<Finding>& findings) const {
  for (const auto& [id, domain] : nvlink_domains_) {
    if (domain.gpus > options_.nvlink_gpus_max) {
      findings.push_back({FindingKind::kCliqueOversize,
                          {id},
                          fmt::format("{} nodes with {} GPUs say that they are in it; at most {} "
                                      "can be: it counts as no domain",
                                      domain.nodes, domain.gpus, options_.nvlink_gpus_max)});
    }
  }
  // What is declared for a level, where its source says otherwise.
  for (size_t index = 0; index < options_.levels.size(); ++index) {
    const std::string key = std::string(kDeclaredPrefix) + options_.levels[index].name;
    size_t differ = 0;
    std::string example;
    // Names need not agree: domains differ where nodes that are declared together are apart.
    std::map<std::string, uint32_t, std::less<>> place_of_declared;
    for (const auto& [name, member] : members_) {
      if (index >= member.published.size() ||
          (member.published[index].origin != PlaceOrigin::kNvlink &&
           member.published[index].origin != PlaceOrigin::kFabric)) {
        continue;
      }
      for (const LabelLevel& each : member.labels.declared) {
        if (each.key != key) {
          continue;
        }
        const auto [it, added] =
            place_of_declared.emplace(each.value, member.published[index].value);
        if (!added && it->second != member.published[index].value) {
          ++differ;
          example = example.empty()
                        ? fmt::format("{} is declared to be in {}, and is in {}", name, each.value,
                                      values_[member.published[index].value])
                        : example;
        }
      }
    }
    if (differ > 0) {
      findings.push_back({FindingKind::kIntentDiffers,
                          {fmt::format("level {}", options_.levels[index].name)},
                          fmt::format("{} nodes, for example {}", differ, example)});
    }
  }
}

std::string TopologyKeeper::HeldChange() const {
  uint64_t hash = base::kFnv1aSeed;
  for (const Move& move : held_) {
    hash = base::Fnv1a(move.node, hash);
    for (const Place& place : move.target) {
      hash = base::Fnv1a(values_[place.value], base::Fnv1a("/", hash));
    }
  }
  return held_.empty() ? "" : fmt::format("{:012x}", hash >> 16);
}

Finding TopologyKeeper::HeldFinding() const {
  std::string examples;
  for (size_t i = 0; i < std::min(held_.size(), kExamplesOfMoves); ++i) {
    examples += (i == 0 ? "" : ", ") + held_[i].node;
  }
  return {FindingKind::kMassChangeHeld,
          {fmt::format("{} nodes", held_.size())},
          fmt::format("of {} nodes {} would move: {}{} (change {})", members_.size(), held_.size(),
                      examples, held_.size() > kExamplesOfMoves ? ", ..." : "", HeldChange())};
}

std::vector<Finding> TopologyKeeper::Findings() const {
  std::vector<Finding> findings = fabrics_.findings();
  for (const auto& [name, member] : members_) {
    findings.insert(findings.end(), member.labels.findings.begin(), member.labels.findings.end());
    if (member.report.has_value()) {
      FindOfReport(name, member, findings);
    }
  }
  FindOfDomains(findings);
  for (const std::string& source : fabrics_.OlderThan(now_ - options_.fabric_ttl)) {
    findings.push_back({FindingKind::kStale, {source}, "no answer for longer than its time"});
  }
  if (!held_.empty()) {
    findings.push_back(HeldFinding());
  }
  SortFindings(findings);
  return findings;
}

}  // namespace asterism::topology
