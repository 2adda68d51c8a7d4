#include "controller/topology_page.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "controller/domain_gangs.h"
#include "controller/domain_use.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using scheduler::LedgerView;
using topology::Cluster;
using topology::DomainId;

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
                 const GangsOfDomain& jobs, std::string& out) {
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
  const DomainGangs jobs =
      FindDomainGangs(view, kTopologyJobsMax, [](const scheduler::GangView&) { return true; });
  for (size_t level = 0; level < levels; ++level) {
    out += level == 0 ? "" : ",";
    WriteText(view.cluster->level_name(level), out);
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
