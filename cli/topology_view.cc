#include "cli/topology_view.h"

#include <optional>
#include <string>
#include <utility>

#include "cli/topology_folds.h"
#include "fmt/format.h"
#include "operator/node_ranges.h"

namespace asterism::cli {
namespace {

// Below one parent; the rest shares a last line. More would be no overview.
constexpr size_t kGroupsMax = 24;
constexpr size_t kNamesWidth = 60;

std::string Plural(const std::string& word, int64_t count) {
  if (count == 1) {
    return word;
  }
  return word + (word.ends_with('s') || word.ends_with('x') ? "es" : "s");
}

std::string Counted(int64_t count, const std::string& word) {
  return fmt::format("{} {}", count, Plural(word, count));
}

class TopologyRenderer {
 public:
  TopologyRenderer(const TopologyTree& tree, const TopologyViewOptions& options)
      : tree_(tree), options_(options), folds_(!options.wide && !options.level.has_value()) {
    // Between the nodes and the cluster there may be nothing to show instead.
    const size_t folded_end = tree.levels.size() > 2 ? 1 : 0;
    last_level_ = options.level.value_or(options.wide ? 0 : folded_end);
  }

  std::vector<Line> Render() {
    if (tree_.domains.empty() || tree_.domains.back().empty() || tree_.domains.front().empty()) {
      return {
          Line("no GPU node is known: nodes count once they show GPUs "
               "(status.allocatable) and match the controller's nodeSelector")};
    }
    folds_of_.emplace(tree_, last_level_);
    const size_t top = tree_.levels.size() - 1;
    for (size_t index = 0; index < tree_.domains[top].size(); ++index) {
      AddOne(top, tree_.domains[top][index], 0);
      AddChildren(top, tree_.domains[top][index], 1);
    }
    AddUnusable();
    AddOrigins();
    if (!tree_.leading) {
      lines_.emplace_back(
          "note: the controller that answered does not lead; its picture may be "
          "older than the leader's",
          Tone::kWarn);
    }
    return std::move(lines_);
  }

 private:
  void AddChildren(size_t level, const TopologyDomain& parent, size_t depth) {
    if (level <= last_level_) {
      return;
    }
    const std::vector<TopologyDomain>& below = tree_.domains[level - 1];
    if (!folds_) {
      for (const size_t child : parent.children) {
        AddOne(level - 1, below[child], depth);
        AddChildren(level - 1, below[child], depth + 1);
      }
      return;
    }
    const std::vector<std::vector<size_t>> groups = folds_of_->GroupsOf(level - 1, parent.children);
    const size_t shown = groups.size() > kGroupsMax ? kGroupsMax - 1 : groups.size();
    for (size_t i = 0; i < shown; ++i) {
      const TopologyDomain& first = below[groups[i][0]];
      if (groups[i].size() == 1) {
        AddOne(level - 1, first, depth);
      } else {
        AddGroup(level - 1, groups[i], depth);
      }
      AddChildren(level - 1, first, depth + 1);
    }
    if (shown < groups.size()) {
      AddRest(level - 1, {groups.begin() + static_cast<std::ptrdiff_t>(shown), groups.end()},
              depth);
    }
  }

  Line& Start(size_t depth) { return lines_.emplace_back().AddSpaces(2 * depth); }

  static void AddCounts(const GpuCounts& gpus, Line& line) {
    line.Add(fmt::format("{}", gpus.free), gpus.free > 0 ? Tone::kGood : Tone::kPlain);
    line.Add(fmt::format(" of {} free", Counted(gpus.total, "GPU")));
    if (gpus.held > 0) {
      line.Add(", ").Add(fmt::format("{} held", gpus.held), Tone::kWarn);
    }
    if (gpus.spare > 0) {
      line.Add(fmt::format(", {} spare", gpus.spare));
    }
    if (gpus.faulty > 0) {
      line.Add(", ").Add(fmt::format("{} faulty", gpus.faulty), Tone::kBad);
    }
  }

  static void AddUnusableNodes(size_t level, const TopologyDomain& domain, Line& line) {
    if (domain.unusable_nodes > 0) {
      line.Add(level == 0 ? " (not usable)"
                          : fmt::format(" ({} not usable)", Counted(domain.unusable_nodes, "node")),
               Tone::kBad);
    }
  }

  void AddOne(size_t level, const TopologyDomain& domain, size_t depth) {
    Line& line = Start(depth);
    const std::string& level_name = tree_.levels[level];
    line.Add(level_name, Tone::kBold);
    if (domain.name != level_name) {
      line.Add(fmt::format(" {}", domain.name));
    }
    if (level > 0) {
      line.Add(fmt::format(", {}", Counted(domain.nodes, "node")));
    }
    line.Add(": ");
    AddCounts(domain.gpus, line);
    AddUnusableNodes(level, domain, line);
    if (options_.wide || options_.level.has_value()) {
      if (!domain.source.empty()) {
        line.Add(fmt::format(" [{}]", domain.source), Tone::kFaint);
      }
      if (domain.health == "degraded" || domain.health == "unhealthy") {
        line.Add(fmt::format(" [{}]", domain.health), Tone::kBad);
      }
      if (level == last_level_) {
        AddJobs(domain, line);
      }
    }
  }

  // Which of it is measured, and which is what people say.
  void AddOrigins() {
    for (const LevelOrigins& row : tree_.origins) {
      Line& line = lines_.emplace_back();
      line.Add(fmt::format("{}: ", row.level), Tone::kFaint);
      bool first = true;
      for (const auto& [origin, nodes] : row.nodes) {
        line.Add(
            fmt::format("{}{} {}", first ? "" : ", ", OriginText(origin), Counted(nodes, "node")),
            origin == "by-name" ? Tone::kWarn : Tone::kFaint);
        first = false;
      }
    }
    std::vector<std::string> unfit;
    for (const TopologyDomain& node : tree_.domains.front()) {
      if (node.health == "degraded" || node.health == "unhealthy") {
        unfit.push_back(node.name);
      }
    }
    if (!unfit.empty()) {
      lines_.emplace_back(
          fmt::format("{} measured as degraded or unhealthy: {} (kubectl asterism doctor)",
                      Counted(static_cast<int64_t>(unfit.size()), "node"),
                      operators::FormatNodeRanges(unfit)),
          Tone::kBad);
    }
  }

  static std::string OriginText(const std::string& origin) {
    return origin == "nvlink"       ? "measured (NVLink) of"
           : origin == "fabric"     ? "measured (fabric) of"
           : origin == "label"      ? "by labels of"
           : origin == "declared"   ? "declared for"
           : origin == "remembered" ? "from a former leader of"
           : origin == "by-name"    ? "guessed by the order of names for"
                                    : origin + " of";
  }

  static void AddJobs(const TopologyDomain& domain, Line& line) {
    if (domain.jobs.empty()) {
      return;
    }
    line.Add(fmt::format("  {}", fmt::join(domain.jobs, ", ")), Tone::kFaint);
    const int64_t more = domain.job_count - static_cast<int64_t>(domain.jobs.size());
    if (more > 0) {
      line.Add(fmt::format(" and {} more", more), Tone::kFaint);
    }
  }

  void AddGroup(size_t level, const std::vector<size_t>& group, size_t depth) {
    const TopologyDomain& first = tree_.domains[level][group[0]];
    Line& line = Start(depth);
    line.Add(Counted(static_cast<int64_t>(group.size()), tree_.levels[level]), Tone::kBold);
    line.Add(level > 0 ? fmt::format(", each {}: ", Counted(first.nodes, "node")) : ", each ");
    AddCounts(first.gpus, line);
    AddUnusableNodes(level, first, line);
    std::vector<std::string> names;
    names.reserve(group.size());
    for (const size_t member : group) {
      names.push_back(tree_.domains[level][member].name);
    }
    line.Add("  ").Add(CutToWidth(Escaped(operators::FormatNodeRanges(names)), kNamesWidth),
                       Tone::kFaint);
  }

  void AddRest(size_t level, const std::vector<std::vector<size_t>>& groups, size_t depth) {
    GpuCounts sum;
    int64_t count = 0;
    for (const std::vector<size_t>& group : groups) {
      for (const size_t member : group) {
        const GpuCounts& gpus = tree_.domains[level][member].gpus;
        sum.total += gpus.total;
        sum.free += gpus.free;
        sum.held += gpus.held;
        sum.spare += gpus.spare;
        sum.faulty += gpus.faulty;
        ++count;
      }
    }
    Line& line = Start(depth);
    line.Add(fmt::format("{} more of {} kinds, together ", Counted(count, tree_.levels[level]),
                         groups.size()));
    AddCounts(sum, line);
    line.Add(fmt::format("  (--level {} lists all)", tree_.levels[level]), Tone::kFaint);
  }

  // Where the tree does not show nodes, those that are out of use are named below it.
  void AddUnusable() {
    if (last_level_ == 0 || tree_.domains.front().empty()) {
      return;
    }
    std::vector<std::string> names;
    for (const TopologyDomain& node : tree_.domains.front()) {
      if (node.unusable_nodes > 0) {
        names.push_back(node.name);
      }
    }
    if (!names.empty()) {
      const bool one = names.size() == 1;
      Line& line = lines_.emplace_back();
      line.Add(fmt::format("{} {} not usable", Counted(static_cast<int64_t>(names.size()), "node"),
                           one ? "is" : "are"),
               Tone::kBad);
      line.Add(
          fmt::format(" (cordoned, not Ready or tainted): {}", operators::FormatNodeRanges(names)));
    }
  }

  const TopologyTree& tree_;
  const TopologyViewOptions& options_;
  const bool folds_;
  size_t last_level_ = 0;
  std::optional<TopologyFolds> folds_of_;
  std::vector<Line> lines_;
};

}  // namespace

std::vector<Line> TopologyLines(const TopologyTree& tree, const TopologyViewOptions& options) {
  return TopologyRenderer(tree, options).Render();
}

}  // namespace asterism::cli
