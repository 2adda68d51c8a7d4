// File: agent/probe/nvml_types.h
//
// The part of NVML's binary interface (version 13) that the probe uses: result codes, constants and
// the layouts of structures, as the driver's library has them. No header of NVIDIA is needed.
//
//   nvml::FabricInfoV info{};
//   info.version = nvml::StructVersion<nvml::FabricInfoV3>(3);
//
// Layouts are fixed by their version; the asserts hold the sizes that version 13 has.
//
// Thread-safety: plain data. Cost: none.
#pragma once

#include <cstdint>

namespace asterism::agent::nvml {

using Device = void*;
using Return = int32_t;

enum : Return {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kLibraryNotFound = 12,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kOperatingSystem = 17,
  kLibraryMismatch = 18,
  kInUse = 19,
  kArgumentVersionMismatch = 25,
  kDeprecated = 26,
  kNotReady = 27,
  kGpuNotFound = 28,
  kUnknown = 999,
};

// Of nvmlInitWithFlags.
inline constexpr uint32_t kInitNoGpus = 1;    // do not fail without any
inline constexpr uint32_t kInitNoAttach = 2;  // do not initialise GPUs

inline constexpr uint32_t kUuidBytes = 96;
inline constexpr uint32_t kNameBytes = 96;
inline constexpr uint32_t kVersionBytes = 80;
inline constexpr uint32_t kLinksMax = 36;

struct PciInfo {
  char bus_id_legacy[16];
  uint32_t domain;
  uint32_t bus;
  uint32_t device;
  uint32_t pci_device_id;
  uint32_t pci_subsystem_id;  // undefined for the far end of a link
  char bus_id[32];            // "00000000:1B:00.0"
};
static_assert(sizeof(PciInfo) == 68);

struct Memory {
  uint64_t total;
  uint64_t free;
  uint64_t used;
};
static_assert(sizeof(Memory) == 24);

struct MemoryV2 {
  uint32_t version;
  uint64_t total;
  uint64_t reserved;
  uint64_t free;
  uint64_t used;
};
static_assert(sizeof(MemoryV2) == 40);

union Value {
  double as_double;
  int32_t as_int;
  uint32_t as_uint;
  uint64_t as_ulong;
  int64_t as_long;
  uint16_t as_ushort;
};
static_assert(sizeof(Value) == 8);

enum : uint32_t {
  kTypeDouble = 0,
  kTypeUint = 1,
  kTypeUlong = 2,
  kTypeUlongLong = 3,
  kTypeLongLong = 4,
  kTypeInt = 5,
  kTypeUshort = 6,
};

struct FieldValue {
  uint32_t field_id;
  uint32_t scope_id;  // of a link's field, the number of the link
  int64_t timestamp;
  int64_t latency_us;
  uint32_t value_type;
  Return result;
  Value value;
};
static_assert(sizeof(FieldValue) == 40);

inline constexpr uint32_t kFieldLinkCount = 91;
inline constexpr uint32_t kFieldLinkSpeed = 164;  // MB/s, one direction
inline constexpr uint32_t kFieldLinkState = 165;  // 1: up

// nvmlGpuTopologyLevel_t
enum : uint32_t {
  kTopologyInternal = 0,
  kTopologySingle = 10,
  kTopologyMultiple = 20,
  kTopologyHostBridge = 30,
  kTopologyNode = 40,
  kTopologySystem = 50,
};

inline constexpr uint32_t kP2pRead = 0;
enum : uint32_t {
  kP2pOk = 0,
  kP2pChipset = 1,
  kP2pGpu = 2,
  kP2pIohTopology = 3,
  kP2pRegistry = 4,
  kP2pNotSupported = 5,
  kP2pUnknown = 6,
};

// nvmlIntNvLinkDeviceType_t
enum : uint32_t { kRemoteGpu = 0, kRemoteIbmNpu = 1, kRemoteSwitch = 2, kRemoteUnknown = 255 };

// nvmlGpuFabricState_t
enum : uint8_t {
  kFabricNotSupported = 0,
  kFabricNotStarted = 1,
  kFabricInProgress = 2,
  kFabricCompleted = 3,
};

enum : uint8_t {
  kHealthNotSupported = 0,
  kHealthHealthy = 1,
  kHealthUnhealthy = 2,
  kHealthLimited = 3,
};

struct FabricInfo {
  uint8_t cluster_uuid[16];
  Return status;
  uint32_t clique_id;
  uint8_t state;
};
static_assert(sizeof(FabricInfo) == 28);

struct FabricInfoV2 {
  uint32_t version;
  uint8_t cluster_uuid[16];
  Return status;
  uint32_t clique_id;
  uint8_t state;
  uint32_t health_mask;
};
static_assert(sizeof(FabricInfoV2) == 36);

struct FabricInfoV3 {
  uint32_t version;
  uint8_t cluster_uuid[16];
  Return status;
  uint32_t clique_id;
  uint8_t state;
  uint32_t health_mask;
  uint8_t health_summary;
};
static_assert(sizeof(FabricInfoV3) == 40);

struct PlatformInfoV2 {
  uint32_t version;
  uint8_t ib_guid[16];
  uint8_t chassis_serial_number[16];
  uint8_t slot_number;  // counts switch trays
  uint8_t tray_index;   // counts compute trays
  uint8_t host_id;
  uint8_t peer_type;
  uint8_t module_id;
};
static_assert(sizeof(PlatformInfoV2) == 44);

template <typename Struct>
constexpr uint32_t StructVersion(uint32_t number) {
  return static_cast<uint32_t>(sizeof(Struct)) | number << 24;
}

}  // namespace asterism::agent::nvml
