// File: agent/probe/pci_probe.h
//
// PCI chains, NUMA nodes with their CPUs, and whether the machine is a guest, all from sysfs.
//
//   PciProbe probe({.sysfs = "/host/sys", .proc = "/proc"});
//
// A guest is told by the CPU's own word (the flag `hypervisor`) or by /sys/hypervisor; the name is
// that of the firmware's tables.
//
// Thread-safety: as Probe. Cost: that of ReadPciTree.
#pragma once

#include <string>

#include "agent/probe/probe.h"

namespace asterism::agent {

class PciProbe final : public Probe {
 public:
  explicit PciProbe(ProbeRoots roots, absl::Duration period = absl::Seconds(30));
  ProbeResult Run() override;

 private:
  const ProbeRoots roots_;
};

// "guest: KVM", "guest: Amazon EC2 p5.48xlarge"; "" on bare metal.
std::string MachineKind(const ProbeRoots& roots);

}  // namespace asterism::agent
