#include "scheduler/resources.h"

#include <algorithm>
#include <limits>

namespace asterism::scheduler {

void ResourceVector::Add(const ResourceVector& other) {
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    int64_t sum = 0;
    if (__builtin_add_overflow(amounts_[slot], other.amounts_[slot], &sum)) {
      sum = other.amounts_[slot] > 0 ? std::numeric_limits<int64_t>::max()
                                     : std::numeric_limits<int64_t>::min();
    }
    amounts_[slot] = sum;
  }
}

void ResourceVector::Subtract(const ResourceVector& other) {
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(amounts_[slot], other.amounts_[slot], &difference)) {
      difference = other.amounts_[slot] > 0 ? std::numeric_limits<int64_t>::min()
                                            : std::numeric_limits<int64_t>::max();
    }
    amounts_[slot] = difference;
  }
}

int64_t ResourceVector::TimesFits(const ResourceVector& request, int64_t limit) const {
  int64_t times = std::max<int64_t>(limit, 0);
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    if (request.amounts_[slot] > 0) {
      times = std::min(times, std::max<int64_t>(amounts_[slot], 0) / request.amounts_[slot]);
    }
  }
  return times;
}

ResourceTable::ResourceTable() : names_{"cpu", "memory", "pods"} {}

std::optional<size_t> ResourceTable::SlotOf(std::string_view name) {
  if (const std::optional<size_t> found = Find(name); found.has_value()) {
    return found;
  }
  if (names_.size() == kResourceSlots) {
    return std::nullopt;
  }
  names_.emplace_back(name);
  return names_.size() - 1;
}

std::optional<size_t> ResourceTable::Find(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end()) {
    return std::nullopt;
  }
  return static_cast<size_t>(it - names_.begin());
}

}  // namespace asterism::scheduler
