#include "controller/domain_gangs.h"

#include <algorithm>
#include <limits>

#include "topology/cluster.h"

namespace asterism::controller {

std::vector<const scheduler::GangView*> GangsByName(const scheduler::LedgerView& view) {
  std::vector<const scheduler::GangView*> gangs;
  gangs.reserve(view.gangs.size());
  for (const auto& [uid, gang] : view.gangs) {
    gangs.push_back(gang.get());
  }
  std::sort(gangs.begin(), gangs.end(), [](const auto* left, const auto* right) {
    return left->name != right->name ? left->name < right->name : left->uid < right->uid;
  });
  return gangs;
}

DomainGangs FindDomainGangs(const scheduler::LedgerView& view, size_t names_max,
                            absl::FunctionRef<bool(const scheduler::GangView&)> may_tell) {
  if (view.cluster == nullptr) {
    return {};
  }
  const topology::Cluster& cluster = *view.cluster;
  DomainGangs domains(cluster.level_count());
  // The gang that counted last, by level and domain, so that each counts once.
  std::vector<std::vector<size_t>> last(cluster.level_count());
  for (size_t level = 0; level < domains.size(); ++level) {
    domains[level].resize(cluster.domain_count(level));
    last[level].resize(cluster.domain_count(level), std::numeric_limits<size_t>::max());
  }
  const std::vector<const scheduler::GangView*> gangs = GangsByName(view);
  for (size_t index = 0; index < gangs.size(); ++index) {
    const bool told = may_tell(*gangs[index]);
    for (const scheduler::GangBlockView& block : gangs[index]->blocks) {
      const topology::NodeId node = cluster.FindNode(block.node);
      if (!node.valid()) {
        continue;
      }
      for (size_t level = 0; level < domains.size(); ++level) {
        const size_t domain = cluster.DomainOf(level, node).index();
        if (last[level][domain] == index) {
          continue;
        }
        last[level][domain] = index;
        GangsOfDomain& here = domains[level][domain];
        ++here.count;
        if (told && here.names.size() < names_max) {
          here.names.push_back(gangs[index]->name);
        }
      }
    }
  }
  return domains;
}

}  // namespace asterism::controller
