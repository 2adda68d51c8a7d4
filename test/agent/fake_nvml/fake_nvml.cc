// A libnvidia-ml.so.1 for machines without a GPU: the same soname, symbols and structures as the
// driver's, and what $ASTERISM_FAKE_NVML says, or, where that is not set, gpus.json in the folder
// of the library (test/rig/gpu_fixture/gpu_fixture.h). The file is read again whenever it has
// changed, so that a test can lose a GPU or let a call hang, and go on.
#include <dlfcn.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "agent/probe/nvml_types.h"
#include "test/rig/gpu_fixture/gpu_fixture.h"

namespace asterism::testing {
namespace {

namespace nvml = agent::nvml;
using nvml::Device;
using nvml::Return;

struct FakeDriver {
  std::mutex mutex;
  std::string path;
  timespec written{};
  ino_t file = 0;
  GpuFixture fixture;
  std::vector<size_t> listed;  // since the library was started
  int started = 0;
  int fabric_calls = 0;
};

FakeDriver& Driver() {
  static auto* const driver = new FakeDriver;
  return *driver;
}

std::string FixturePath() {
  if (const char* const path = std::getenv("ASTERISM_FAKE_NVML"); path != nullptr) {
    return path;
  }
  static const char kHere = 0;
  Dl_info library = {};
  if (dladdr(&kHere, &library) == 0 || library.dli_fname == nullptr) {
    return "";
  }
  return std::filesystem::path(library.dli_fname).replace_filename("gpus.json");
}

// The fixture of now.
GpuFixture Now() {
  FakeDriver& driver = Driver();
  const std::lock_guard lock(driver.mutex);
  const std::string path = FixturePath();
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) {
    return {};
  }
  if (path != driver.path || facts.st_ino != driver.file ||
      facts.st_mtim.tv_sec != driver.written.tv_sec ||
      facts.st_mtim.tv_nsec != driver.written.tv_nsec) {
    auto read = ReadGpuFixture(path);
    if (read.ok()) {
      driver.fixture = *std::move(read);
      driver.fabric_calls = 0;
    } else {
      std::fprintf(stderr, "fake NVML: %s\n", std::string(read.status().message()).c_str());
    }
    driver.path = path;
    driver.file = facts.st_ino;
    driver.written = facts.st_mtim;
  }
  return driver.fixture;
}

// Every call begins here: it may hang until the fixture lets it go on.
Return Enter(const char* call, GpuFixture& fixture) {
  fixture = Now();
  while (fixture.faults.hang.contains(call)) {
    poll(nullptr, 0, 5);
    fixture = Now();
  }
  FakeDriver& driver = Driver();
  const std::lock_guard lock(driver.mutex);
  if (driver.started == 0) {
    return nvml::kUninitialized;
  }
  return fixture.faults.not_supported.contains(call) ? nvml::kNotSupported : nvml::kSuccess;
}

Return EnterDevice(const char* call, Device device, GpuFixture& fixture, size_t& index) {
  if (const Return code = Enter(call, fixture); code != nvml::kSuccess) {
    return code;
  }
  index = reinterpret_cast<size_t>(device) - 1;
  if (index >= fixture.gpus.size()) {
    return nvml::kInvalidArgument;
  }
  return fixture.faults.lost.contains(index) ? nvml::kGpuIsLost : nvml::kSuccess;
}

Return CopyText(const std::string& text, char* buffer, uint32_t length) {
  if (text.size() + 1 > length) {
    return nvml::kInsufficientSize;
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return nvml::kSuccess;
}

Return FillPci(const std::string& address, nvml::PciInfo* pci) {
  *pci = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  if (std::sscanf(address.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) {
    return nvml::kNotSupported;
  }
  pci->domain = domain;
  pci->bus = bus;
  pci->device = device;
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.%X", domain, bus, device,
                function);
  std::snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "%04X:%02X:%02X.%X",
                domain & 0xffff, bus, device, function);
  return nvml::kSuccess;
}

Return Start() {
  const GpuFixture fixture = Now();
  FakeDriver& driver = Driver();
  const std::lock_guard lock(driver.mutex);
  if (fixture.faults.start != 0) {
    return fixture.faults.start;
  }
  ++driver.started;
  driver.listed.clear();
  for (size_t i = 0; i < fixture.gpus.size(); ++i) {
    if (!fixture.faults.visible.has_value() || fixture.faults.visible->contains(i)) {
      driver.listed.push_back(i);
    }
  }
  return nvml::kSuccess;
}

// Registration takes some calls.
FixtureFabric FabricNow(const GpuFixture& fixture, size_t index) {
  FakeDriver& driver = Driver();
  const std::lock_guard lock(driver.mutex);
  FixtureFabric fabric = fixture.gpus[index].fabric;
  if (driver.fabric_calls++ < fixture.faults.in_progress_calls) {
    fabric.state = nvml::kFabricInProgress;
    fabric.cluster_uuid.fill(0);
  }
  return fabric;
}

template <typename Info>
void FillFabric(const FixtureFabric& fabric, Info* info) {
  std::copy(fabric.cluster_uuid.begin(), fabric.cluster_uuid.end(), info->cluster_uuid);
  info->status = fabric.status;
  info->clique_id = fabric.clique_id;
  info->state = fabric.state;
}

Return FillField(const FixtureGpu& gpu, nvml::FieldValue& field) {
  field.value_type = nvml::kTypeUint;
  if (field.field_id == nvml::kFieldLinkCount) {
    field.value.as_uint = static_cast<uint32_t>(gpu.links.size());
    return nvml::kSuccess;
  }
  const auto link = gpu.links.find(field.scope_id);
  if (link == gpu.links.end()) {
    return nvml::kInvalidArgument;
  }
  if (field.field_id == nvml::kFieldLinkState) {
    field.value.as_uint = link->second.active ? 1 : 0;
    return nvml::kSuccess;
  }
  if (field.field_id == nvml::kFieldLinkSpeed) {
    field.value.as_uint = link->second.active ? link->second.mb_per_second : 0;
    return nvml::kSuccess;
  }
  return nvml::kNotSupported;
}

}  // namespace
}  // namespace asterism::testing

// The names and structures are NVIDIA's.
extern "C" {

using namespace asterism::testing;  // NOLINT(google-build-using-namespace)
using asterism::agent::nvml::Device;
using asterism::agent::nvml::Return;

Return nvmlInitWithFlags(uint32_t) {
  return Start();
}
Return nvmlInit_v2() {
  return Start();
}
Return nvmlShutdown() {
  FakeDriver& driver = Driver();
  const std::lock_guard lock(driver.mutex);
  driver.started = std::max(driver.started - 1, 0);
  return nvml::kSuccess;
}

const char* nvmlErrorString(Return code) {
  switch (code) {
    case nvml::kSuccess:
      return "Success";
    case nvml::kUninitialized:
      return "Uninitialized";
    case nvml::kInvalidArgument:
      return "Invalid Argument";
    case nvml::kNotSupported:
      return "Not Supported";
    case nvml::kDriverNotLoaded:
      return "Driver Not Loaded";
    case nvml::kGpuIsLost:
      return "GPU is lost";
    case nvml::kArgumentVersionMismatch:
      return "Argument version mismatch";
    default:
      return "Unknown Error";
  }
}

Return nvmlSystemGetDriverVersion(char* text, uint32_t length) {
  GpuFixture fixture;
  const Return code = Enter("nvmlSystemGetDriverVersion", fixture);
  return code != nvml::kSuccess ? code : CopyText(fixture.driver, text, length);
}

Return nvmlDeviceGetCount_v2(uint32_t* count) {
  GpuFixture fixture;
  const Return code = Enter("nvmlDeviceGetCount", fixture);
  FakeDriver& driver = Driver();
  const std::lock_guard lock(driver.mutex);
  *count = static_cast<uint32_t>(driver.listed.size());
  return code;
}

Return nvmlDeviceGetHandleByIndex_v2(uint32_t number, Device* device) {
  GpuFixture fixture;
  if (const Return code = Enter("nvmlDeviceGetHandleByIndex", fixture); code != nvml::kSuccess) {
    return code;
  }
  size_t index = 0;
  {
    FakeDriver& driver = Driver();
    const std::lock_guard lock(driver.mutex);
    if (number >= driver.listed.size()) {
      return nvml::kInvalidArgument;
    }
    index = driver.listed[number];
  }
  *device = reinterpret_cast<Device>(index + 1);
  return fixture.faults.lost.contains(index) ? nvml::kGpuIsLost : nvml::kSuccess;
}

Return nvmlDeviceGetUUID(Device device, char* text, uint32_t length) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetUUID", device, fixture, index);
  return code != nvml::kSuccess ? code : CopyText(fixture.gpus[index].uuid, text, length);
}

Return nvmlDeviceGetName(Device device, char* text, uint32_t length) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetName", device, fixture, index);
  return code != nvml::kSuccess ? code : CopyText(fixture.gpus[index].product, text, length);
}

Return nvmlDeviceGetPciInfo_v3(Device device, nvml::PciInfo* pci) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetPciInfo", device, fixture, index);
  return code != nvml::kSuccess ? code : FillPci(fixture.gpus[index].pci, pci);
}

Return nvmlDeviceGetMinorNumber(Device device, uint32_t* minor) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetMinorNumber", device, fixture, index);
  if (code != nvml::kSuccess || fixture.gpus[index].minor < 0) {
    return code != nvml::kSuccess ? code : nvml::kNotSupported;
  }
  *minor = static_cast<uint32_t>(fixture.gpus[index].minor);
  return nvml::kSuccess;
}

Return nvmlDeviceGetMemoryInfo(Device device, nvml::Memory* memory) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetMemoryInfo", device, fixture, index);
  if (code == nvml::kSuccess) {
    *memory = {.total = fixture.gpus[index].memory_bytes};
  }
  return code;
}

Return nvmlDeviceGetMemoryInfo_v2(Device device, nvml::MemoryV2* memory) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetMemoryInfo", device, fixture, index);
  if (code != nvml::kSuccess) {
    return code;
  }
  if (fixture.faults.memory_version < 2 ||
      memory->version != nvml::StructVersion<nvml::MemoryV2>(2)) {
    return nvml::kArgumentVersionMismatch;
  }
  memory->total = fixture.gpus[index].memory_bytes;
  return nvml::kSuccess;
}

Return nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetCudaComputeCapability", device, fixture, index);
  if (code == nvml::kSuccess) {
    *major = fixture.gpus[index].major;
    *minor = fixture.gpus[index].minor_version;
  }
  return code;
}

Return nvmlDeviceGetMemoryAffinity(Device device, uint32_t words, unsigned long* set, uint32_t) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetMemoryAffinity", device, fixture, index);
  if (code != nvml::kSuccess) {
    return code;
  }
  std::fill(set, set + words, 0);
  const int numa = fixture.gpus[index].numa;
  if (numa < 0) {
    return nvml::kNotSupported;
  }
  set[numa / 64] |= 1UL << (numa % 64);
  return nvml::kSuccess;
}

Return nvmlDeviceGetMigMode(Device device, uint32_t* current, uint32_t* pending) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetMigMode", device, fixture, index);
  if (code == nvml::kSuccess) {
    *current = *pending = fixture.gpus[index].mig ? 1 : 0;
  }
  return code;
}

Return nvmlDeviceGetTopologyCommonAncestor(Device left, Device right, uint32_t* level) {
  GpuFixture fixture;
  size_t first = 0;
  size_t second = 0;
  if (const Return code = EnterDevice("nvmlDeviceGetTopologyCommonAncestor", left, fixture, first);
      code != nvml::kSuccess) {
    return code;
  }
  const Return code = EnterDevice("nvmlDeviceGetTopologyCommonAncestor", right, fixture, second);
  *level = fixture.pairs[std::minmax(first, second)].distance;
  return code;
}

Return nvmlDeviceGetP2PStatus(Device left, Device right, uint32_t, uint32_t* status) {
  GpuFixture fixture;
  size_t first = 0;
  size_t second = 0;
  if (const Return code = EnterDevice("nvmlDeviceGetP2PStatus", left, fixture, first);
      code != nvml::kSuccess) {
    return code;
  }
  const Return code = EnterDevice("nvmlDeviceGetP2PStatus", right, fixture, second);
  *status = fixture.pairs[std::minmax(first, second)].p2p;
  return code;
}

Return nvmlDeviceGetFieldValues(Device device, int count, nvml::FieldValue* fields) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetFieldValues", device, fixture, index);
  if (code == nvml::kSuccess) {
    for (int i = 0; i < count; ++i) {
      fields[i].result = FillField(fixture.gpus[index], fields[i]);
    }
  }
  return code;
}

Return nvmlDeviceGetNvLinkState(Device device, uint32_t link, uint32_t* active) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetNvLinkState", device, fixture, index);
  if (code != nvml::kSuccess) {
    return code;
  }
  const auto found = fixture.gpus[index].links.find(link);
  if (found == fixture.gpus[index].links.end()) {
    return nvml::kInvalidArgument;
  }
  *active = found->second.active ? 1 : 0;
  return nvml::kSuccess;
}

Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, uint32_t link, nvml::PciInfo* pci) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetNvLinkRemotePciInfo", device, fixture, index);
  if (code != nvml::kSuccess) {
    return code;
  }
  const auto found = fixture.gpus[index].links.find(link);
  return found == fixture.gpus[index].links.end() || !found->second.active
             ? nvml::kInvalidArgument
             : FillPci(found->second.remote_pci, pci);
}

Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, uint32_t link, uint32_t* type) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetNvLinkRemoteDeviceType", device, fixture, index);
  if (code != nvml::kSuccess) {
    return code;
  }
  const auto found = fixture.gpus[index].links.find(link);
  if (found == fixture.gpus[index].links.end() || !found->second.active) {
    return nvml::kInvalidArgument;
  }
  *type = found->second.remote;
  return nvml::kSuccess;
}

Return nvmlDeviceGetGpuFabricInfoV(Device device, void* info) {
  GpuFixture fixture;
  size_t index = 0;
  if (const Return code = EnterDevice("nvmlDeviceGetGpuFabricInfoV", device, fixture, index);
      code != nvml::kSuccess) {
    return code;
  }
  const uint32_t version = *static_cast<uint32_t*>(info);
  if (fixture.faults.fabric_version >= 3 && version == nvml::StructVersion<nvml::FabricInfoV3>(3)) {
    auto* const third = static_cast<nvml::FabricInfoV3*>(info);
    const FixtureFabric fabric = FabricNow(fixture, index);
    FillFabric(fabric, third);
    third->health_mask = fabric.health_mask;
    third->health_summary = fabric.health_summary;
    return nvml::kSuccess;
  }
  if (fixture.faults.fabric_version >= 2 && version == nvml::StructVersion<nvml::FabricInfoV2>(2)) {
    auto* const second = static_cast<nvml::FabricInfoV2*>(info);
    const FixtureFabric fabric = FabricNow(fixture, index);
    FillFabric(fabric, second);
    second->health_mask = fabric.health_mask;
    return nvml::kSuccess;
  }
  return nvml::kArgumentVersionMismatch;
}

Return nvmlDeviceGetGpuFabricInfo(Device device, nvml::FabricInfo* info) {
  GpuFixture fixture;
  size_t index = 0;
  const Return code = EnterDevice("nvmlDeviceGetGpuFabricInfo", device, fixture, index);
  if (code == nvml::kSuccess) {
    FillFabric(FabricNow(fixture, index), info);
  }
  return code;
}

Return nvmlDeviceGetPlatformInfo(Device device, nvml::PlatformInfoV2* info) {
  GpuFixture fixture;
  size_t index = 0;
  if (const Return code = EnterDevice("nvmlDeviceGetPlatformInfo", device, fixture, index);
      code != nvml::kSuccess) {
    return code;
  }
  if (!fixture.platform.has_value()) {
    return nvml::kNotSupported;
  }
  if (fixture.faults.platform_version < 2 ||
      info->version != nvml::StructVersion<nvml::PlatformInfoV2>(2)) {
    return nvml::kArgumentVersionMismatch;
  }
  const std::string& serial = fixture.platform->chassis_serial;
  std::copy_n(serial.begin(), std::min(serial.size(), sizeof(info->chassis_serial_number)),
              info->chassis_serial_number);
  info->slot_number = fixture.platform->slot_number;
  info->tray_index = fixture.platform->tray_index;
  info->host_id = fixture.platform->host_id;
  info->module_id = static_cast<uint8_t>(fixture.gpus[index].module_id);
  return nvml::kSuccess;
}

}  // extern "C"
