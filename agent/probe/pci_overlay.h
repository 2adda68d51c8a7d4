// File: agent/probe/pci_overlay.h
//
// A file of the site that says where the PCI devices of a guest really hang, in NCCL's own format
// (NCCL_TOPO_FILE). It may know a part only: network cards without GPUs, bridges without devices.
//
//   PciOverlayProbe probe("/etc/asterism/topology.xml");
//   ASSIGN_OR_RETURN(const PciOverlay overlay, ParsePciOverlay(text));
//
// As in NCCL, a device that the file knows hangs where the file says; one that it does not know
// hangs below the nearest of its bridges that the file knows. A `cpu` of the file may stand for
// several host bridges, so two devices without a bridge in common are at best on one NUMA node.
//
// Thread-safety: ParsePciOverlay is pure; the probe as Probe. Cost: one pass of the file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "agent/probe/pci_tree.h"
#include "agent/probe/probe.h"

namespace asterism::agent {

inline constexpr size_t kOverlayBytesMax = size_t{4} << 20;
inline constexpr size_t kOverlayDepthMax = 32;

// The error names the line and what was expected.
absl::StatusOr<PciOverlay> ParsePciOverlay(std::string_view text);

class PciOverlayProbe final : public Probe {
 public:
  explicit PciOverlayProbe(std::string path, absl::Duration period = absl::Seconds(30));
  ProbeResult Run() override;

 private:
  const std::string path_;
};

}  // namespace asterism::agent
