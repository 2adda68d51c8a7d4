#include "operator/plan_cluster.h"

#include <algorithm>
#include <utility>

namespace asterism::operators {
namespace {

using topology::DomainId;
using topology::NodeId;

// GPUs by node, in the order of the ids, of one product.
using GpusOfNodes = std::vector<std::pair<NodeId, int64_t>>;

// The size that most GPUs are in; of equals the larger.
int64_t CommonestDomain(const topology::Cluster& cluster, size_t level, const GpusOfNodes& nodes) {
  std::map<int64_t, int64_t> gpus_by_size;
  for (size_t begin = 0; begin < nodes.size();) {
    const DomainId domain = cluster.DomainOf(level, nodes[begin].first);
    int64_t size = 0;
    size_t end = begin;
    while (end < nodes.size() && cluster.DomainOf(level, nodes[end].first) == domain) {
      size += nodes[end++].second;
    }
    gpus_by_size[size] += size;
    begin = end;
  }
  int64_t commonest = 0;
  int64_t most = 0;
  for (const auto& [size, gpus] : gpus_by_size) {
    if (gpus >= most) {
      commonest = size;
      most = gpus;
    }
  }
  return commonest;
}

}  // namespace

std::map<std::string, ProductLevels> LevelsByProduct(const scheduler::Ledger& ledger,
                                                     size_t gpu_slot) {
  const topology::Cluster& cluster = ledger.cluster();
  std::map<std::string, GpusOfNodes> nodes_of_product;
  for (size_t index = 0; index < ledger.node_count(); ++index) {
    const NodeId node(index);
    const scheduler::NodeState& state = ledger.node_state(node);
    const int64_t gpus = gpu_slot < scheduler::kResourceSlots ? state.allocatable[gpu_slot] : 0;
    if (!state.product.empty() && gpus > 0) {
      nodes_of_product[state.product].emplace_back(node, gpus);
    }
  }
  std::map<std::string, ProductLevels> products;
  for (const auto& [product, nodes] : nodes_of_product) {
    ProductLevels& levels = products[product];
    for (const auto& [node, gpus] : nodes) {
      levels.gpus += gpus;
    }
    for (size_t level = 0; level < cluster.level_count(); ++level) {
      levels.gpus_of_domain.push_back(CommonestDomain(cluster, level, nodes));
    }
  }
  return products;
}

const std::map<std::string, ProductLevels>& ProductLevelsCache::Of(const scheduler::Ledger& ledger,
                                                                   size_t gpu_slot) {
  const uint64_t version = ledger.node_version();
  if (version_ != version || gpu_slot_ != gpu_slot) {
    version_ = version;
    gpu_slot_ = gpu_slot;
    products_ = LevelsByProduct(ledger, gpu_slot);
  }
  return products_;
}

const planner::GpuSpec* GpuOfProduct(std::string_view product, const PlannerSettings& settings) {
  const auto stated = settings.gpus_by_product.find(std::string(product));
  return stated == settings.gpus_by_product.end() ? planner::FindGpuByProduct(product)
                                                  : planner::FindGpu(stated->second);
}

planner::ClusterSpec PlanCluster(const PlanClusterQuestion& question,
                                 const PlannerSettings& settings) {
  planner::ClusterSpec cluster{.gpu = question.gpu};
  const size_t count = question.level_names.size();
  for (size_t level = 0; level < count; ++level) {
    const bool inner = level == 0;
    const bool last = level + 1 == count;
    // Nothing of the job goes beyond what holds all of it.
    int64_t gpus = question.gpus;
    if (inner) {
      gpus = question.gpus_per_pod;
    } else if (!last && level < question.levels.gpus_of_domain.size()) {
      gpus = std::min(question.gpus, question.levels.gpus_of_domain[level]);
    }
    if (!cluster.levels.empty() && gpus <= cluster.levels.back().gpus) {
      continue;
    }
    const LevelLink link = level < settings.links.size() ? settings.links[level] : LevelLink{};
    const double usual = inner && question.gpu.nvlink_gigabytes_per_second > 0
                             ? question.gpu.nvlink_gigabytes_per_second
                             : question.gpu.network_gigabytes_per_second;
    cluster.levels.push_back(
        {.name = question.level_names[level],
         .gpus = gpus,
         .gigabytes_per_second = link.gigabytes_per_second > 0 ? link.gigabytes_per_second : usual,
         .latency_us =
             link.latency_us > 0 ? link.latency_us : (inner ? kInnerLatencyUs : kOuterLatencyUs)});
  }
  return cluster;
}

}  // namespace asterism::operators
