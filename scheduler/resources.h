// File: scheduler/resources.h
//
// Amounts of resources as a flat array. Names are given slots once, at the edge; hot loops see
// integers only.
//
//   ResourceTable table;  size_t gpu = *table.SlotOf("nvidia.com/gpu");
//   request[gpu] = 8;
//   int64_t pods = free.TimesFits(request, 8);
//
// Slots 0 to 2 are cpu (thousandths), memory (bytes) and pods (count). At most kResourceSlots names
// are tracked; a further name has no slot, and whether a pod fits by it is left to kube-scheduler.
//
// Thread-safety: ResourceTable none; ResourceVector is a value. Cost: 16 integers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::scheduler {

inline constexpr size_t kResourceSlots = 16;
inline constexpr size_t kCpuSlot = 0;
inline constexpr size_t kMemorySlot = 1;
inline constexpr size_t kPodsSlot = 2;

class ResourceVector {
 public:
  int64_t& operator[](size_t slot) { return amounts_[slot]; }
  int64_t operator[](size_t slot) const { return amounts_[slot]; }

  // Sums saturate at the ends of int64_t.
  void Add(const ResourceVector& other);
  void Subtract(const ResourceVector& other);
  // How many times `request` fits into this, at most `limit`. A zero request fits `limit` times.
  int64_t TimesFits(const ResourceVector& request, int64_t limit) const;

  bool operator==(const ResourceVector&) const = default;

 private:
  std::array<int64_t, kResourceSlots> amounts_{};
};

class ResourceTable {
 public:
  ResourceTable();
  // Gives a new name a slot while there is room. For names that nodes offer: pods may ask for any
  // name, and those would use the slots up.
  std::optional<size_t> SlotOf(std::string_view name);
  std::optional<size_t> Find(std::string_view name) const;
  const std::string& name(size_t slot) const { return names_[slot]; }
  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
};

}  // namespace asterism::scheduler
