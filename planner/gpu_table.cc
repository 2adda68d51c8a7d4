#include "planner/cluster_spec.h"

namespace asterism::planner {
namespace {

constexpr double kTera = 1e12;
// What a driver reports of "80 GB" is 80 GiB less about 1 %: 81,559 MiB of an H100.
constexpr double kUsableGibibyte = 0.99 * 1073741824.0;

// Peaks: NVIDIA's data sheets, dense. Achievable: ml-engineering MAMF (commit 744d01e). HBM and
// NVLink: data sheets. GB200 prints both 2450 and 2500; the lower is used.
constexpr GpuSpec kGpuTable[] = {
    {"A100-40", 40 * kUsableGibibyte, 312 * kTera, 0, 0.87, 1555, 300, 8},
    {"A100-80", 80 * kUsableGibibyte, 312 * kTera, 0, 0.87, 2039, 300, 8},
    {"H100", 80 * kUsableGibibyte, 989 * kTera, 1979 * kTera, 0.80, 3350, 450, 9},
    // Of torchtitan's measurements: HBM2e, 500 W.
    {"H100-96", 96 * kUsableGibibyte, 989 * kTera, 1979 * kTera, 0, 2400, 450, 9},
    {"H200", 141 * kUsableGibibyte, 989 * kTera, 1979 * kTera, 0.80, 4800, 450, 9},
    {"B200", 180 * kUsableGibibyte, 2250 * kTera, 4500 * kTera, 0.78, 8000, 900, 10},
    {"GB200", 186 * kUsableGibibyte, 2450 * kTera, 4900 * kTera, 0.73, 8000, 900, 10},
    // Memory as the rows of measured.csv print it; peaks of the data sheet, dense.
    {"B300", 270 * kUsableGibibyte, 2250 * kTera, 4500 * kTera, 0, 8000, 900, 10},
    {"GB300", 278 * kUsableGibibyte, 2500 * kTera, 5000 * kTera, 0, 8000, 900, 10},
    {"MI300X", 192 * kUsableGibibyte, 1307 * kTera, 2614 * kTera, 0.51, 5300, 448},
};

}  // namespace

const GpuSpec* FindGpu(std::string_view name) {
  for (const GpuSpec& gpu : kGpuTable) {
    if (gpu.name == name) {
      return &gpu;
    }
  }
  return nullptr;
}

std::vector<std::string_view> GpuNames() {
  std::vector<std::string_view> names;
  for (const GpuSpec& gpu : kGpuTable) {
    names.push_back(gpu.name);
  }
  return names;
}

}  // namespace asterism::planner
