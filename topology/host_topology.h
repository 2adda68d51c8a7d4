// File: topology/host_topology.h
//
// One machine as a tool describes it: accelerators, network cards, and how near they are to each
// other. Importers of matrices and of PCI trees fill it.
//
//   for (const auto& island : NvlinkIslands(host)) ...
//   const NearestNics near = NearestNicsOf(host, gpu);
//
// Unknown is never the same as far: a cell nobody told stays kUnknown.
//
// Thread-safety: values; functions are pure. Cost: islands O(gpus^2), nearest cards O(cards).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::topology {

// How far two devices of one machine are apart, nearest first. kInternal: two dies of one board.
enum class PathLevel : uint8_t { kUnknown, kSelf, kInternal, kPix, kPxb, kPhb, kNode, kSys };

std::string_view PathLevelName(PathLevel level);  // "PIX"; "?" when unknown

// Whether two accelerators may read each other's memory over PCI.
enum class PeerAccess : uint8_t { kUnknown, kOk, kImpossible };

struct HostGpu {
  std::string label;    // as the source names it: "GPU0", "0000:0f:00.0"
  std::string product;  // empty: not known
  std::string cpulist;
  std::optional<int> numa;  // no value: not known
};

struct HostNic {
  std::string label;   // "NIC0", a PCI address
  std::string device;  // "mlx5_0"; the label where the source has no name for it
  uint64_t guid = 0;
};

struct GpuPair {
  PathLevel level = PathLevel::kUnknown;
  uint16_t links = 0;  // of NVLink, xGMI or HCCS; 0: none
  PeerAccess access = PeerAccess::kUnknown;
};

struct HostTopology {
  std::vector<HostGpu> gpus;
  std::vector<HostNic> nics;
  std::vector<GpuPair> pairs;         // gpus x gpus
  std::vector<PathLevel> gpu_to_nic;  // gpus x nics
  std::vector<PathLevel> nic_to_nic;  // nics x nics; empty: not told
  bool links_known = false;           // false: the source has no word on links between accelerators

  void Resize();
  GpuPair& pair(size_t row, size_t column) { return pairs[row * gpus.size() + column]; }
  const GpuPair& pair(size_t row, size_t column) const { return pairs[row * gpus.size() + column]; }
  PathLevel& nic_level(size_t gpu, size_t nic) { return gpu_to_nic[gpu * nics.size() + nic]; }
  PathLevel nic_level(size_t gpu, size_t nic) const { return gpu_to_nic[gpu * nics.size() + nic]; }
};

// Connected parts over links, each in ascending order, in the order of their first member.
std::vector<std::vector<size_t>> NvlinkIslands(const HostTopology& host);

struct NearestNics {
  PathLevel level = PathLevel::kUnknown;  // kUnknown: no card at a known distance
  std::vector<size_t> nics;
};

NearestNics NearestNicsOf(const HostTopology& host, size_t gpu);

}  // namespace asterism::topology
