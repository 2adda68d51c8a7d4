#include "cli/topology_folds.h"

#include <algorithm>
#include <map>
#include <utility>

namespace asterism::cli {

TopologyFolds::TopologyFolds(const TopologyTree& tree, size_t last_level)
    : tree_(tree), kinds_(tree.levels.size()) {
  for (size_t level = last_level; level < tree.levels.size(); ++level) {
    std::map<std::vector<int64_t>, int64_t> known;
    for (const TopologyDomain& domain : tree.domains[level]) {
      const GpuCounts& gpus = domain.gpus;
      std::vector<int64_t> key = {
          domain.nodes, domain.unusable_nodes, gpus.total, gpus.free, gpus.held, gpus.spare,
          gpus.faulty};
      if (level > last_level) {
        for (const size_t child : domain.children) {
          key.push_back(kinds_[level - 1][child]);
        }
        std::sort(key.begin() + 7, key.end());
      }
      kinds_[level].push_back(
          known.emplace(std::move(key), static_cast<int64_t>(known.size())).first->second);
    }
  }
}

std::vector<std::vector<size_t>> TopologyFolds::GroupsOf(size_t level,
                                                         const std::vector<size_t>& members) const {
  std::map<int64_t, std::vector<size_t>> by_kind;
  for (const size_t member : members) {
    by_kind[kinds_[level][member]].push_back(member);
  }
  std::vector<std::vector<size_t>> groups;
  groups.reserve(by_kind.size());
  for (auto& [kind, group] : by_kind) {
    groups.push_back(std::move(group));
  }
  const auto& domains = tree_.domains[level];
  std::sort(groups.begin(), groups.end(), [&](const auto& left, const auto& right) {
    const int64_t left_free = domains[left[0]].gpus.free;
    const int64_t right_free = domains[right[0]].gpus.free;
    return left_free != right_free ? left_free > right_free : left[0] < right[0];
  });
  return groups;
}

}  // namespace asterism::cli
