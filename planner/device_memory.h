// File: planner/device_memory.h
//
// From the sum of tensors to what a GPU must have: three numbers, each with an interval, and
// whether they fit.
//
//   DeviceMemory memory = EstimateDevice(estimate.allocated(), ProfileOf(runtime));
//   if (!Fits(memory, FindGpu("H100")->memory_bytes)) ...
//
// allocated: the tensor sum. reserved = allocated x (1 + fragmentation): what the caching allocator
// holds. device = reserved + CUDA context + NCCL and other buffers: what nvidia-smi shows. Low and
// high are the 5th and 95th percentile of the runtime's table. Whether it fits is decided on the
// upper end of `device` (reference section 3.6), so about one run in twenty at that border fails.
//
// Bytes. Thread-safety: pure. Cost: none.
#pragma once

#include "planner/runtime_profile.h"

namespace asterism::planner {

// Bytes, low <= value <= high.
struct DeviceMemory {
  Span allocated;
  Span reserved;
  Span device;
};

DeviceMemory EstimateDevice(double allocated_bytes, const RuntimeProfile& profile);

bool Fits(const DeviceMemory& memory, double gpu_bytes);

}  // namespace asterism::planner
