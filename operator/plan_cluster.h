// File: operator/plan_cluster.h
//
// The cluster as the planner sees it: for a product of GPUs the sizes of its domains, with the
// bandwidth of each level.
//
//   std::map<std::string, ProductLevels> products = LevelsByProduct(feed.ledger(), gpu_slot);
//   const planner::GpuSpec* gpu = GpuOfProduct("NVIDIA-H100-80GB-HBM3", settings);
//   planner::ClusterSpec cluster = PlanCluster({.gpu = *gpu, ...}, settings);
//
// A level counts with the commonest size of its domains, by GPUs: a half-empty rack at the edge
// does not make all of them small. The innermost level is what one pod has, since that is what a
// rank can be sure of; the last level holds whatever the job asks for. A level that is no larger
// than the one inside it is left out.
//
// Thread-safety: pure. Cost: LevelsByProduct O(nodes x levels), the rest O(levels).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/calibration_set.h"
#include "planner/cluster_spec.h"
#include "scheduler/ledger.h"

namespace asterism::operators {

// What the configuration says of one level; absent values have the defaults of the GPU.
struct LevelLink {
  double gigabytes_per_second = 0;  // per GPU and direction; 0: absent
  double latency_us = 0;            // 0: absent
};

struct PlannerSettings {
  std::vector<LevelLink> links;  // by level, inner to outer; may be shorter
  // Products that the planner's table does not know by their label: the GPU they count as.
  std::map<std::string, std::string> gpus_by_product;
  // What this cluster's own jobs have shown of the speed of its GPUs; null: nothing.
  std::shared_ptr<const planner::CalibrationSet> kept;
};

inline constexpr double kInnerLatencyUs = 3;
inline constexpr double kOuterLatencyUs = 14;

struct ProductLevels {
  int64_t gpus = 0;                     // of all nodes with the product
  std::vector<int64_t> gpus_of_domain;  // by level: of the commonest domain
};

// By product; nodes without one are left out.
std::map<std::string, ProductLevels> LevelsByProduct(const scheduler::Ledger& ledger,
                                                     size_t gpu_slot);

// The same as of now: of many questions after a burst of nodes only the first one looks.
class ProductLevelsCache {
 public:
  // Valid until the next call.
  const std::map<std::string, ProductLevels>& Of(const scheduler::Ledger& ledger, size_t gpu_slot);

 private:
  std::optional<uint64_t> version_;  // of the ledger's nodes
  size_t gpu_slot_ = 0;
  std::map<std::string, ProductLevels> products_;
};

// Null: nobody knows it.
const planner::GpuSpec* GpuOfProduct(std::string_view product, const PlannerSettings& settings);

struct PlanClusterQuestion {
  planner::GpuSpec gpu;
  std::vector<std::string> level_names;
  ProductLevels levels;
  int64_t gpus_per_pod = 1;
  int64_t gpus = 1;  // of the job
};
planner::ClusterSpec PlanCluster(const PlanClusterQuestion& question,
                                 const PlannerSettings& settings);

}  // namespace asterism::operators
