#include "controller/topology_page.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "controller/domain_gangs.h"
#include "controller/domain_use.h"
#include "controller/topology_state.h"
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

std::string_view HealthText(topology::NodeHealth health) {
  switch (health) {
    case topology::NodeHealth::kHealthy:
      return "healthy";
    case topology::NodeHealth::kDegraded:
      return "degraded";
    case topology::NodeHealth::kUnhealthy:
      return "unhealthy";
    case topology::NodeHealth::kUnknown:
      break;
  }
  return "";
}

// Of most nodes of the domain; of equals the better source.
std::string_view SourceOf(const topology::TopologySnapshot& snapshot, size_t level,
                          DomainId domain) {
  std::array<size_t, topology::kPlaceOrigins> counts = {};
  const topology::NodeRange nodes = snapshot.cluster->NodesOf(level, domain);
  for (size_t node = nodes.begin.index(); node < nodes.end.index(); ++node) {
    ++counts[static_cast<size_t>((*snapshot.origins)[level - 1][node])];
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return topology::PlaceOriginName(static_cast<topology::PlaceOrigin>(most - counts.begin()));
}

void WriteWhence(const topology::TopologySnapshot& snapshot, size_t level, DomainId domain,
                 std::string& out) {
  const bool between = level > 0 && level + 1 < snapshot.cluster->level_count();
  const std::string_view text = level == 0
                                    ? HealthText((*snapshot.conditions)[domain.index()].health)
                                : between ? SourceOf(snapshot, level, domain)
                                          : "";
  if (!text.empty()) {
    out += level == 0 ? R"(,"health":)" : R"(,"source":)";
    WriteText(text, out);
  }
}

void WriteOrigins(const topology::TopologySnapshot& snapshot, std::string& out) {
  out += R"("origins":{)";
  for (size_t level = 1; level + 1 < snapshot.cluster->level_count(); ++level) {
    out += level == 1 ? "" : ",";
    WriteText(snapshot.cluster->level_name(level), out);
    out += ":{";
    bool first = true;
    const auto counts = CountOrigins(snapshot, level);
    for (size_t origin = 1; origin < counts.size(); ++origin) {
      if (counts[origin] > 0) {
        out += first ? "" : ",";
        first = false;
        WriteText(topology::PlaceOriginName(static_cast<topology::PlaceOrigin>(origin)), out);
        fmt::format_to(std::back_inserter(out), ":{}", counts[origin]);
      }
    }
    out += "}";
  }
  out += "},";
}

void WriteDomain(const Cluster& cluster, size_t level, DomainId domain, const DomainUse& use,
                 const GangsOfDomain& jobs, const topology::TopologySnapshot* snapshot,
                 std::string& out) {
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
      R"(,"nodes":{},"unusableNodes":{},"gpus":{{"total":{},"free":{},"held":{},"spare":{},"faulty":{}}},"jobs":[)",
      use.nodes, use.unusable_nodes, use.gpus.total, use.gpus.free, use.gpus.held, use.gpus.spare,
      use.gpus.faulty);
  for (size_t i = 0; i < jobs.names.size(); ++i) {
    out += i == 0 ? "" : ",";
    WriteText(jobs.names[i], out);
  }
  fmt::format_to(std::back_inserter(out), R"(],"jobCount":{})", jobs.count);
  if (snapshot != nullptr) {
    WriteWhence(*snapshot, level, domain, out);
  }
  out += "}";
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
  out += "],";
  // Both pictures are of one model, but for moments between two of them.
  const topology::TopologySnapshot* snapshot =
      options.topology != nullptr && options.topology->cluster == view.cluster ? options.topology
                                                                               : nullptr;
  if (snapshot != nullptr) {
    WriteOrigins(*snapshot, out);
  }
  out += R"("domains":[)";
  bool first = true;
  for (size_t level = 0; level < levels; ++level) {
    for (size_t index = 0; index < uses[level].size(); ++index) {
      out += first ? "" : ",";
      first = false;
      WriteDomain(*view.cluster, level, DomainId(index), uses[level][index], jobs[level][index],
                  snapshot, out);
    }
  }
  out += "]}";
  return out;
}

}  // namespace asterism::controller
