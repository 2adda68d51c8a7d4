// File: agent/probe/rdma_probe.h
//
// RDMA devices and their ports, from sysfs alone: it needs no library and no privilege, and the
// kernel tells there all that libibverbs would.
//
//   RdmaProbe probe({.sysfs = "/host/sys"});
//
// A device is known by its node GUID; its name changes. The GUID of an InfiniBand port is the lower
// half of its first GID; a port on Ethernet has none. A bond's device stands for the ports of one
// card: all their network devices are told, so that each finds its neighbour.
//
// Thread-safety: as Probe. Cost: some 20 small files a port: under 1 ms each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/probe/probe.h"

namespace asterism::agent {

inline constexpr size_t kRdmaDevicesMax = 1024;
inline constexpr size_t kRdmaPortsMax = 64;

class RdmaProbe final : public Probe {
 public:
  explicit RdmaProbe(ProbeRoots roots, absl::Duration period = absl::Seconds(5));
  ProbeResult Run() override;

 private:
  const ProbeRoots roots_;
};

// "b83f:d203:005f:27a0" or "0xb83fd203005f27a0"; no value: no GUID.
std::optional<uint64_t> RdmaGuid(std::string_view text);
// "400 Gb/sec (4X NDR)" -> 400,000,000,000; 0: not understood.
uint64_t RdmaRate(std::string_view text);

}  // namespace asterism::agent
