#include "controller/topology_page.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>

#include "controller/domain_use.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using scheduler::LedgerView;
using topology::Cluster;
using topology::DomainId;
using topology::NodeId;

// The gangs with a block in a domain.
struct DomainJobs {
  std::vector<std::string_view> names;
  int64_t count = 0;
  size_t last_gang = std::numeric_limits<size_t>::max();  // so that a gang counts once
};
using Jobs = std::vector<std::vector<DomainJobs>>;  // by level and domain

void AddGangs(const LedgerView& view, Jobs& jobs) {
  std::vector<const scheduler::GangView*> gangs;
  gangs.reserve(view.gangs.size());
  for (const auto& [uid, gang] : view.gangs) {
    gangs.push_back(gang.get());
  }
  std::sort(gangs.begin(), gangs.end(), [](const auto* left, const auto* right) {
    return left->name != right->name ? left->name < right->name : left->uid < right->uid;
  });
  const Cluster& cluster = *view.cluster;
  for (size_t index = 0; index < gangs.size(); ++index) {
    for (const scheduler::GangBlockView& block : gangs[index]->blocks) {
      const NodeId node = cluster.FindNode(block.node);
      if (!node.valid()) {
        continue;
      }
      for (size_t level = 0; level < jobs.size(); ++level) {
        DomainJobs& here = jobs[level][cluster.DomainOf(level, node).index()];
        if (here.last_gang == index) {
          continue;
        }
        here.last_gang = index;
        ++here.count;
        if (here.names.size() < kTopologyJobsMax) {
          here.names.push_back(gangs[index]->name);
        }
      }
    }
  }
}

void WriteText(std::string_view text, std::string& out) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (!plain) {
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

void WriteDomain(const Cluster& cluster, size_t level, DomainId domain, const DomainUse& use,
                 const DomainJobs& jobs, std::string& out) {
  out += R"({"level":)";
  WriteText(cluster.level_name(level), out);
  out += R"(,"name":)";
  WriteText(cluster.domain_name(level, domain), out);
  out += R"(,"parent":)";
  if (level + 1 < cluster.level_count()) {
    const DomainId parent(cluster.Parents(level)[domain.index()]);
    WriteText(cluster.domain_name(level + 1, parent), out);
  } else {
    out += R"("")";
  }
  fmt::format_to(
      std::back_inserter(out),
      R"(,"nodes":{},"unusableNodes":{},"gpus":{{"total":{},"free":{},"held":{},"spare":0,"faulty":{}}},"jobs":[)",
      use.nodes, use.unusable_nodes, use.gpus.total, use.gpus.free, use.gpus.held, use.gpus.faulty);
  for (size_t i = 0; i < jobs.names.size(); ++i) {
    out += i == 0 ? "" : ",";
    WriteText(jobs.names[i], out);
  }
  fmt::format_to(std::back_inserter(out), R"(],"jobCount":{}}})", jobs.count);
}

}  // namespace

std::string TopologyPage(const LedgerView& view, const TopologyPageOptions& options) {
  std::string out =
      fmt::format(R"({{"leading":{},"version":{},"levels":[)", options.leading, view.version);
  const DomainUses uses = MeasureDomains(view, options.gpu_resources);
  const size_t levels = uses.size();
  Jobs jobs(levels);
  for (size_t level = 0; level < levels; ++level) {
    jobs[level].resize(uses[level].size());
    out += level == 0 ? "" : ",";
    WriteText(view.cluster->level_name(level), out);
  }
  if (levels > 0) {
    AddGangs(view, jobs);
  }
  out += R"(],"domains":[)";
  bool first = true;
  for (size_t level = 0; level < levels; ++level) {
    for (size_t index = 0; index < uses[level].size(); ++index) {
      out += first ? "" : ",";
      first = false;
      WriteDomain(*view.cluster, level, DomainId(index), uses[level][index], jobs[level][index],
                  out);
    }
  }
  out += "]}";
  return out;
}

}  // namespace asterism::controller
