// File: test/agent/fake_sysfs.h
//
// Builds a /sys of a machine that is not there, with symbolic links as the kernel makes them:
// device folders below /sys/devices, everything else points there.
//
//   FakeSysfs sysfs("h100");
//   MakeHgxH100(sysfs);
//   RdmaProbe probe({.sysfs = sysfs.root()});
//
// Thread-safety: none. Cost: a few hundred small files for a large machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asterism::testing {

struct FakePci {
  uint32_t kind = 0x030200;
  uint32_t vendor = 0x10de;
  std::string driver;
  int numa = 0;
  std::string local_cpulist;
  std::string physfn;  // path below devices/
};

struct FakePort {
  std::string state = "4: ACTIVE";
  std::string phys_state = "5: LinkUp";
  std::string rate = "400 Gb/sec (4X NDR)";
  bool ethernet = false;
  std::string lid = "0x1a";
  std::vector<std::pair<std::string, std::string>> gids;  // GID and type
};

struct FakeNic {
  uint64_t guid = 0;
  std::string kind = "MT4129";
  std::vector<FakePort> ports = {FakePort{}};
  std::vector<std::string> net_devices;  // with dev_port 0, 1, ...
};

class FakeSysfs {
 public:
  // A folder of this process, in memory where there is such a place. It goes with the object.
  explicit FakeSysfs(const std::string& name);
  ~FakeSysfs();
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  const std::string& root() const { return root_; }
  void Write(const std::string& path, const std::string& text) const;   // below the root
  void Link(const std::string& path, const std::string& target) const;  // relative to the link
  void Numa(int number, const std::string& cpus) const;
  // `path` is "pci0000:17/0000:17:01.0/.../0000:1b:00.0".
  void Pci(const std::string& path, const FakePci& facts) const;
  // A card at the PCI device of that path; "" for one in software.
  void Rdma(const std::string& name, const std::string& path, const FakeNic& facts) const;
  void NetDevice(const std::string& name, const std::string& path, int dev_port = 0) const;
  void Bond(const std::string& name, const std::vector<std::string>& members) const;

 private:
  const std::string root_;
};

// The machines. GPUs of NVIDIA are those of test/golden/gpus/*.json.
void MakeDgxA100(const FakeSysfs& sysfs);    // NPS4, 8 compute and 2 storage cards
void MakeHgxH100(const FakeSysfs& sysfs);    // 8 GPUs, 8 cards for compute and 2 for storage
void MakeGb200Tray(const FakeSysfs& sysfs);  // 4 GPUs that are NUMA nodes, 4 cards
void MakeFlatGuest(const FakeSysfs& sysfs);  // 4 GPUs, 2 cards, one host bridge, NUMA -1
void MakeMi300x(const FakeSysfs& sysfs, bool partitioned);
void MakeWideDomains(const FakeSysfs& sysfs);  // PCI domains of more than 16 bits
void MakeDualPorts(
    const FakeSysfs& sysfs);  // two ports on one function, a bond, a virtual function

}  // namespace asterism::testing
