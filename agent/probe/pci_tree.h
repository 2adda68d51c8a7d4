// File: agent/probe/pci_tree.h
//
// Where the PCI devices of a machine hang: the chain of bridges from the host bridge to each
// device, and its NUMA node. It tells how far two devices are apart, as NCCL counts it.
//
//   ASSIGN_OR_RETURN(PciTree tree, ReadPciTree("/sys"));
//   tree.Distance("0000:1b:00.0", "0000:1c:00.0");   // PCI_PIX
//
// The chain is the real path of the device in sysfs, where a switch is two bridges: its upstream
// port and the downstream port of the device. Devices below one switch are PIX; below several
// switches of one root port PXB; below one host bridge PHB; else NUMA nodes decide between NODE and
// SYS.
//
// In a guest the tree is an invention of the
// hypervisor; a PciOverlay of the site (agent/probe/pci_overlay.h) then moves devices to where they
// really are.
//
// Thread-safety: values; functions are pure but for ReadPciTree. Cost: ReadPciTree reads one small
// file for each PCI device and two links for each that matters, some 5 ms on a large machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "asterism/v1/node_measurement.pb.h"

namespace asterism::agent {

// "00000000:1B:00.0" -> "0000:1b:00.0"; domains wider than 16 bits keep their digits. No value: no
// PCI address.
std::optional<std::string> NormalPciAddress(std::string_view text);

struct PciPlace {
  std::string host;                  // the host bridge, "pci0000:17"; empty: not known
  std::vector<std::string> bridges;  // outermost first, without the device
  int numa = -1;                     // -1: not told
  uint32_t kind = 0;                 // PCI class, 24 bits: 0x030200 is a GPU
  uint32_t vendor = 0;               // 0x10de is NVIDIA
  std::string driver;                // "nvidia", "mlx5_core"; empty: none is bound
  std::string physical_function;     // of a virtual one, its address
  bool from_overlay = false;         // `bridges` are switches, without their ports
};

// What a file of the site says of places; see agent/probe/pci_overlay.h.
struct PciOverlay {
  std::map<std::string, PciPlace> places;  // of devices and bridges
};

struct PciTree {
  std::map<std::string, PciPlace> devices;  // accelerators and network cards, by address
  bool overlaid = false;

  const PciPlace* Find(const std::string& address) const;
  // PCI_UNKNOWN when a device is not known, or when NUMA nodes would decide and are not told.
  v1::PciDistance Distance(const std::string& left, const std::string& right) const;
  // Moves the devices that the overlay knows, or whose bridges it knows.
  void Apply(const PciOverlay& overlay);
};

inline constexpr size_t kPciDevicesMax = 4096;

// NUMA nodes that have CPUs: number -> cpulist. Empty where the kernel has no NUMA.
std::map<int, std::string> ReadNumaNodes(const std::string& sysfs);

absl::StatusOr<PciTree> ReadPciTree(const std::string& sysfs);

// The chain of a device by the real path of its folder, "/sys/devices/pci0000:17/0000:17:01.0/...".
PciPlace PciPlaceOfPath(std::string_view path);

}  // namespace asterism::agent
