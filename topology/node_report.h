// File: topology/node_report.h
//
// What the agent of one node measured, as far as the merge needs it: the NVLink domain, the GUIDs
// of its network cards, counts and health. Messages are converted at the edge.
//
//   NodeReport report{.node = "gpu-7", .gpu_count = 8};
//   report.nics.push_back({.node_guid = 0xb83fd2025f0f27a0, .compute = true});
//
// Thread-safety: values. Cost: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asterism::topology {

struct ReportedNic {
  uint64_t node_guid = 0;
  std::vector<uint64_t> port_guids;
  bool compute = false;  // PIX or PXB to a GPU
};

// Of the NVLink fabric, as the driver says it. kUnknown: not started, in progress, or an error; the
// last known domain stays.
enum class DomainState : uint8_t { kUnknown, kNone, kMember };

enum class NodeHealth : uint8_t { kUnknown, kHealthy, kDegraded, kUnhealthy };

struct NodeReport {
  std::string node;
  std::string boot_id;
  uint64_t generation = 0;  // rises within a boot
  uint32_t gpu_count = 0;
  uint32_t bad_links = 0;  // NVLinks that are down
  std::string product;
  DomainState domain_state = DomainState::kUnknown;
  std::string nvlink_domain;  // "uuid.clique", lower case, with kMember
  NodeHealth health = NodeHealth::kUnknown;
  std::vector<ReportedNic> nics;
};

}  // namespace asterism::topology
