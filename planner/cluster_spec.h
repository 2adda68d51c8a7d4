// File: planner/cluster_spec.h
//
// What a plan runs on: a kind of GPU from a table, and the levels of a cluster from the inner one
// outwards with their bandwidth and latency. No level has a name or a size that is a constant.
//
//   const GpuSpec* gpu = FindGpu("H100");
//   ClusterSpec cluster = {.gpu = *gpu, .levels = {{"node", 8, 450, 3.4}, {"cluster", 1024, 50,
//   14}}}; RETURN_IF_ERROR(CheckCluster(cluster));
//
// Units: bytes, flops a second without sparsity, gigabytes (1e9 bytes) a second and direction,
// microseconds. Sources stand in gpu_table.cc, line by line.
//
// Thread-safety: values; the table is immutable. Cost: a search of about ten names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace asterism::planner {

inline constexpr size_t kClusterLevelsMax = 16;

struct GpuSpec {
  std::string_view name;
  double memory_bytes = 0;  // that a driver reports as usable
  double bf16_flops_per_second = 0;
  double fp8_flops_per_second = 0;  // 0: the GPU has none
  // Best achieved share of the bf16 peak by a matrix product; 0: not measured.
  double bf16_achievable = 0;
  double memory_gigabytes_per_second = 0;
  double nvlink_gigabytes_per_second = 0;
  int64_t cuda_major = 0;  // compute capability; 0: not a CUDA device
  // Of the network adapter that systems with this GPU usually have for each.
  double network_gigabytes_per_second = 0;
};

// Null when the table has none of that name. Names as in measured.csv: A100-80, H100, H200, B200.
const GpuSpec* FindGpu(std::string_view name);
std::vector<std::string_view> GpuNames();
// By what a device plug-in's discovery calls it: the label nvidia.com/gpu.product
// ("NVIDIA-H100-80GB-HBM3") or AMD's ("AMD_Instinct_MI300X_OAM"), or a name of the table. Null for
// parts of a GPU (MIG, time slices), for PCIe cards, which have another clock and no NVLink, and
// for what the table has not.
const GpuSpec* FindGpuByProduct(std::string_view product);

struct ClusterLevel {
  std::string name;
  int64_t gpus = 0;                 // of the smallest domain of the level
  double gigabytes_per_second = 0;  // per GPU and direction, between domains of the level below
  double latency_us = 0;
};

struct ClusterSpec {
  GpuSpec gpu;
  std::vector<ClusterLevel> levels;  // inner to outer; each holds more GPUs than the one before

  int64_t gpus() const { return levels.empty() ? 0 : levels.back().gpus; }
  // The innermost level whose domain holds that many consecutive GPUs; levels.size() when none
  // does.
  size_t LevelOf(int64_t gpus) const;
};

// The first field that makes no sense, with its value and the way out.
absl::Status CheckCluster(const ClusterSpec& cluster);

}  // namespace asterism::planner
