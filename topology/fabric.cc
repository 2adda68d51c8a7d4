#include "topology/fabric.h"

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "fmt/format.h"

namespace asterism::topology {
namespace {

// SHARP of NVIDIA (Mellanox) Quantum and Switch-IB switches.
constexpr uint32_t kAggregationDeviceId = 0xcf09;

struct LaneRate {
  std::string_view name;
  uint32_t gbps;
};
// InfiniBand Architecture, release 1.7, signalling rates rounded as products are named.
constexpr std::array<LaneRate, 9> kLaneRates = {{{"???", 0},
                                                 {"SDR", 2},
                                                 {"DDR", 5},
                                                 {"QDR", 10},
                                                 {"FDR", 14},
                                                 {"EDR", 25},
                                                 {"HDR", 50},
                                                 {"NDR", 100},
                                                 {"XDR", 200}}};

}  // namespace

std::string_view LaneSpeedName(LaneSpeed speed) {
  return kLaneRates[static_cast<size_t>(speed)].name;
}

LaneSpeed LaneSpeedOf(std::string_view name) {
  if (name == "FDR10") {
    return LaneSpeed::kQdr;
  }
  for (size_t i = 1; i < kLaneRates.size(); ++i) {
    if (kLaneRates[i].name == name) {
      return static_cast<LaneSpeed>(i);
    }
  }
  return LaneSpeed::kUnknown;
}

uint32_t LaneGbps(LaneSpeed speed) {
  return kLaneRates[static_cast<size_t>(speed)].gbps;
}

uint32_t Fabric::Device(uint64_t guid, DeviceKind kind) {
  const auto [it, added] = by_guid_.try_emplace(guid, static_cast<uint32_t>(devices.size()));
  if (added) {
    devices.push_back({.guid = guid, .kind = kind});
  } else if (devices[it->second].kind == DeviceKind::kUnknown) {
    devices[it->second].kind = kind;
  }
  return it->second;
}

uint32_t Fabric::DeviceNamed(std::string_view name, DeviceKind kind) {
  keyed_by_name = true;
  const uint32_t device = Device(base::Fnv1a(name), kind);
  if (devices[device].name.empty()) {
    devices[device].name = std::string(name);
  }
  return device;
}

uint32_t Fabric::Find(uint64_t guid) const {
  const auto it = by_guid_.find(guid);
  return it == by_guid_.end() ? kNoDevice : it->second;
}

void Fabric::Reserve(size_t devices_expected, size_t half_links_expected) {
  by_guid_.reserve(devices_expected);
  devices.reserve(devices_expected);
  half_links.reserve(half_links_expected);
}

bool IsAggregationService(const FabricDevice& device) {
  return device.kind == DeviceKind::kAdapter &&
         (device.device_id == kAggregationDeviceId ||
          device.name.find("Aggregation Node") != std::string::npos);
}

bool IsFactoryDescription(std::string_view description) {
  return description.find("Mellanox Technologies") != std::string_view::npos ||
         description.find("ConnectX") != std::string_view::npos ||
         description.find("InfiniHost") != std::string_view::npos;
}

PortTable::PortTable(const Fabric& fabric) : begin_(fabric.devices.size() + 1, 0) {
  for (const HalfLink& half : fabric.half_links) {
    uint32_t& ports = begin_[half.device + 1];
    ports = std::max(ports, uint32_t{half.port} + 1);
  }
  for (size_t i = 1; i < begin_.size(); ++i) {
    begin_[i] += begin_[i - 1];
  }
  slots_.assign(begin_.back(), kNoHalfLink);
  for (uint32_t half = 0; half < fabric.half_links.size(); ++half) {
    const HalfLink& link = fabric.half_links[half];
    uint32_t& slot = slots_[begin_[link.device] + link.port];
    if (slot == kNoHalfLink) {
      slot = half;
    }
  }
}

uint32_t PortTable::Reverse(const Fabric& fabric, uint32_t half) const {
  const HalfLink& link = fabric.half_links[half];
  const uint32_t reverse = At(link.peer, link.peer_port);
  if (reverse == kNoHalfLink) {
    return kNoHalfLink;
  }
  const HalfLink& back = fabric.half_links[reverse];
  return back.peer == link.device && back.peer_port == link.port ? reverse : kNoHalfLink;
}

std::string GuidText(uint64_t guid) {
  return fmt::format("0x{:016x}", guid);
}

}  // namespace asterism::topology
