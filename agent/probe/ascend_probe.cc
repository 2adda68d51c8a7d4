#include "agent/probe/ascend_probe.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "topology/import/topo_matrix.h"

namespace asterism::agent {
namespace {

constexpr uint32_t kHuawei = 0x19e5;
constexpr uint32_t kAccelerator = 0x1200;
constexpr std::string_view kLabel = "NPU";

v1::PciDistance DistanceOf(topology::PathLevel level) {
  switch (level) {
    case topology::PathLevel::kInternal:
      return v1::PCI_SAME_BOARD;
    case topology::PathLevel::kPix:
      return v1::PCI_PIX;
    case topology::PathLevel::kPxb:
      return v1::PCI_PXB;
    case topology::PathLevel::kPhb:
      return v1::PCI_PHB;
    case topology::PathLevel::kNode:
      return v1::PCI_NODE;
    case topology::PathLevel::kSys:
      return v1::PCI_SYS;
    case topology::PathLevel::kUnknown:
    case topology::PathLevel::kSelf:
      break;
  }
  return v1::PCI_UNKNOWN;
}

v1::MeasuredGpu NpuOf(const topology::HostTopology& host, size_t index) {
  const topology::HostGpu& device = host.gpus[index];
  v1::MeasuredGpu npu;
  npu.set_uuid(fmt::format("NPU-{}", device.label.substr(kLabel.size())));
  npu.set_product(device.product.empty() ? "Ascend" : device.product);
  npu.set_minor(-1);
  npu.set_numa_node(device.numa.value_or(-1));
  for (size_t peer = 0; peer < host.gpus.size(); ++peer) {
    if (peer != index && host.pair(index, peer).links > 0) {
      v1::MeasuredLink& link = *npu.add_links();
      link.set_number(static_cast<uint32_t>(npu.links_size() - 1));
      link.set_up(true);
      link.set_remote(v1::MeasuredLink::REMOTE_GPU);
    }
  }
  return npu;
}

}  // namespace

absl::StatusOr<v1::MeasuredGpus> ParseNpuTopology(std::string_view text) {
  if (text.size() > kNpuTopologyBytesMax) {
    return absl::InvalidArgumentError("larger than any output of npu-smi info -t topo");
  }
  ASSIGN_OR_RETURN(const topology::Imported imported,
                   topology::ImportTopoMatrix("npu-smi info -t topo", text));
  if (!imported.host.has_value() || imported.host->gpus.empty()) {
    return absl::InvalidArgumentError("no matrix: is it the output of npu-smi info -t topo?");
  }
  if (imported.outcome != topology::Outcome::kOk) {
    return absl::InvalidArgumentError(imported.notes.empty() ? "the matrix is cut or damaged"
                                                             : imported.notes.front().text);
  }
  const topology::HostTopology& host = *imported.host;
  v1::MeasuredGpus npus;
  for (size_t i = 0; i < host.gpus.size(); ++i) {
    if (!host.gpus[i].label.starts_with(kLabel)) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is no NPU: is it the output of npu-smi info -t topo?", host.gpus[i].label));
    }
    *npus.add_gpus() = NpuOf(host, i);
    for (size_t peer = i + 1; peer < host.gpus.size(); ++peer) {
      const v1::PciDistance distance = DistanceOf(host.pair(i, peer).level);
      if (distance != v1::PCI_UNKNOWN) {
        v1::GpuPair& pair = *npus.add_pairs();
        pair.set_first(static_cast<uint32_t>(i));
        pair.set_second(static_cast<uint32_t>(peer));
        pair.set_distance(distance);
      }
    }
  }
  return npus;
}

AscendProbe::AscendProbe(ProbeRoots roots, TextSource source, absl::Duration period)
    : Probe("ascend", period), roots_(std::move(roots)), source_(std::move(source)) {}

ProbeResult AscendProbe::Run() {
  const absl::StatusOr<std::string> text = ReadTextSource(source_, kNpuTopologyBytesMax);
  if (!text.ok()) {
    return ProbeResult::Failed(std::string(text.status().message()));
  }
  absl::StatusOr<v1::MeasuredGpus> npus = ParseNpuTopology(*text);
  if (!npus.ok()) {
    return ProbeResult::Failed(
        fmt::format("{}: {}", source_.name(), std::string(npus.status().message())));
  }
  if (const absl::StatusOr<PciTree> tree = ReadPciTree(roots_.sysfs); tree.ok()) {
    const auto there = std::ranges::count_if(tree->devices, [](const auto& device) {
      return device.second.vendor == kHuawei && device.second.kind >> 8 == kAccelerator &&
             device.second.physical_function.empty();
    });
    if (npus->gpus_size() < there) {
      return ProbeResult::Failed(
          fmt::format("{} shows {} of the {} NPUs of this node: run npu-smi on the node itself",
                      source_.name(), npus->gpus_size(), there));
    }
  }
  ProbeResult result;
  *result.parts.mutable_gpus() = *std::move(npus);
  return result;
}

}  // namespace asterism::agent
