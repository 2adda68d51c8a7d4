// File: cli/topology_tree.h
//
// The controller's page /topologyz as a tree (the fields stand in controller/topology_page.h).
//
//   ASSIGN_OR_RETURN(const TopologyTree tree, ParseTopologyTree(body));
//   tree.domains.back()[0].gpus.free   // of the whole cluster
//
// The page is foreign: a wrong type, a parent that is not there or a number out of range is an
// error that names the field.
//
// Thread-safety: a value. Cost: about 10 us a domain; at most 64 MiB of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::cli {

struct GpuCounts {
  int64_t total = 0;
  int64_t free = 0;
  int64_t held = 0;
  int64_t spare = 0;
  int64_t faulty = 0;
};

struct TopologyDomain {
  std::string name;
  std::optional<size_t> parent;  // index in the level above; absent at the last level
  std::vector<size_t> children;  // indexes in the level below
  int64_t nodes = 0;
  int64_t unusable_nodes = 0;
  GpuCounts gpus;
  std::vector<std::string> jobs;  // the first ones
  int64_t job_count = 0;
  std::string source;  // who says which nodes are in it: "nvlink", "declared"; empty: not told
  std::string health;  // of a node, where it is measured
};

// Nodes by who says in which domain of a level they are.
struct LevelOrigins {
  std::string level;
  std::vector<std::pair<std::string, int64_t>> nodes;
};

struct TopologyTree {
  bool leading = false;
  int64_t version = 0;
  std::vector<std::string> levels;                   // inner to outer
  std::vector<std::vector<TopologyDomain>> domains;  // by level
  std::vector<LevelOrigins> origins;                 // of levels that have any

  std::optional<size_t> FindLevel(std::string_view name) const;
};

absl::StatusOr<TopologyTree> ParseTopologyTree(std::string_view json);

// The fields of the page; with a level, only the domains of that level.
nlohmann::ordered_json TopologyJson(const TopologyTree& tree, std::optional<size_t> level);

}  // namespace asterism::cli
