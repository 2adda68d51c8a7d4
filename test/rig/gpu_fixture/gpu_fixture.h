// File: test/rig/gpu_fixture/gpu_fixture.h
//
// The GPUs of a machine that has none, from one JSON file that the fake NVML and the test device
// plug-in both read.
//
//   ASSIGN_OR_RETURN(const GpuFixture fixture, ReadGpuFixture("test/golden/gpus/hgx-h100.json"));
//
//   {"system":   {"driver": "570.86.15"},
//    "gpus":     [{"uuid": "GPU-..", "pci": "0000:1b:00.0", "product": "..", "sm": "9.0",
//                  "memory_bytes": 1, "numa": 0, "minor": 0, "module_id": 1, "mig": false,
//                  "health": "Healthy" | "Unhealthy", "fabric": {..}}],
//    "nvlinks":  [{"gpu": 0 | [0, 1], "link": 0 | [0, 1], "state": "active" | "inactive",
//                  "remote": "gpu" | "switch" | "cpu", "remote_pci": ".." | ["..", ".."],
//                  "mb_per_second": 26562}],
//    "pairs":    [{"gpus": [0, 1], "distance": "PIX", "p2p": "OK" | "CNS" | "GNS" | "NS" | "DR"}],
//    "fabric":   {"cluster_uuid": "..", "clique_id": 1, "state": "completed", "status": 0,
//                 "health_mask": 0, "health_summary": 1},
//    "platform": {"chassis_serial": "..", "slot_number": 1, "tray_index": 0, "host_id": 1},
//    "faults":   {"lost": [3], "visible": [0], "hang": ["nvmlDeviceGetUUID"], "start": 9,
//                 "not_supported": ["nvmlDeviceGetMigMode"], "fabric_version": 2,
//                 "memory_version": 1, "in_progress_calls": 3, "platform_version": 1}}
//
// Of two entries about one link or pair the later one counts. `remote_pci` as a list goes round
// with the link's number. A GPU's own `fabric` takes the place of the common one.
//
// Thread-safety: pure but for the file. Cost: one pass.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::testing {

struct FixtureLink {
  bool active = true;
  uint32_t remote = 255;  // as NVML numbers it
  std::string remote_pci;
  uint32_t mb_per_second = 0;
};

struct FixtureFabric {
  std::array<uint8_t, 16> cluster_uuid{};
  uint32_t clique_id = 0;
  uint8_t state = 0;
  int32_t status = 0;
  uint32_t health_mask = 0;
  uint8_t health_summary = 0;
};

struct FixtureGpu {
  std::string uuid;
  std::string pci;
  std::string product;
  int major = 0;
  int minor_version = 0;
  uint64_t memory_bytes = 0;
  int numa = -1;
  int minor = -1;
  uint32_t module_id = 0;
  bool mig = false;
  bool healthy = true;
  std::map<uint32_t, FixtureLink> links;
  FixtureFabric fabric;
};

struct FixturePlatform {
  std::string chassis_serial;
  uint8_t slot_number = 0;
  uint8_t tray_index = 0;
  uint8_t host_id = 0;
};

struct FixturePair {
  uint32_t distance = 50;  // as NVML numbers it
  uint32_t p2p = 0;
};

struct FixtureFaults {
  std::set<size_t> lost;
  std::optional<std::set<size_t>> visible;
  std::set<std::string> hang;
  std::set<std::string> not_supported;
  int start = 0;  // what nvmlInit answers
  uint32_t fabric_version = 3;
  uint32_t memory_version = 2;
  uint32_t platform_version = 2;
  int in_progress_calls = 0;
};

struct GpuFixture {
  std::string driver;
  std::vector<FixtureGpu> gpus;
  std::map<std::pair<size_t, size_t>, FixturePair> pairs;  // the smaller index first
  std::optional<FixturePlatform> platform;
  FixtureFaults faults;
};

absl::StatusOr<GpuFixture> ReadGpuFixture(const std::string& path);

}  // namespace asterism::testing
