#include <algorithm>
#include <cctype>
#include <string>

#include "planner/cluster_spec.h"

namespace asterism::planner {
namespace {

constexpr double kTera = 1e12;
// What a driver reports of "80 GB" is 80 GiB less about 1 %: 81,559 MiB of an H100.
constexpr double kUsableGibibyte = 0.99 * 1073741824.0;

// Peaks: NVIDIA's data sheets, dense. Achievable: ml-engineering MAMF (commit 744d01e). HBM and
// NVLink: data sheets. GB200 prints both 2450 and 2500; the lower is used. Network: DGX A100 (HDR),
// DGX H100 to B200 and GB200 NVL72 (NDR), DGX B300 and GB300 NVL72 (XDR, ConnectX-8), MI300X
// platforms (400 GbE), one port a GPU.
constexpr GpuSpec kGpuTable[] = {
    {"A100-40", 40 * kUsableGibibyte, 312 * kTera, 0, 0.87, 1555, 300, 8, 25},
    {"A100-80", 80 * kUsableGibibyte, 312 * kTera, 0, 0.87, 2039, 300, 8, 25},
    {"H100", 80 * kUsableGibibyte, 989 * kTera, 1979 * kTera, 0.80, 3350, 450, 9, 50},
    // Of torchtitan's measurements: HBM2e, 500 W.
    {"H100-96", 96 * kUsableGibibyte, 989 * kTera, 1979 * kTera, 0, 2400, 450, 9, 50},
    {"H200", 141 * kUsableGibibyte, 989 * kTera, 1979 * kTera, 0.80, 4800, 450, 9, 50},
    {"B200", 180 * kUsableGibibyte, 2250 * kTera, 4500 * kTera, 0.78, 8000, 900, 10, 50},
    {"GB200", 186 * kUsableGibibyte, 2450 * kTera, 4900 * kTera, 0.73, 8000, 900, 10, 50},
    // Memory as the rows of measured.csv print it; peaks of the data sheet, dense.
    {"B300", 270 * kUsableGibibyte, 2250 * kTera, 4500 * kTera, 0, 8000, 900, 10, 100},
    {"GB300", 278 * kUsableGibibyte, 2500 * kTera, 5000 * kTera, 0, 8000, 900, 10, 100},
    {"MI300X", 192 * kUsableGibibyte, 1307 * kTera, 2614 * kTera, 0.51, 5300, 448, 0, 50},
};

// A word of a product's name, and how much memory it says; empty: it says nothing of memory.
struct ProductName {
  std::string_view word;
  std::string_view memory;
  std::string_view gpu;
};
constexpr ProductName kProductNames[] = {
    {"A100", "40GB", "A100-40"}, {"A100", "80GB", "A100-80"}, {"H100", "80GB", "H100"},
    {"H100", "96GB", "H100-96"}, {"H100", "", "H100"},        {"H200", "", "H200"},
    {"H200", "141GB", "H200"},   {"B200", "", "B200"},        {"GB200", "", "GB200"},
    {"B300", "", "B300"},        {"GB300", "", "GB300"},      {"MI300X", "", "MI300X"},
};
// What makes another device of it.
constexpr std::string_view kOtherDevices[] = {"MIG", "SHARED", "PCIE", "NVL"};

std::vector<std::string> WordsOfProduct(std::string_view product) {
  std::vector<std::string> words(1);
  for (const char letter : product) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      words.back() += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

}  // namespace

const GpuSpec* FindGpuByProduct(std::string_view product) {
  if (const GpuSpec* gpu = FindGpu(product); gpu != nullptr) {
    return gpu;
  }
  const std::vector<std::string> words = WordsOfProduct(product);
  const auto has = [&words](std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (std::any_of(std::begin(kOtherDevices), std::end(kOtherDevices), has)) {
    return nullptr;
  }
  const auto memory = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 2 && word.ends_with("GB");
  });
  const std::string_view stated = memory == words.end() ? std::string_view() : *memory;
  for (const ProductName& each : kProductNames) {
    if (has(each.word) && each.memory == stated) {
      return FindGpu(each.gpu);
    }
  }
  return nullptr;
}

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
