#include "agent/probe/nvml_probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "agent/probe/sysfs_text.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

constexpr uint32_t kNvidia = 0x10de;
constexpr uint32_t kGpusMax = 256;
constexpr absl::Duration kWhilePending = absl::Seconds(2);

// GPUs that the driver has taken. What is handed through to a guest is not the node's.
std::vector<std::string> GpusOnBus(const PciTree& tree, std::vector<std::string>& gaps) {
  std::vector<std::string> addresses;
  for (const auto& [address, place] : tree.devices) {
    const uint32_t kind = place.kind >> 8;
    if (place.vendor != kNvidia || (kind != 0x0300 && kind != 0x0302) ||
        !place.physical_function.empty()) {
      continue;
    }
    if (place.driver == "nvidia") {
      addresses.push_back(address);
    } else {
      gaps.push_back(place.driver.empty()
                         ? fmt::format("the GPU {} has no driver", address)
                         : fmt::format("the GPU {} is taken by {}", address, place.driver));
    }
  }
  return addresses;
}

// The driver's own list, which counts more where a sandbox hides the bus.
size_t GpusOfDriver(const std::string& proc) {
  return SysfsNames(proc + "/driver/nvidia/gpus").size();
}

// Of "GPU UUID: \t GPU-..." in the driver's information about one GPU; "?" stands for what it
// cannot read any more.
std::string UuidOfDriver(const std::string& proc, const std::string& address) {
  const std::string text =
      SysfsText(fmt::format("{}/driver/nvidia/gpus/{}/information", proc, address)).value_or("");
  size_t at = text.find("GPU UUID:");
  if (at == std::string::npos) {
    return "";
  }
  at = text.find("GPU-", at);
  const size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
  const std::string uuid = at == std::string::npos ? "" : text.substr(at, end - at);
  return uuid.find('?') == std::string::npos && uuid.size() == 40 ? uuid : "";
}

bool IsLost(nvml::Return code) {
  return code == nvml::kGpuIsLost || code == nvml::kGpuNotFound;
}

uint64_t NumberIn(const nvml::FieldValue& field) {
  switch (field.value_type) {
    case nvml::kTypeDouble:
      return field.value.as_double < 0 ? 0 : static_cast<uint64_t>(field.value.as_double);
    case nvml::kTypeUint:
      return field.value.as_uint;
    case nvml::kTypeInt:
      return static_cast<uint64_t>(std::max(field.value.as_int, 0));
    case nvml::kTypeUshort:
      return field.value.as_ushort;
    case nvml::kTypeLongLong:
      return static_cast<uint64_t>(std::max(field.value.as_long, int64_t{0}));
    default:
      return field.value.as_ulong;
  }
}

std::string TextIn(const char* buffer, size_t size) {
  return std::string(buffer, strnlen(buffer, size));
}

v1::PciDistance DistanceOfLevel(uint32_t level) {
  switch (level) {
    case nvml::kTopologyInternal:
      return v1::PCI_SAME_BOARD;
    case nvml::kTopologySingle:
      return v1::PCI_PIX;
    case nvml::kTopologyMultiple:
      return v1::PCI_PXB;
    case nvml::kTopologyHostBridge:
      return v1::PCI_PHB;
    case nvml::kTopologyNode:
      return v1::PCI_NODE;
    case nvml::kTopologySystem:
      return v1::PCI_SYS;
    default:
      return v1::PCI_UNKNOWN;
  }
}

v1::MeasuredLink::Remote RemoteOfType(uint32_t type) {
  switch (type) {
    case nvml::kRemoteGpu:
      return v1::MeasuredLink::REMOTE_GPU;
    case nvml::kRemoteSwitch:
      return v1::MeasuredLink::REMOTE_SWITCH;
    case nvml::kRemoteIbmNpu:
      return v1::MeasuredLink::REMOTE_CPU;
    default:
      return v1::MeasuredLink::REMOTE_UNKNOWN;
  }
}

template <typename Info>
FabricFacts FactsOf(const Info& info) {
  FabricFacts facts;
  facts.answered = true;
  facts.state = info.state;
  facts.status = info.status;
  facts.clique_id = info.clique_id;
  std::copy(std::begin(info.cluster_uuid), std::end(info.cluster_uuid), facts.cluster_uuid.begin());
  return facts;
}

void AddGap(ProbeResult& result, std::string gap) {
  if (!std::ranges::count(result.gaps, gap)) {
    result.gaps.push_back(std::move(gap));
  }
}

}  // namespace

NvmlProbe::NvmlProbe(ProbeRoots roots, std::vector<std::string> libraries, absl::Duration period)
    : Probe("nvml", period), roots_(std::move(roots)), libraries_(std::move(libraries)) {}

absl::Status NvmlProbe::Open() {
  if (nvml_ == nullptr) {
    ASSIGN_OR_RETURN(nvml_, NvmlLibrary::Load(libraries_));
  }
  // NO_ATTACH is not used: a GPU that is not initialised tells nothing of its links.
  const nvml::Return code =
      nvml_->init_with_flags != nullptr ? nvml_->init_with_flags(nvml::kInitNoGpus) : nvml_->init();
  if (code != nvml::kSuccess) {
    return absl::UnavailableError(
        fmt::format("{} does not start: {}", nvml_->path, nvml_->ErrorText(code)));
  }
  open_ = true;
  return absl::OkStatus();
}

void NvmlProbe::Close() {
  if (std::exchange(open_, false) && nvml_->shutdown != nullptr) {
    nvml_->shutdown();
  }
}

ProbeResult NvmlProbe::Run() {
  ProbeResult result;
  absl::StatusOr<PciTree> tree = ReadPciTree(roots_.sysfs);
  if (!tree.ok()) {
    return ProbeResult::Failed(std::string(tree.status().message()));
  }
  std::vector<std::string> on_bus = GpusOnBus(*tree, result.gaps);
  const size_t there = std::max(on_bus.size(), GpusOfDriver(roots_.proc));
  if (there == 0) {
    Close();
    result.parts.mutable_gpus();
    result.parts.mutable_nvlink_domain()->set_state(v1::MeasuredNvlinkDomain::NONE);
    return result;
  }
  if (open_ && on_bus != shown_on_bus_) {
    Close();  // NVML lists the GPUs that were there when it was initialised
  }
  if (!open_) {
    known_.clear();
    if (const absl::Status opened = Open(); !opened.ok()) {
      return ProbeResult::Failed(
          fmt::format("{} NVIDIA GPUs are there, and {}", there, std::string(opened.message())));
    }
    shown_on_bus_ = on_bus;
  }
  const absl::StatusOr<std::vector<KnownGpu>> gpus = ReadGpus(*tree, result);
  if (!gpus.ok()) {
    Close();
    return ProbeResult::Failed(std::string(gpus.status().message()));
  }
  if (gpus->size() < there) {
    Close();
    return ProbeResult::Failed(
        fmt::format("the driver shows {} of the {} GPUs of this node: run the agent with all "
                    "devices (NVIDIA_VISIBLE_DEVICES=all, or privileged)",
                    gpus->size(), there));
  }
  v1::MeasuredGpus& told = *result.parts.mutable_gpus();
  std::vector<FabricFacts> fabric;
  for (const KnownGpu& known : *gpus) {
    v1::MeasuredGpu& gpu = *told.add_gpus();
    gpu = known.gpu;
    if (known.device != nullptr) {
      ReadLinks(known, gpu, result);
      fabric.push_back(ReadFabric(known, result));
    }
  }
  ReadPairs(*gpus, told);
  *result.parts.mutable_nvlink_domain() = NvlinkDomainOf(fabric);
  if (FabricPending(fabric)) {
    result.again = kWhilePending;
  }
  ReadPlace(*gpus, result);
  if (!nvml_->missing.empty()) {
    AddGap(result,
           fmt::format("the driver's library lacks {}", absl::StrJoin(nvml_->missing, ", ")));
  }
  return result;
}

absl::StatusOr<std::vector<NvmlProbe::KnownGpu>> NvmlProbe::ReadGpus(const PciTree& tree,
                                                                     ProbeResult& result) {
  uint32_t count = 0;
  if (const nvml::Return code = nvml_->count(&count); code != nvml::kSuccess) {
    return absl::UnavailableError(
        fmt::format("the driver does not count its GPUs: {}", nvml_->ErrorText(code)));
  }
  if (count > kGpusMax) {
    return absl::OutOfRangeError(fmt::format("the driver counts {} GPUs", count));
  }
  std::vector<KnownGpu> gpus;
  std::vector<uint32_t> lost;
  for (uint32_t index = 0; index < count; ++index) {
    absl::StatusOr<KnownGpu> gpu = ReadGpu(index, result);
    if (gpu.ok()) {
      known_[index] = gpu->gpu;
      gpus.push_back(*std::move(gpu));
    } else if (gpu.status().code() == absl::StatusCode::kDataLoss) {
      lost.push_back(index);
    } else {
      return gpu.status();
    }
  }
  std::vector<std::string> gaps;
  const std::vector<std::string> on_bus = GpusOnBus(tree, gaps);
  for (const uint32_t index : lost) {
    ASSIGN_OR_RETURN(KnownGpu gpu, LostGpu(index, gpus, on_bus));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

absl::StatusOr<NvmlProbe::KnownGpu> NvmlProbe::LostGpu(
    uint32_t index, const std::vector<KnownGpu>& found,
    const std::vector<std::string>& on_bus) const {
  KnownGpu lost;
  if (const auto known = known_.find(index); known != known_.end()) {
    lost.gpu = known->second;
    lost.gpu.set_lost(true);
    return lost;
  }
  for (const std::string& address : on_bus) {
    const bool taken = std::ranges::any_of(
        found, [&](const KnownGpu& gpu) { return gpu.gpu.pci_address() == address; });
    const std::string uuid = taken ? "" : UuidOfDriver(roots_.proc, address);
    if (!uuid.empty()) {
      lost.gpu.set_uuid(uuid);
      lost.gpu.set_pci_address(address);
      lost.gpu.set_minor(-1);
      lost.gpu.set_numa_node(-1);
      lost.gpu.set_lost(true);
      return lost;
    }
  }
  return absl::UnavailableError(
      fmt::format("the driver has lost GPU {} and cannot tell which one it is: reset the GPU, or "
                  "boot the node anew",
                  index));
}

absl::StatusOr<NvmlProbe::KnownGpu> NvmlProbe::ReadGpu(uint32_t index, ProbeResult& result) {
  KnownGpu known;
  const auto failed = [&](const char* what, nvml::Return code) {
    const std::string text = fmt::format("GPU {}: {}: {}", index, what, nvml_->ErrorText(code));
    return IsLost(code) ? absl::DataLossError(text) : absl::UnavailableError(text);
  };
  if (const nvml::Return code = nvml_->handle_by_index(index, &known.device);
      code != nvml::kSuccess) {
    return failed("no handle", code);
  }
  v1::MeasuredGpu& gpu = known.gpu;
  std::array<char, nvml::kUuidBytes> text{};
  if (const nvml::Return code = nvml_->uuid(known.device, text.data(), text.size());
      code != nvml::kSuccess) {
    return failed("no UUID", code);
  }
  gpu.set_uuid(TextIn(text.data(), text.size()));
  if (nvml_->pci_info != nullptr) {
    nvml::PciInfo pci{};
    const nvml::Return code = nvml_->pci_info(known.device, &pci);
    if (IsLost(code)) {
      return failed("no PCI address", code);
    }
    const std::string bus_id = TextIn(pci.bus_id, sizeof(pci.bus_id));
    if (code == nvml::kSuccess) {
      gpu.set_pci_address(NormalPciAddress(bus_id).value_or(""));
    }
  }
  if (gpu.pci_address().empty()) {
    AddGap(result, "no PCI addresses: distances are not told");
  }
  if (text.fill('\0'); nvml_->name != nullptr &&
                       nvml_->name(known.device, text.data(), text.size()) == nvml::kSuccess) {
    gpu.set_product(TextIn(text.data(), text.size()));
  }
  uint32_t minor = 0;
  const bool has_minor =
      nvml_->minor_number != nullptr && nvml_->minor_number(known.device, &minor) == nvml::kSuccess;
  gpu.set_minor(has_minor ? static_cast<int32_t>(minor) : -1);
  nvml::MemoryV2 memory{};
  memory.version = nvml::StructVersion<nvml::MemoryV2>(2);
  nvml::Memory old_memory{};
  if (nvml_->memory_info_v2 != nullptr &&
      nvml_->memory_info_v2(known.device, &memory) == nvml::kSuccess) {
    gpu.set_memory_bytes(memory.total);
  } else if (nvml_->memory_info != nullptr &&
             nvml_->memory_info(known.device, &old_memory) == nvml::kSuccess) {
    gpu.set_memory_bytes(old_memory.total);
  } else {
    AddGap(result, "the size of the GPUs' memory");
  }
  int major = 0;
  int minor_version = 0;
  if (nvml_->compute_capability != nullptr &&
      nvml_->compute_capability(known.device, &major, &minor_version) == nvml::kSuccess) {
    gpu.set_architecture(fmt::format("sm_{}{}", major, minor_version));
  }
  gpu.set_numa_node(-1);
  std::array<unsigned long, 16> nodes{};
  if (nvml_->memory_affinity != nullptr &&
      nvml_->memory_affinity(known.device, nodes.size(), nodes.data(), 0) == nvml::kSuccess) {
    int bits = 0;
    for (size_t word = 0; word < nodes.size(); ++word) {
      bits += std::popcount(nodes[word]);
      if (nodes[word] != 0) {
        gpu.set_numa_node(static_cast<int32_t>(word * 64) + std::countr_zero(nodes[word]));
      }
    }
    if (bits != 1) {
      gpu.set_numa_node(-1);
    }
  }
  uint32_t current = 0;
  uint32_t pending = 0;
  gpu.set_mig(nvml_->mig_mode != nullptr &&
              nvml_->mig_mode(known.device, &current, &pending) == nvml::kSuccess && current != 0);
  return known;
}

void NvmlProbe::ReadLinks(const KnownGpu& known, v1::MeasuredGpu& gpu, ProbeResult& result) const {
  uint32_t count = nvml::kLinksMax;
  std::vector<nvml::FieldValue> fields(1 + 2 * nvml::kLinksMax);
  fields[0].field_id = nvml::kFieldLinkCount;
  for (uint32_t link = 0; link < nvml::kLinksMax; ++link) {
    fields[1 + 2 * link] = {.field_id = nvml::kFieldLinkState, .scope_id = link};
    fields[2 + 2 * link] = {.field_id = nvml::kFieldLinkSpeed, .scope_id = link};
  }
  for (nvml::FieldValue& field : fields) {
    field.result = nvml::kNotSupported;
  }
  if (nvml_->field_values != nullptr) {
    nvml_->field_values(known.device, static_cast<int>(fields.size()), fields.data());
    if (fields[0].result == nvml::kSuccess) {
      count = static_cast<uint32_t>(std::min<uint64_t>(NumberIn(fields[0]), nvml::kLinksMax));
    }
  }
  const bool counted = fields[0].result == nvml::kSuccess;
  for (uint32_t number = 0; number < count; ++number) {
    const nvml::FieldValue& state = fields[1 + 2 * number];
    uint32_t up = 0;
    if (state.result == nvml::kSuccess) {
      up = NumberIn(state) == 1 ? 1 : 0;
    } else if (nvml_->link_state == nullptr ||
               nvml_->link_state(known.device, number, &up) != nvml::kSuccess) {
      if (counted) {
        AddGap(result, fmt::format("GPU {}: the state of NVLink {}", gpu.uuid(), number));
      }
      continue;
    }
    v1::MeasuredLink& link = *gpu.add_links();
    link.set_number(number);
    link.set_up(up == 1);
    if (!link.up()) {
      continue;  // its far end and its rate mean nothing
    }
    const nvml::FieldValue& speed = fields[2 + 2 * number];
    if (speed.result == nvml::kSuccess) {
      link.set_bytes_per_second(NumberIn(speed) * 1'000'000);
    }
    uint32_t type = nvml::kRemoteUnknown;
    if (nvml_->link_remote_type != nullptr &&
        nvml_->link_remote_type(known.device, number, &type) == nvml::kSuccess) {
      link.set_remote(RemoteOfType(type));
    }
    nvml::PciInfo pci{};
    if (nvml_->link_remote_pci != nullptr &&
        nvml_->link_remote_pci(known.device, number, &pci) == nvml::kSuccess) {
      link.set_remote_pci_address(
          NormalPciAddress(TextIn(pci.bus_id, sizeof(pci.bus_id))).value_or(""));
    }
  }
}

void NvmlProbe::ReadPairs(const std::vector<KnownGpu>& gpus, v1::MeasuredGpus& told) const {
  for (size_t first = 0; first < gpus.size(); ++first) {
    for (size_t second = first + 1; second < gpus.size(); ++second) {
      nvml::Device const left = gpus[first].device;
      nvml::Device const right = gpus[second].device;
      if (left == nullptr || right == nullptr) {
        continue;
      }
      uint32_t level = 0;
      const bool near = nvml_->common_ancestor != nullptr &&
                        nvml_->common_ancestor(left, right, &level) == nvml::kSuccess;
      uint32_t status = nvml::kP2pUnknown;
      const bool peers = nvml_->p2p_status != nullptr &&
                         nvml_->p2p_status(left, right, nvml::kP2pRead, &status) == nvml::kSuccess;
      if (!near && !peers) {
        continue;
      }
      v1::GpuPair& pair = *told.add_pairs();
      pair.set_first(static_cast<uint32_t>(first));
      pair.set_second(static_cast<uint32_t>(second));
      pair.set_distance(near ? DistanceOfLevel(level) : v1::PCI_UNKNOWN);
      pair.set_peer_refused(peers && status != nvml::kP2pOk && status < nvml::kP2pUnknown);
    }
  }
}

FabricFacts NvmlProbe::ReadFabric(const KnownGpu& known, ProbeResult& result) const {
  FabricFacts facts;
  nvml::Return code = nvml::kFunctionNotFound;
  const auto older = [&code] {
    return code == nvml::kArgumentVersionMismatch || code == nvml::kFunctionNotFound ||
           code == nvml::kInvalidArgument;
  };
  if (nvml_->fabric_info_v != nullptr) {
    nvml::FabricInfoV3 info{};
    info.version = nvml::StructVersion<nvml::FabricInfoV3>(3);
    code = nvml_->fabric_info_v(known.device, &info);
    if (code == nvml::kSuccess) {
      facts = FactsOf(info);
      facts.health_mask = info.health_mask;
      facts.health_summary = info.health_summary;
      return facts;
    }
    if (older()) {
      AddGap(result, "the summary of the NVLink domain's health");
      nvml::FabricInfoV2 second{};
      second.version = nvml::StructVersion<nvml::FabricInfoV2>(2);
      code = nvml_->fabric_info_v(known.device, &second);
      if (code == nvml::kSuccess) {
        facts = FactsOf(second);
        facts.health_mask = second.health_mask;
        return facts;
      }
    }
  }
  if (older() && nvml_->fabric_info != nullptr) {
    AddGap(result, "the health of the NVLink domain");
    nvml::FabricInfo info{};
    code = nvml_->fabric_info(known.device, &info);
    if (code == nvml::kSuccess) {
      return FactsOf(info);
    }
  }
  if (code == nvml::kNotSupported) {
    facts.answered = true;  // the state is NOT_SUPPORTED
    return facts;
  }
  if (older()) {
    AddGap(result, "the NVLink domain");
    facts.why = "the driver has no function for the NVLink domain";
  } else {
    facts.why =
        fmt::format("the driver does not tell the NVLink domain: {}", nvml_->ErrorText(code));
  }
  return facts;
}

void NvmlProbe::ReadPlace(const std::vector<KnownGpu>& gpus, ProbeResult& result) const {
  if (nvml_->platform_info == nullptr) {
    return;  // a gap by its name
  }
  for (const KnownGpu& known : gpus) {
    if (known.device == nullptr) {
      continue;
    }
    nvml::PlatformInfoV2 info{};
    info.version = nvml::StructVersion<nvml::PlatformInfoV2>(2);
    const nvml::Return code = nvml_->platform_info(known.device, &info);
    if (code == nvml::kArgumentVersionMismatch || code == nvml::kInvalidArgument) {
      AddGap(result, "the place in the rack");
      return;
    }
    if (code != nvml::kSuccess) {
      continue;
    }
    const std::string serial = TextIn(reinterpret_cast<const char*>(info.chassis_serial_number),
                                      sizeof(info.chassis_serial_number));
    if (serial.empty() || !std::ranges::all_of(serial, [](char letter) {
          return std::isgraph(static_cast<unsigned char>(letter)) != 0;
        })) {
      continue;
    }
    const auto add = [&result](const char* name, std::string value) {
      v1::PlaceStep& step = *result.parts.mutable_place()->add_steps();
      step.set_name(name);
      step.set_value(std::move(value));
    };
    add("chassis", serial);
    add("slot", std::to_string(info.slot_number));
    add("tray", std::to_string(info.tray_index));
    add("host", std::to_string(info.host_id));
    return;
  }
}

}  // namespace asterism::agent
