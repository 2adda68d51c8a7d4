// File: topology/fabric.h
//
// A switched network as a source describes it: switches, adapters, and the cables between their
// ports, before hosts are matched to nodes. Importers fill it; leaf groups, rails and anomalies are
// found by fabric_analysis.h.
//
//   Fabric fabric;
//   const uint32_t leaf = fabric.Device(0x2c5eab01, DeviceKind::kSwitch);
//   fabric.half_links.push_back({.device = leaf, .port = 1, .peer = adapter, .peer_port = 1});
//   const PortTable ports(fabric);
//   ports.At(leaf, 1);   // the half link of that port
//
// A half link is one line of a dump: the port of one end and who is at the other. A cable is two
// half links where both ends were listed, one where only one was. Devices are keyed by GUID; names
// are for people: they repeat and may be empty.
//
// Thread-safety: values. Cost: a device is found in O(1); a PortTable is one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace asterism::topology {

inline constexpr uint32_t kNoDevice = 0xffffffff;
inline constexpr uint32_t kNoHalfLink = 0xffffffff;
// Of one device; InfiniBand counts ports in eight bits, some Ethernet switches in more.
inline constexpr uint32_t kPortMax = 4096;

enum class DeviceKind : uint8_t { kUnknown, kSwitch, kAdapter, kRouter };

// Generations of InfiniBand, by the rate of one lane.
enum class LaneSpeed : uint8_t { kUnknown, kSdr, kDdr, kQdr, kFdr, kEdr, kHdr, kNdr, kXdr };

std::string_view LaneSpeedName(LaneSpeed speed);  // "HDR"; "???" when unknown
LaneSpeed LaneSpeedOf(std::string_view name);     // FDR10 counts as QDR, its rate
// Nominal, in Gbit/s; 0 when unknown.
uint32_t LaneGbps(LaneSpeed speed);

struct FabricDevice {
  uint64_t guid = 0;
  uint64_t system_guid = 0;  // shared by the ports of one card; 0: not known
  uint32_t device_id = 0;    // of the vendor; 0: not known
  uint32_t line = 0;         // of its own record, counted from 1; 0: only its peers name it
  uint16_t declared_ports = 0;
  DeviceKind kind = DeviceKind::kUnknown;
  std::string name;
};

struct HalfLink {
  uint32_t device = kNoDevice;
  uint32_t peer = kNoDevice;
  uint16_t port = 0;
  uint16_t peer_port = 0;
  uint8_t width = 0;  // lanes; 0: not known
  LaneSpeed speed = LaneSpeed::kUnknown;
  uint64_t adapter_port_guid = 0;  // of the end that is an adapter, where the source tells

  uint32_t gbps() const { return width * LaneGbps(speed); }
};

class Fabric {
 public:
  // The device with that GUID, made when it is new. A kind that was unknown is filled in.
  uint32_t Device(uint64_t guid, DeviceKind kind);
  // The same for sources that know names only: the GUID is a hash of the name.
  uint32_t DeviceNamed(std::string_view name, DeviceKind kind);
  uint32_t Find(uint64_t guid) const;  // kNoDevice when absent

  void Reserve(size_t devices_expected, size_t half_links_expected);

  std::vector<FabricDevice> devices;
  std::vector<HalfLink> half_links;
  bool keyed_by_name = false;

 private:
  absl::flat_hash_map<uint64_t, uint32_t> by_guid_;
};

// The aggregation service of a switch shows as an adapter; it is no host.
bool IsAggregationService(const FabricDevice& device);
// A node description as the factory wrote it: it names no host.
bool IsFactoryDescription(std::string_view description);

// Half links by (device, port). The first one wins where a port is listed twice.
class PortTable {
 public:
  explicit PortTable(const Fabric& fabric);

  uint32_t At(uint32_t device, uint32_t port) const {
    const uint32_t begin = begin_[device];
    return port < begin_[device + 1] - begin ? slots_[begin + port] : kNoHalfLink;
  }
  // The half link of the other end, kNoHalfLink when only one end is listed.
  uint32_t Reverse(const Fabric& fabric, uint32_t half) const;
  // Each cable once: the end that stands for it.
  bool StandsForCable(const Fabric& fabric, uint32_t half) const {
    const uint32_t reverse = Reverse(fabric, half);
    return reverse == kNoHalfLink || half <= reverse;
  }

 private:
  std::vector<uint32_t> begin_;
  std::vector<uint32_t> slots_;
};

// "0x" and 16 digits.
std::string GuidText(uint64_t guid);

}  // namespace asterism::topology
