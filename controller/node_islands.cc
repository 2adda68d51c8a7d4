#include "controller/node_islands.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace asterism::controller {
namespace {

// Sets of GPUs that can be joined.
class Parts {
 public:
  explicit Parts(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }

  uint32_t Find(uint32_t of) {
    while (parent_[of] != of) {
      parent_[of] = parent_[parent_[of]];
      of = parent_[of];
    }
    return of;
  }
  void Join(uint32_t left, uint32_t right) { parent_[Find(left)] = Find(right); }

 private:
  std::vector<uint32_t> parent_;
};

}  // namespace

void NodeIslands::TakeGpus(const v1::MeasuredGpus& gpus) {
  nvlink_part_.clear();
  const auto count = static_cast<uint32_t>(gpus.gpus_size());
  std::map<std::string, uint32_t> by_address;
  for (uint32_t i = 0; i < count; ++i) {
    by_address.emplace(gpus.gpus(static_cast<int>(i)).pci_address(), i);
  }
  // One more for the switches: who reaches one reaches all others that do.
  Parts parts(count + 1);
  bool linked = false;
  for (uint32_t i = 0; i < count; ++i) {
    for (const v1::MeasuredLink& link : gpus.gpus(static_cast<int>(i)).links()) {
      const auto remote = by_address.find(link.remote_pci_address());
      if (!link.up()) {
        continue;
      }
      if (link.remote() == v1::MeasuredLink::REMOTE_SWITCH) {
        parts.Join(i, count);
        linked = true;
      } else if (link.remote() == v1::MeasuredLink::REMOTE_GPU && remote != by_address.end()) {
        parts.Join(i, remote->second);
        linked = true;
      }
    }
  }
  for (uint32_t i = 0; linked && i < count; ++i) {
    nvlink_part_[gpus.gpus(static_cast<int>(i)).uuid()] = parts.Find(i);
  }
}

void NodeIslands::TakeDevices(const std::vector<GpuDevice>& devices) {
  devices_.clear();
  for (const GpuDevice& device : devices) {
    devices_.insert_or_assign(device.id, device);
  }
}

scheduler::GpuIslands NodeIslands::With(const std::set<std::string>& taken) const {
  if (devices_.size() > scheduler::kIslandGpusMax) {
    return {};
  }
  const bool by_nvlink = std::all_of(devices_.begin(), devices_.end(), [this](const auto& entry) {
    return nvlink_part_.contains(entry.first);
  });
  scheduler::GpuIslands islands;
  std::map<int64_t, uint64_t> masks;
  uint64_t bit = 1;
  for (const auto& [id, device] : devices_) {
    if (!by_nvlink && device.numa_node < 0) {
      return {};
    }
    masks[by_nvlink ? int64_t{nvlink_part_.at(id)} : device.numa_node] |= bit;
    islands.taken |= device.unhealthy || taken.contains(id) ? bit : 0;
    bit <<= 1;
  }
  for (const auto& [part, mask] : masks) {
    islands.islands.push_back(mask);
  }
  return islands.split() ? islands : scheduler::GpuIslands();
}

}  // namespace asterism::controller
