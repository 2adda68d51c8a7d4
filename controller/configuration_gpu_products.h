// File: controller/configuration_gpu_products.h
//
// The field `planner.gpuProducts`: which GPU of the planner's table the GPUs of a product count as.
//
//   Row("planner.gpuProducts", Reload::kRestart, GpuProductsValue(), "...")
//
// Thread-safety: pure. Cost: linear in the list, at most 64 products.
#pragma once

#include "controller/configuration_values.h"

namespace asterism::controller {

FieldValue GpuProductsValue();

}  // namespace asterism::controller
