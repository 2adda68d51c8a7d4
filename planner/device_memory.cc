#include "planner/device_memory.h"

#include <cmath>

namespace asterism::planner {
namespace {

constexpr double kGigabyte = 1e9;

// Errors of independent causes add as squares.
double JointUpper(double value, double first, double second) {
  return value + std::sqrt(first * first + second * second);
}

double JointLower(double value, double first, double second) {
  return value - std::sqrt(first * first + second * second);
}

}  // namespace

DeviceMemory EstimateDevice(double allocated_bytes, const RuntimeProfile& profile) {
  const double error = profile.allocated_error * allocated_bytes;
  const Span& share = profile.fragmentation;
  const Span& context = profile.context_gigabytes;
  DeviceMemory memory;
  memory.allocated = {allocated_bytes - error, allocated_bytes, allocated_bytes + error};
  memory.reserved.value = allocated_bytes * (1 + share.value);
  memory.reserved.low =
      JointLower(memory.reserved.value, error, allocated_bytes * (share.value - share.low));
  memory.reserved.high =
      JointUpper(memory.reserved.value, error, allocated_bytes * (share.high - share.value));
  memory.device.value = memory.reserved.value + context.value * kGigabyte;
  memory.device.low = JointLower(memory.device.value, memory.reserved.value - memory.reserved.low,
                                 (context.value - context.low) * kGigabyte);
  memory.device.high = JointUpper(memory.device.value, memory.reserved.high - memory.reserved.value,
                                  (context.high - context.value) * kGigabyte);
  return memory;
}

bool Fits(const DeviceMemory& memory, double gpu_bytes) {
  return memory.device.high <= gpu_bytes;
}

}  // namespace asterism::planner
