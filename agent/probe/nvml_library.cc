#include "agent/probe/nvml_library.h"

#include <dlfcn.h>
#include <glob.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

// A path with `*` names what is there now; without one it is tried as it is.
std::vector<std::string> PathsOf(const std::string& candidate) {
  if (candidate.find('*') == std::string::npos) {
    return {candidate};
  }
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(candidate.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && i < 16; ++i) {
      paths.emplace_back(found.gl_pathv[i]);
    }
  }
  globfree(&found);
  return paths;
}

}  // namespace

std::vector<std::string> NvmlCandidates() {
  return {"libnvidia-ml.so.1", "/run/nvidia/driver/usr/lib*/libnvidia-ml.so.1",
          "/run/nvidia/driver/usr/lib/*/libnvidia-ml.so.1"};
}

template <typename Function>
void NvmlLibrary::Find(void* handle, Function*& function,
                       std::initializer_list<const char*> names) {
  for (const char* symbol_name : names) {
    if (void* const symbol = dlsym(handle, symbol_name); symbol != nullptr) {
      function = reinterpret_cast<Function*>(symbol);
      return;
    }
  }
  missing.emplace_back(*names.begin());
}

absl::StatusOr<std::unique_ptr<NvmlLibrary>> NvmlLibrary::Load(
    const std::vector<std::string>& candidates) {
  std::vector<std::string> failures;
  for (const std::string& candidate : candidates) {
    for (const std::string& path : PathsOf(candidate)) {
      void* const handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (handle == nullptr) {
        const char* const why = dlerror();
        failures.push_back(why != nullptr ? why : path);
        continue;
      }
      std::unique_ptr<NvmlLibrary> library(new NvmlLibrary);
      NvmlLibrary& nvml = *library;
      nvml.path = path;
      nvml.Find(handle, nvml.init_with_flags, {"nvmlInitWithFlags"});
      nvml.Find(handle, nvml.init, {"nvmlInit_v2", "nvmlInit"});
      nvml.Find(handle, nvml.shutdown, {"nvmlShutdown"});
      nvml.Find(handle, nvml.error_string, {"nvmlErrorString"});
      nvml.Find(handle, nvml.driver_version, {"nvmlSystemGetDriverVersion"});
      nvml.Find(handle, nvml.count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
      nvml.Find(handle, nvml.handle_by_index,
                {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
      nvml.Find(handle, nvml.uuid, {"nvmlDeviceGetUUID"});
      nvml.Find(handle, nvml.name, {"nvmlDeviceGetName"});
      // The structure of _v2 and before is shorter.
      nvml.Find(handle, nvml.pci_info, {"nvmlDeviceGetPciInfo_v3"});
      nvml.Find(handle, nvml.minor_number, {"nvmlDeviceGetMinorNumber"});
      nvml.Find(handle, nvml.memory_info, {"nvmlDeviceGetMemoryInfo"});
      nvml.Find(handle, nvml.memory_info_v2, {"nvmlDeviceGetMemoryInfo_v2"});
      nvml.Find(handle, nvml.compute_capability, {"nvmlDeviceGetCudaComputeCapability"});
      nvml.Find(handle, nvml.memory_affinity, {"nvmlDeviceGetMemoryAffinity"});
      nvml.Find(handle, nvml.mig_mode, {"nvmlDeviceGetMigMode"});
      nvml.Find(handle, nvml.common_ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
      nvml.Find(handle, nvml.p2p_status, {"nvmlDeviceGetP2PStatus"});
      nvml.Find(handle, nvml.field_values, {"nvmlDeviceGetFieldValues"});
      nvml.Find(handle, nvml.link_state, {"nvmlDeviceGetNvLinkState"});
      nvml.Find(handle, nvml.link_remote_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
      nvml.Find(handle, nvml.link_remote_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
      nvml.Find(handle, nvml.fabric_info_v, {"nvmlDeviceGetGpuFabricInfoV"});
      nvml.Find(handle, nvml.fabric_info, {"nvmlDeviceGetGpuFabricInfo"});
      nvml.Find(handle, nvml.platform_info, {"nvmlDeviceGetPlatformInfo"});
      if ((nvml.init_with_flags == nullptr && nvml.init == nullptr) || nvml.count == nullptr ||
          nvml.handle_by_index == nullptr || nvml.uuid == nullptr) {
        failures.push_back(fmt::format("{} lacks what every NVML has: {}", path,
                                       absl::StrJoin(nvml.missing, ", ")));
        continue;
      }
      return library;
    }
  }
  return absl::NotFoundError(failures.empty() ? "libnvidia-ml.so.1 is in none of the folders"
                                              : absl::StrJoin(failures, "; "));
}

std::string NvmlLibrary::ErrorText(nvml::Return code) const {
  const char* const text = error_string != nullptr ? error_string(code) : nullptr;
  return text != nullptr ? fmt::format("{} (code {})", text, code) : fmt::format("code {}", code);
}

}  // namespace asterism::agent
