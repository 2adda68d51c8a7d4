#include "cli/topology_tree.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using operators::JsonFields;

constexpr size_t kPageBytesMax = size_t{64} << 20;
constexpr size_t kTreeLevelsMax = 16;
constexpr size_t kDomainsMax = size_t{1} << 21;
constexpr size_t kJobNamesMax = 64;
// As topology/topology_keeper.h names them.
constexpr std::string_view kOrigins[] = {"nvlink",   "fabric",     "label",
                                         "declared", "remembered", "by-name"};
constexpr int64_t kGpuCountMax = int64_t{1} << 40;

int64_t CountIn(const JsonFields& fields, std::string_view name) {
  return fields.Int(name, 0, kGpuCountMax).value_or(0);
}

class TreeReader {
 public:
  absl::StatusOr<TopologyTree> Read(const json& page) {
    const JsonFields root(&page, "", &error_);
    tree_.leading = root.Bool("leading").value_or(false);
    tree_.version = root.Int("version", 0, std::numeric_limits<int64_t>::max()).value_or(0);
    tree_.levels = root.Strings("levels", kTreeLevelsMax);
    tree_.domains.resize(tree_.levels.size());
    parents_.resize(tree_.levels.size());
    by_name_.resize(tree_.levels.size());
    for (const JsonFields& fields : root.Objects("domains", kDomainsMax)) {
      AddDomain(fields);
    }
    AddOrigins(root.Object("origins"));
    Link();
    RETURN_IF_ERROR(error_);
    return std::move(tree_);
  }

 private:
  void AddDomain(const JsonFields& fields) {
    const std::string level_name = fields.String("level").value_or("");
    const std::optional<size_t> level = tree_.FindLevel(level_name);
    if (!level.has_value()) {
      fields.Fail("level", fmt::format("\"{}\" is not among the levels", level_name));
      return;
    }
    TopologyDomain& domain = tree_.domains[*level].emplace_back();
    domain.name = fields.String("name").value_or("");
    domain.nodes = CountIn(fields, "nodes");
    domain.unusable_nodes = CountIn(fields, "unusableNodes");
    const JsonFields gpus = fields.Object("gpus");
    domain.gpus = {.total = CountIn(gpus, "total"),
                   .free = CountIn(gpus, "free"),
                   .held = CountIn(gpus, "held"),
                   .spare = CountIn(gpus, "spare"),
                   .faulty = CountIn(gpus, "faulty")};
    domain.jobs = fields.Strings("jobs", kJobNamesMax);
    domain.job_count = CountIn(fields, "jobCount");
    domain.source = fields.String("source").value_or("");
    domain.health = fields.String("health").value_or("");
    if (!by_name_[*level].emplace(domain.name, tree_.domains[*level].size() - 1).second) {
      fields.Fail("name", fmt::format("\"{}\" stands there twice", domain.name));
    }
    parents_[*level].push_back(fields.String("parent").value_or(""));
  }

  void AddOrigins(const JsonFields& origins) {
    for (const std::string& level : tree_.levels) {
      const JsonFields counts = origins.Object(level);
      LevelOrigins row{.level = level, .nodes = {}};
      for (const std::string_view origin : kOrigins) {
        if (const int64_t nodes = CountIn(counts, origin); nodes > 0) {
          row.nodes.emplace_back(origin, nodes);
        }
      }
      if (!row.nodes.empty()) {
        tree_.origins.push_back(std::move(row));
      }
    }
  }

  void Link() {
    for (size_t level = 0; level + 1 < tree_.domains.size() && error_.ok(); ++level) {
      for (size_t index = 0; index < tree_.domains[level].size(); ++index) {
        const auto found = by_name_[level + 1].find(parents_[level][index]);
        if (found == by_name_[level + 1].end()) {
          error_ = absl::InvalidArgumentError(fmt::format(
              "domains: \"{}\" has the parent \"{}\", which is no {}",
              tree_.domains[level][index].name, parents_[level][index], tree_.levels[level + 1]));
          return;
        }
        tree_.domains[level][index].parent = found->second;
        tree_.domains[level + 1][found->second].children.push_back(index);
      }
    }
  }

  absl::Status error_;
  TopologyTree tree_;
  std::vector<std::vector<std::string>> parents_;  // by level and domain
  std::vector<base::StringMap<size_t>> by_name_;   // by level
};

ordered_json DomainJson(const TopologyTree& tree, size_t level, const TopologyDomain& domain) {
  ordered_json row = {
      {"level", tree.levels[level]},
      {"name", domain.name},
      {"parent", domain.parent.has_value() ? tree.domains[level + 1][*domain.parent].name : ""},
      {"nodes", domain.nodes},
      {"unusableNodes", domain.unusable_nodes},
      {"gpus",
       {{"total", domain.gpus.total},
        {"free", domain.gpus.free},
        {"held", domain.gpus.held},
        {"spare", domain.gpus.spare},
        {"faulty", domain.gpus.faulty}}},
      {"jobs", domain.jobs},
      {"jobCount", domain.job_count}};
  if (!domain.source.empty()) {
    row["source"] = domain.source;
  }
  if (!domain.health.empty()) {
    row["health"] = domain.health;
  }
  return row;
}

}  // namespace

std::optional<size_t> TopologyTree::FindLevel(std::string_view name) const {
  const auto found = std::find(levels.begin(), levels.end(), name);
  return found == levels.end() ? std::nullopt
                               : std::optional(static_cast<size_t>(found - levels.begin()));
}

absl::StatusOr<TopologyTree> ParseTopologyTree(std::string_view text) {
  if (text.size() > kPageBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes are more than a page may have", text.size()));
  }
  const json page = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object()) {
    return absl::InvalidArgumentError("it is not a JSON object");
  }
  return TreeReader().Read(page);
}

ordered_json TopologyJson(const TopologyTree& tree, std::optional<size_t> level) {
  ordered_json page = {
      {"leading", tree.leading}, {"version", tree.version}, {"levels", tree.levels}};
  for (const LevelOrigins& row : tree.origins) {
    for (const auto& [origin, nodes] : row.nodes) {
      page["origins"][row.level][origin] = nodes;
    }
  }
  page["domains"] = ordered_json::array();
  for (size_t each = 0; each < tree.domains.size(); ++each) {
    if (level.has_value() && *level != each) {
      continue;
    }
    for (const TopologyDomain& domain : tree.domains[each]) {
      page["domains"].push_back(DomainJson(tree, each, domain));
    }
  }
  return page;
}

}  // namespace asterism::cli
