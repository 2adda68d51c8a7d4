#include "controller/ledger_message.h"

#include <algorithm>
#include <string_view>

#include "asterism/v1/placement.pb.h"
#include "controller/domain_gangs.h"
#include "controller/domain_use.h"
#include "fmt/format.h"
#include "operator/node_ranges.h"

namespace asterism::controller {
namespace {

using scheduler::GangView;
using scheduler::LedgerView;
using topology::Cluster;
using topology::DomainId;

constexpr size_t kDomainGangsMax = 10;
constexpr int kGangsMax = 1000;
constexpr size_t kShownLevelMax = 64;

void FillGpus(const DomainGpus& from, v1::Gpus& gpus) {
  gpus.set_total(from.total);
  gpus.set_free(from.free);
  gpus.set_held(from.held);
  gpus.set_spare(from.spare);
  gpus.set_faulty(from.faulty);
}

void FillGang(const GangView& from, v1::Gang& gang) {
  const std::string_view space = NamespaceOf(from.name);
  gang.mutable_job()->set_namespace_(std::string(space));
  gang.mutable_job()->set_name(from.name.substr(std::min(space.size() + 1, from.name.size())));
  gang.set_queue(from.queue);
  gang.set_gpu_product(from.product);
  gang.set_gpus(from.gpus_per_block * static_cast<int64_t>(from.blocks.size()));
  gang.set_epoch(from.epoch);
  std::vector<std::string> nodes;
  nodes.reserve(from.blocks.size());
  for (const scheduler::GangBlockView& block : from.blocks) {
    nodes.push_back(block.node);
  }
  gang.set_nodes(operators::FormatNodeRanges(nodes));
  nodes.clear();
  for (const scheduler::Spare& spare : from.spares) {
    nodes.push_back(spare.node);
  }
  gang.set_spare_nodes(operators::FormatNodeRanges(nodes));
}

void FillDomain(const Cluster& cluster, size_t level, DomainId id, const DomainUse& use,
                const GangsOfDomain& gangs, v1::Domain& domain) {
  domain.set_level(cluster.level_name(level));
  domain.set_name(cluster.domain_name(level, id));
  if (level + 1 < cluster.level_count()) {
    domain.set_parent(cluster.domain_name(level + 1, DomainId(cluster.Parents(level)[id.index()])));
  }
  domain.set_nodes(use.nodes);
  domain.set_unusable_nodes(use.unusable_nodes);
  FillGpus(use.gpus, *domain.mutable_gpus());
  for (const std::string_view name : gangs.names) {
    domain.add_gangs(std::string(name));
  }
  domain.set_gang_count(gangs.count);
}

absl::Status ReadWantedLevels(const Cluster& cluster, const v1::GetLedgerRequest& request,
                              std::vector<bool>& wanted) {
  wanted.assign(cluster.level_count(), request.levels().empty());
  for (int i = 0; i < request.levels_size(); ++i) {
    if (const std::optional<size_t> level = cluster.FindLevel(request.levels(i))) {
      wanted[*level] = true;
      continue;
    }
    std::vector<std::string> names;
    for (size_t level = 0; level < cluster.level_count(); ++level) {
      names.push_back(cluster.level_name(level));
    }
    return absl::InvalidArgumentError(
        fmt::format("levels[{}]: \"{}\" is not a level of this cluster ({})", i,
                    request.levels(i).substr(0, kShownLevelMax), fmt::join(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view NamespaceOf(std::string_view gang_name) {
  return gang_name.substr(0, gang_name.find('/'));
}

absl::Status FillLedger(const LedgerView& view, const std::vector<std::string>& gpu_resources,
                        const v1::GetLedgerRequest& request, const VisibleNamespaces& visible,
                        v1::GetLedgerResponse& response) {
  const Cluster& cluster = *view.cluster;
  std::vector<bool> wanted;
  if (const absl::Status status = ReadWantedLevels(cluster, request, wanted); !status.ok()) {
    return status;
  }
  response.set_ledger_version(view.version);
  const auto may_tell = [&](const GangView& gang) { return visible.Shows(NamespaceOf(gang.name)); };
  const DomainUses uses = MeasureDomains(view, gpu_resources);
  const DomainGangs gangs =
      FindDomainGangs(view, request.without_gangs() ? 0 : kDomainGangsMax, may_tell);
  for (size_t level = 0; level < uses.size(); ++level) {
    response.add_levels(cluster.level_name(level));
    for (size_t index = 0; wanted[level] && index < uses[level].size(); ++index) {
      FillDomain(cluster, level, DomainId(index), uses[level][index], gangs[level][index],
                 *response.add_domains());
    }
  }
  DomainGpus all;
  // Of the last level: one, or the nodes where there is no other level.
  for (const DomainUse& use : uses.empty() ? std::vector<DomainUse>() : uses.back()) {
    all.Add(use.gpus);
  }
  FillGpus(all, *response.mutable_gpus());
  response.set_gang_count(static_cast<int64_t>(view.gangs.size()));
  if (!request.without_gangs()) {
    for (const GangView* gang : GangsByName(view)) {
      if (may_tell(*gang) && response.gangs_size() < kGangsMax) {
        FillGang(*gang, *response.add_gangs());
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace asterism::controller
