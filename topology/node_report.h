// File: topology/node_report.h
//
// What the agent of one node measured, as far as the merge and the doctor need it: the NVLink
// domain, the GUIDs of its network cards, counts, links and health. Messages are converted at the
// edge.
//
//   NodeReport report{.node = "gpu-7", .gpu_count = 8};
//   report.nics.push_back({.node_guid = 0xb83fd2025f0f27a0, .compute = true});
//
// Thread-safety: values. Cost: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "topology/finding.h"

namespace asterism::topology {

// Characters of the UUID of an NVLink domain: 32 digits in any grouping.
inline constexpr size_t kNvlinkUuidMax = 40;

struct ReportedNic {
  uint64_t node_guid = 0;
  std::vector<uint64_t> port_guids;
  bool compute = false;  // PIX or PXB to a GPU

  friend bool operator==(const ReportedNic&, const ReportedNic&) = default;
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
  uint32_t lost_gpus = 0;  // that the driver has lost
  uint32_t bad_links = 0;  // NVLinks that are down; whether that is usual, the product's peers tell
  uint32_t good_links = 0;
  std::string product;
  DomainState domain_state = DomainState::kUnknown;
  std::string nvlink_domain;  // "uuid.clique", lower case, with kMember
  // By GPUs and NVLink domain; links that are down are weighed by the merge.
  NodeHealth health = NodeHealth::kUnknown;
  std::vector<ReportedNic> nics;
  // What the probes see inside the machine, and what they could not tell.
  std::vector<Finding> findings;
};

}  // namespace asterism::topology
