// File: controller/node_islands.h
//
// Which GPUs of a node are near each other, from what its agent told: NVLinks between GPUs where
// the driver shows any, else the NUMA nodes that kubelet tells of its devices.
//
//   NodeIslands islands;
//   islands.TakeGpus(measurement.gpus());  islands.TakeDevices(devices);
//   feed.PutGpuIslands(node, islands.With({"GPU-1a", "GPU-2b"}));    // taken
//
// Devices are joined with measured GPUs by their ids, which NVIDIA's device plug-in makes of the
// UUID. Where one device is not measured (parts of a GPU, other vendors), NUMA nodes count; where
// one device tells no NUMA node either, all are alike.
//
// Thread-safety: none. Cost: O(GPUs x links) a measurement, O(devices log devices) a question.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "asterism/v1/node_measurement.pb.h"
#include "scheduler/gpu_islands.h"

namespace asterism::controller {

struct GpuDevice {
  std::string id;
  int32_t numa_node = -1;  // -1: not told
  bool unhealthy = false;
};

class NodeIslands {
 public:
  void TakeGpus(const v1::MeasuredGpus& gpus);
  // A device may stand there several times.
  void TakeDevices(const std::vector<GpuDevice>& devices);

  // `taken`: ids that pods hold; unhealthy ones are taken, too.
  scheduler::GpuIslands With(const std::set<std::string>& taken) const;

 private:
  std::map<std::string, GpuDevice> devices_;     // by id
  std::map<std::string, uint32_t> nvlink_part_;  // by UUID; empty: no NVLink is known
};

}  // namespace asterism::controller
