#include "agent/probe/pci_probe.h"

#include <utility>

#include "agent/probe/sysfs_text.h"
#include "base/small_file.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

constexpr size_t kCpuinfoMax = size_t{4} << 20;

// The first line of flags is enough: all CPUs of a guest say it.
bool CpuSaysGuest(const std::string& proc) {
  const absl::StatusOr<std::string> text = base::ReadFile(proc + "/cpuinfo", kCpuinfoMax);
  if (!text.ok()) {
    return false;
  }
  const size_t flags = text->find("\nflags");
  if (flags == std::string::npos) {
    return false;
  }
  const size_t end = text->find('\n', flags + 1);
  const std::string line = text->substr(flags, end - flags) + " ";
  return line.find(" hypervisor ") != std::string::npos;
}

}  // namespace

PciProbe::PciProbe(ProbeRoots roots, absl::Duration period)
    : Probe("pci", period), roots_(std::move(roots)) {}

std::string MachineKind(const ProbeRoots& roots) {
  const std::string dmi = roots.sysfs + "/class/dmi/id/";
  const std::string vendor = SysfsText(dmi + "sys_vendor").value_or("");
  const std::string product = SysfsText(dmi + "product_name").value_or("");
  const std::string hypervisor = SysfsText(roots.sysfs + "/hypervisor/type").value_or("");
  // Where the CPU has no such flag (Arm), these names are only given to guests.
  const bool named = product.starts_with("Standard PC") || product.starts_with("KVM") ||
                     product.starts_with("HVM domU") || vendor == "QEMU" ||
                     product.starts_with("VMware Virtual");
  if (hypervisor.empty() && !named && !CpuSaysGuest(roots.proc)) {
    return "";
  }
  if (vendor.empty() && product.empty()) {
    return fmt::format("guest: {}", hypervisor.empty() ? "of an unnamed hypervisor" : hypervisor);
  }
  return fmt::format("guest: {}{}{}", vendor, vendor.empty() || product.empty() ? "" : " ",
                     product);
}

ProbeResult PciProbe::Run() {
  ProbeResult result;
  absl::StatusOr<PciTree> tree = ReadPciTree(roots_.sysfs);
  if (!tree.ok()) {
    return ProbeResult::Failed(std::string(tree.status().message()));
  }
  if (SysfsNames(roots_.sysfs + "/bus/pci/devices", 1).empty()) {
    result.gaps.emplace_back("this machine shows no PCI device");
  }
  result.pci = *std::move(tree);
  v1::MeasuredNuma& numa = *result.parts.mutable_numa();
  for (const auto& [number, cpus] : ReadNumaNodes(roots_.sysfs)) {
    v1::MeasuredNumaNode& node = *numa.add_nodes();
    node.set_number(static_cast<uint32_t>(number));
    node.set_cpus(cpus);
  }
  result.parts.mutable_place()->set_machine(MachineKind(roots_));
  return result;
}

}  // namespace asterism::agent
