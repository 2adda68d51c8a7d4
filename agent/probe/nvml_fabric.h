// File: agent/probe/nvml_fabric.h
//
// What a node may say of its NVLink domain, from what each of its GPUs says: pure rules, apart from
// how the answers were got.
//
//   const v1::MeasuredNvlinkDomain domain = NvlinkDomainOf(facts);
//
// A domain is told only when registration has completed with success and the cluster's UUID is not
// zero. NOT_SUPPORTED, or a zero UUID after success, is no domain; everything else is unknown,
// never "none": what was known before stays. The domain is the node's, so all GPUs must agree.
//
// Health is the worst of the GPUs. Drivers without a summary leave it to the mask.
//
// Thread-safety: pure. Cost: none worth a word.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/probe/nvml_types.h"
#include "asterism/v1/node_measurement.pb.h"

namespace asterism::agent {

struct FabricFacts {
  // No value: the GPU did not answer; `why` says how.
  bool answered = false;
  std::string why;
  uint8_t state = nvml::kFabricNotSupported;
  nvml::Return status = nvml::kSuccess;  // means something when completed
  std::array<uint8_t, 16> cluster_uuid{};
  uint32_t clique_id = 0;
  std::optional<uint32_t> health_mask;
  std::optional<uint8_t> health_summary;
};

// Registration is under way: worth asking again soon.
bool FabricPending(const std::vector<FabricFacts>& gpus);

v1::MeasuredNvlinkDomain NvlinkDomainOf(const std::vector<FabricFacts>& gpus);

// In words; empty when nothing is wrong or nothing is told.
std::vector<std::string> FabricFaults(uint32_t health_mask);

}  // namespace asterism::agent
