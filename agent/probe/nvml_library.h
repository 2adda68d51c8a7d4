// File: agent/probe/nvml_library.h
//
// The driver's libnvidia-ml.so.1, loaded at run time: every function is looked up by name, newest
// version first, and what is missing is a null pointer with an entry in `missing`.
//
//   ASSIGN_OR_RETURN(const std::unique_ptr<NvmlLibrary> nvml, NvmlLibrary::Load(candidates));
//   if (nvml->fabric_info_v != nullptr) ...
//
// The library is never unloaded: a thread may still wait in it.
//
// Thread-safety: none of its own; one thread makes all calls. Cost: Load some milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/probe/nvml_types.h"

namespace asterism::agent {

class NvmlLibrary {
 public:
  // Tries each name in order: a soname that the loader finds, or a path, which may hold one `*` for
  // a folder. The error names what was tried.
  static absl::StatusOr<std::unique_ptr<NvmlLibrary>> Load(
      const std::vector<std::string>& candidates);

  // "GPU is lost"
  std::string ErrorText(nvml::Return code) const;

  std::string path;                  // what was loaded
  std::vector<std::string> missing;  // functions, by the name of their newest version

  // Null: the library has none of the names.
  nvml::Return (*init_with_flags)(uint32_t flags) = nullptr;
  nvml::Return (*init)() = nullptr;
  nvml::Return (*shutdown)() = nullptr;
  const char* (*error_string)(nvml::Return) = nullptr;
  nvml::Return (*driver_version)(char*, uint32_t) = nullptr;
  nvml::Return (*count)(uint32_t*) = nullptr;
  nvml::Return (*handle_by_index)(uint32_t, nvml::Device*) = nullptr;
  nvml::Return (*uuid)(nvml::Device, char*, uint32_t) = nullptr;
  nvml::Return (*name)(nvml::Device, char*, uint32_t) = nullptr;
  nvml::Return (*pci_info)(nvml::Device, nvml::PciInfo*) = nullptr;
  nvml::Return (*minor_number)(nvml::Device, uint32_t*) = nullptr;
  nvml::Return (*memory_info)(nvml::Device, nvml::Memory*) = nullptr;
  nvml::Return (*memory_info_v2)(nvml::Device, nvml::MemoryV2*) = nullptr;
  nvml::Return (*compute_capability)(nvml::Device, int*, int*) = nullptr;
  nvml::Return (*memory_affinity)(nvml::Device, uint32_t, unsigned long*, uint32_t) = nullptr;
  nvml::Return (*mig_mode)(nvml::Device, uint32_t*, uint32_t*) = nullptr;
  nvml::Return (*common_ancestor)(nvml::Device, nvml::Device, uint32_t*) = nullptr;
  nvml::Return (*p2p_status)(nvml::Device, nvml::Device, uint32_t, uint32_t*) = nullptr;
  nvml::Return (*field_values)(nvml::Device, int, nvml::FieldValue*) = nullptr;
  nvml::Return (*link_state)(nvml::Device, uint32_t, uint32_t*) = nullptr;
  nvml::Return (*link_remote_pci)(nvml::Device, uint32_t, nvml::PciInfo*) = nullptr;
  nvml::Return (*link_remote_type)(nvml::Device, uint32_t, uint32_t*) = nullptr;
  nvml::Return (*fabric_info_v)(nvml::Device, void*) = nullptr;
  nvml::Return (*fabric_info)(nvml::Device, nvml::FabricInfo*) = nullptr;
  nvml::Return (*platform_info)(nvml::Device, nvml::PlatformInfoV2*) = nullptr;

 private:
  NvmlLibrary() = default;
  template <typename Function>
  void Find(void* handle, Function*& function, std::initializer_list<const char*> names);
};

// Where drivers and their containers put it; a node's own paths come before.
std::vector<std::string> NvmlCandidates();

}  // namespace asterism::agent
