#include "controller/topology_page.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using scheduler::LedgerView;
using topology::Cluster;
using topology::DomainId;
using topology::NodeId;

struct DomainGpus {
  int64_t total = 0;
  int64_t free = 0;
  int64_t held = 0;
  int64_t faulty = 0;
};

struct DomainRow {
  DomainGpus gpus;
  int64_t unusable_nodes = 0;
  std::vector<std::string_view> jobs;
  int64_t job_count = 0;
  size_t last_gang = std::numeric_limits<size_t>::max();  // so that a gang counts once
};

std::vector<size_t> GpuSlots(const LedgerView& view, const std::vector<std::string>& resources) {
  std::vector<size_t> slots;
  for (size_t slot = 0; slot < view.resource_names.size(); ++slot) {
    if (std::find(resources.begin(), resources.end(), view.resource_names[slot]) !=
        resources.end()) {
      slots.push_back(slot);
    }
  }
  return slots;
}

DomainGpus GpusOf(const scheduler::NodeView& node, const std::vector<size_t>& slots) {
  DomainGpus gpus;
  for (const size_t slot : slots) {
    // More may be used than there is when a foreign pod came first.
    const int64_t total = std::max<int64_t>(node.allocatable[slot], 0);
    const int64_t held = std::clamp<int64_t>(node.used[slot], 0, total);
    gpus.total += total;
    gpus.held += held;
    (node.usable ? gpus.free : gpus.faulty) += total - held;
  }
  return gpus;
}

// Rows by level and domain.
using Rows = std::vector<std::vector<DomainRow>>;

void AddNodes(const LedgerView& view, const std::vector<size_t>& slots, Rows& rows) {
  const Cluster& cluster = *view.cluster;
  for (size_t index = 0; index < view.nodes.size() && index < cluster.node_count(); ++index) {
    const scheduler::NodeView& node = view.nodes[index];
    const DomainGpus gpus = GpusOf(node, slots);
    for (size_t level = 0; level < rows.size(); ++level) {
      DomainRow& row = rows[level][cluster.DomainOf(level, NodeId(index)).index()];
      row.gpus.total += gpus.total;
      row.gpus.free += gpus.free;
      row.gpus.held += gpus.held;
      row.gpus.faulty += gpus.faulty;
      row.unusable_nodes += node.usable ? 0 : 1;
    }
  }
}

void AddGangs(const LedgerView& view, Rows& rows) {
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
      for (size_t level = 0; level < rows.size(); ++level) {
        DomainRow& row = rows[level][cluster.DomainOf(level, node).index()];
        if (row.last_gang == index) {
          continue;
        }
        row.last_gang = index;
        ++row.job_count;
        if (row.jobs.size() < kTopologyJobsMax) {
          row.jobs.push_back(gangs[index]->name);
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

void WriteDomain(const Cluster& cluster, size_t level, DomainId domain, const DomainRow& row,
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
      R"(,"nodes":{},"unusableNodes":{},"gpus":{{"total":{},"free":{},"held":{},"spare":0,"faulty":{}}},"jobs":[)",
      cluster.NodesOf(level, domain).size(), row.unusable_nodes, row.gpus.total, row.gpus.free,
      row.gpus.held, row.gpus.faulty);
  for (size_t i = 0; i < row.jobs.size(); ++i) {
    out += i == 0 ? "" : ",";
    WriteText(row.jobs[i], out);
  }
  fmt::format_to(std::back_inserter(out), R"(],"jobCount":{}}})", row.job_count);
}

}  // namespace

std::string TopologyPage(const LedgerView& view, const TopologyPageOptions& options) {
  std::string out =
      fmt::format(R"({{"leading":{},"version":{},"levels":[)", options.leading, view.version);
  const size_t levels = view.cluster == nullptr ? 0 : view.cluster->level_count();
  Rows rows(levels);
  for (size_t level = 0; level < levels; ++level) {
    rows[level].resize(view.cluster->domain_count(level));
    out += level == 0 ? "" : ",";
    WriteText(view.cluster->level_name(level), out);
  }
  if (levels > 0) {
    AddNodes(view, GpuSlots(view, options.gpu_resources), rows);
    AddGangs(view, rows);
  }
  out += R"(],"domains":[)";
  bool first = true;
  for (size_t level = 0; level < levels; ++level) {
    for (size_t index = 0; index < rows[level].size(); ++index) {
      out += first ? "" : ",";
      first = false;
      WriteDomain(*view.cluster, level, DomainId(index), rows[level][index], out);
    }
  }
  out += "]}";
  return out;
}

}  // namespace asterism::controller
