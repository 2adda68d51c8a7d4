#include "test/agent/fake_sysfs.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fmt/format.h"

namespace asterism::testing {
namespace {

namespace fs = std::filesystem;

std::string Up(const std::string& path) {
  std::string up;
  for (const char letter : path) {
    up += letter == '/' ? "../" : "";
  }
  return up;
}

std::string Name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string GuidText(uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

FakeNic Infiniband(uint64_t guid, const std::string& rate = "400 Gb/sec (4X NDR)") {
  return {.guid = guid,
          .ports = {{.rate = rate,
                     .gids = {{"fe80:0000:0000:0000:" + GuidText(guid + 8), "IB/RoCE v1"}}}}};
}

FakePci Card(int numa) {
  return {.kind = 0x020700, .vendor = 0x15b3, .driver = "mlx5_core", .numa = numa};
}

FakePci Gpu(int numa) {
  return {.driver = "nvidia", .numa = numa};
}

}  // namespace

FakeSysfs::FakeSysfs(const std::string& name)
    : root_(fmt::format(
          "{}/asterism-test-{}-{}",
          access("/dev/shm", W_OK) == 0 ? "/dev/shm" : fs::temp_directory_path().string(), getpid(),
          name)) {
  fs::remove_all(root_);
  fs::create_directories(root_ + "/devices");
}

FakeSysfs::~FakeSysfs() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void FakeSysfs::Write(const std::string& path, const std::string& text) const {
  fs::create_directories(fs::path(root_ + "/" + path).parent_path());
  std::ofstream(root_ + "/" + path, std::ios::trunc) << text << "\n";
}

void FakeSysfs::Link(const std::string& path, const std::string& target) const {
  fs::create_directories(fs::path(root_ + "/" + path).parent_path());
  fs::remove(root_ + "/" + path);
  fs::create_symlink(target, root_ + "/" + path);
}

void FakeSysfs::Numa(int number, const std::string& cpus) const {
  Write(fmt::format("devices/system/node/node{}/cpulist", number), cpus);
}

void FakeSysfs::Pci(const std::string& path, const FakePci& facts) const {
  // The bridges above have an entry on the bus too.
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string above = path.substr(0, slash);
    if (Name(above).starts_with("pci") || fs::exists(root_ + "/devices/" + above + "/class")) {
      continue;
    }
    Write("devices/" + above + "/class", "0x060400");
    Write("devices/" + above + "/numa_node", std::to_string(facts.numa));
    Link("bus/pci/devices/" + Name(above), "../../../devices/" + above);
  }
  const std::string folder = "devices/" + path;
  Write(folder + "/class", fmt::format("0x{:06x}", facts.kind));
  Write(folder + "/vendor", fmt::format("0x{:04x}", facts.vendor));
  Write(folder + "/numa_node", std::to_string(facts.numa));
  Write(folder + "/local_cpulist", facts.local_cpulist);
  if (!facts.driver.empty()) {
    fs::create_directories(root_ + "/bus/pci/drivers/" + facts.driver);
    Link(folder + "/driver", Up(folder + "/") + "bus/pci/drivers/" + facts.driver);
  }
  if (!facts.physfn.empty()) {
    Link(folder + "/physfn", Up(folder + "/") + "devices/" + facts.physfn);
  }
  Link("bus/pci/devices/" + Name(path), "../../../devices/" + path);
}

void FakeSysfs::NetDevice(const std::string& name, const std::string& path, int dev_port) const {
  const std::string folder = "devices/" + path + "/net/" + name;
  Write(folder + "/dev_port", std::to_string(dev_port));
  Link(folder + "/device", "../../../" + Name(path));
  Link("class/net/" + name, "../../" + folder);
}

void FakeSysfs::Bond(const std::string& name, const std::vector<std::string>& members) const {
  const std::string folder = "devices/virtual/net/" + name;
  std::string list;
  for (const std::string& member : members) {
    list += (list.empty() ? "" : " ") + member;
    const fs::path real = fs::canonical(root_ + "/class/net/" + member);
    const std::string below = fs::relative(real, root_).string();
    Link(below + "/master", Up(below + "/") + folder);
  }
  Write(folder + "/bonding/slaves", list);
  Link("class/net/" + name, "../../" + folder);
}

void FakeSysfs::Rdma(const std::string& name, const std::string& path, const FakeNic& facts) const {
  const std::string folder = path.empty() ? "devices/virtual/infiniband/" + name
                                          : "devices/" + path + "/infiniband/" + name;
  Write(folder + "/node_guid", GuidText(facts.guid));
  Write(folder + "/sys_image_guid", GuidText(facts.guid & ~uint64_t{0xf}));
  Write(folder + "/hca_type", facts.kind);
  Write(folder + "/node_desc", "a node");
  if (!path.empty()) {
    Link(folder + "/device", "../../../" + Name(path));
  }
  for (size_t i = 0; i < facts.ports.size(); ++i) {
    const FakePort& port = facts.ports[i];
    const std::string at = fmt::format("{}/ports/{}", folder, i + 1);
    Write(at + "/state", port.state);
    Write(at + "/phys_state", port.phys_state);
    Write(at + "/rate", port.rate);
    Write(at + "/lid", port.lid);
    Write(at + "/link_layer", port.ethernet ? "Ethernet" : "InfiniBand");
    // The table is longer than what is in use.
    for (size_t gid = 0; gid < 16; ++gid) {
      const bool used = gid < port.gids.size();
      Write(fmt::format("{}/gids/{}", at, gid),
            used ? port.gids[gid].first : "0000:0000:0000:0000:0000:0000:0000:0000");
      if (used) {
        Write(fmt::format("{}/gid_attrs/types/{}", at, gid), port.gids[gid].second);
      }
    }
  }
  for (size_t i = 0; i < facts.net_devices.size(); ++i) {
    NetDevice(facts.net_devices[i], path, static_cast<int>(i));
  }
  Link("class/infiniband/" + name, "../../" + folder);
}

void MakeDgxA100(const FakeSysfs& sysfs) {
  // Four NUMA nodes a socket; the CPU lists of the two threads of a core stand apart.
  for (int node = 0; node < 8; ++node) {
    sysfs.Numa(node, fmt::format("{}-{},{}-{}", node * 16, node * 16 + 15, node * 16 + 128,
                                 node * 16 + 143));
  }
  constexpr int kNuma[] = {3, 1, 7, 5};
  for (int group = 0; group < 4; ++group) {
    const std::string host = fmt::format("{:02x}", 0x10 + group * 0x20);
    const auto bus = [&](int offset) {
      return fmt::format("{:02x}", 0x10 + group * 0x20 + offset);
    };
    const std::string top = fmt::format("pci0000:{0}/0000:{0}:01.1/0000:{1}:00.0", host, bus(1));
    for (int i = 0; i < 2; ++i) {
      sysfs.Pci(fmt::format("{0}/0000:{1}:00.0/0000:{2}:00.0/0000:{3}:0{4}.0/0000:{5}:00.0", top,
                            bus(2), bus(3), bus(4), i, bus(6 + i)),
                Gpu(kNuma[group]));
      // mlx5_4 and mlx5_5 are the storage cards.
      const int number = group * 2 + i + (group >= 2 ? 2 : 0);
      const std::string card =
          fmt::format("{0}/0000:{1}:1{2}.0/0000:{3}:00.0", top, bus(2), i, bus(10 + i));
      sysfs.Pci(card, Card(kNuma[group]));
      sysfs.Rdma(fmt::format("mlx5_{}", number), card,
                 Infiniband(0x0c42a10300550000 + static_cast<uint64_t>(number) * 0x100,
                            "200 Gb/sec (4X HDR)"));
    }
  }
  for (int i = 0; i < 2; ++i) {
    const std::string card = fmt::format("pci0000:{0:02x}/0000:{0:02x}:01.1/0000:{1:02x}:00.0",
                                         0xa0 + 0x20 * i, 0xa1 + 0x20 * i);
    sysfs.Pci(card, Card(i == 0 ? 2 : 6));
    sysfs.Rdma(
        fmt::format("mlx5_{}", 4 + i), card,
        Infiniband(0x0c42a10300660000 + static_cast<uint64_t>(i) * 0x100, "200 Gb/sec (4X HDR)"));
  }
}

void MakeHgxH100(const FakeSysfs& sysfs) {
  sysfs.Numa(0, "0-47,96-143");
  sysfs.Numa(1, "48-95,144-191");
  for (int i = 0; i < 8; ++i) {
    const int numa = i / 4;
    const int bus = 0x18 + i * 0x18;
    const std::string top =
        fmt::format("pci0000:{0:02x}/0000:{0:02x}:01.0/0000:{1:02x}:00.0", bus, bus + 1);
    sysfs.Pci(fmt::format("{}/0000:{:02x}:00.0/0000:{:02x}:00.0", top, bus + 2, bus + 3),
              Gpu(numa));
    const std::string card =
        fmt::format("{}/0000:{:02x}:01.0/0000:{:02x}:00.0", top, bus + 2, bus + 4);
    sysfs.Pci(card, Card(numa));
    sysfs.Rdma(fmt::format("mlx5_{}", i), card,
               Infiniband(0xb83fd20300770000 + static_cast<uint64_t>(i) * 0x100));
  }
  for (int i = 0; i < 2; ++i) {
    const std::string card = fmt::format("pci0000:{0:02x}/0000:{0:02x}:03.0/0000:{1:02x}:00.0",
                                         0x0a + i * 0xd0, 0x0b + i * 0xd0);
    sysfs.Pci(card, Card(i));
    sysfs.Rdma(
        fmt::format("mlx5_{}", 8 + i), card,
        Infiniband(0xb83fd20300880000 + static_cast<uint64_t>(i) * 0x100, "200 Gb/sec (4X HDR)"));
  }
}

void MakeGb200Tray(const FakeSysfs& sysfs) {
  sysfs.Numa(0, "0-71");
  sysfs.Numa(1, "72-143");
  for (int node = 2; node < 34; ++node) {
    sysfs.Numa(node, "");  // memory of the GPUs and of their partitions
  }
  for (int i = 0; i < 4; ++i) {
    const int domain = 8 + i;
    sysfs.Pci(fmt::format("pci{0:04x}:00/{0:04x}:00:00.0/{0:04x}:01:00.0", domain), Gpu(i / 2));
    const std::string card =
        fmt::format("pci{0:04x}:00/{0:04x}:00:00.0/{0:04x}:03:00.0", i / 2 * 0x10 + i % 2);
    sysfs.Pci(card, Card(i / 2));
    sysfs.Rdma(fmt::format("mlx5_{}", i), card,
               Infiniband(0x5c25730300990000 + static_cast<uint64_t>(i) * 0x100));
  }
}

void MakeFlatGuest(const FakeSysfs& sysfs) {
  sysfs.Numa(0, "0-31");
  sysfs.Write("class/dmi/id/sys_vendor", "QEMU");
  sysfs.Write("class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)");
  for (int i = 0; i < 4; ++i) {
    // Two of them on another invented bridge, so that only the NUMA node could tell.
    sysfs.Pci(fmt::format("pci000{0}:00/000{0}:00:{1:02x}.0", i / 2, 5 + i),
              {.driver = "nvidia", .numa = -1, .local_cpulist = "0-31"});
  }
  for (int i = 0; i < 2; ++i) {
    const std::string card = fmt::format("pci000{0}:00/000{0}:00:{1:02x}.0", i, 0x10 + i);
    sysfs.Pci(card, {.kind = 0x020000,
                     .vendor = 0x15b3,
                     .driver = "mlx5_core",
                     .numa = -1,
                     .local_cpulist = "0-31"});
    FakeNic nic;
    nic.guid = 0x00155dfffe330000 + static_cast<uint64_t>(i);
    nic.ports[0].ethernet = true;
    nic.ports[0].lid = "0x0";
    nic.ports[0].gids = {{"fe80:0000:0000:0000:0015:5dff:fe33:0000", "IB/RoCE v1"},
                         {"fe80:0000:0000:0000:0015:5dff:fe33:0000", "RoCE v2"},
                         {"0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1"},
                         {"0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2"}};
    nic.net_devices = {fmt::format("eth{}", i + 1)};
    sysfs.Rdma(fmt::format("mlx5_{}", i), card, nic);
  }
}

void MakeMi300x(const FakeSysfs& sysfs, bool partitioned) {
  sysfs.Numa(0, "0-95");
  sysfs.Numa(1, "96-191");
  const std::string nodes = "class/kfd/kfd/topology/nodes/";
  const int parts = partitioned ? 8 : 1;
  for (int cpu = 0; cpu < 2; ++cpu) {
    sysfs.Write(fmt::format("{}{}/gpu_id", nodes, cpu), "0");
    sysfs.Write(fmt::format("{}{}/properties", nodes, cpu), "cpu_cores_count 96\nsimd_count 0");
  }
  for (int card = 0; card < 8; ++card) {
    const int bus = 0x05 + card * 0x18;
    sysfs.Pci(fmt::format("pci0000:{0:02x}/0000:{0:02x}:01.1/0000:{1:02x}:00.0", bus - 1, bus),
              {.kind = 0x120000, .vendor = 0x1002, .driver = "amdgpu", .numa = card / 4});
    for (int part = 0; part < parts; ++part) {
      const int number = 2 + card * parts + part;
      const std::string folder = fmt::format("{}{}", nodes, number);
      sysfs.Write(folder + "/gpu_id", std::to_string(20000 + number));
      sysfs.Write(folder + "/name", "aqua_vanjaram");
      sysfs.Write(folder + "/properties",
                  fmt::format("cpu_cores_count 0\nsimd_count {}\ngfx_target_version 90402\n"
                              "location_id {}\ndomain 0\ndrm_render_minor {}\nunique_id {}\n"
                              "hive_id 7709870120462245401",
                              partitioned ? 152 : 1216, bus << 8 | part, 128 + number,
                              1234567890123456789ULL + static_cast<uint64_t>(card)));
      sysfs.Write(folder + "/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 206141652992");
      int link = 0;
      // Every partition has links to all; a few of them stand for the rest.
      for (int peer = partitioned ? part : 0; peer < 8 * parts; peer += partitioned ? 4 : 1) {
        if (peer / parts == card && parts == 1) {
          continue;
        }
        sysfs.Write(fmt::format("{}/io_links/{}/properties", folder, link++),
                    fmt::format("type 11\nnode_from {}\nnode_to {}\nmax_bandwidth 64000", number,
                                2 + peer));
      }
      sysfs.Write(
          fmt::format("{}/io_links/{}/properties", folder, link),
          fmt::format("type 2\nnode_from {}\nnode_to {}\nmax_bandwidth 64000", number, card / 4));
    }
  }
}

void MakeWideDomains(const FakeSysfs& sysfs) {
  sysfs.Numa(0, "0-31");
  sysfs.Numa(1, "32-63");
  // A bridge with a domain of its own, wider than 16 bits.
  const std::string host = "pci0000:97/0000:97:00.5/pci10000:e0/10000:e0:02.0/";
  sysfs.Pci(host + "10000:e1:00.0/10000:e2:00.0/10000:e3:00.0", Gpu(1));
  const std::string card = host + "10000:e1:00.0/10000:e2:01.0/10000:e4:00.0";
  sysfs.Pci(card, Card(1));
  sysfs.Rdma("mlx5_0", card, Infiniband(0xb83fd20300aa0000));
}

void MakeDualPorts(const FakeSysfs& sysfs) {
  sysfs.Numa(0, "0-31");
  // One function with two ports, one of them down.
  const std::string old_card = "pci0000:00/0000:00:03.0/0000:04:00.0";
  sysfs.Pci(old_card, Card(0));
  FakeNic dual;
  dual.guid = 0x0002c90300bb0000;
  dual.kind = "MT4103";
  dual.ports = {{.rate = "40 Gb/sec (4X FDR10)",
                 .ethernet = true,
                 .gids = {{"fe80:0000:0000:0000:0202:c9ff:febb:0001", "RoCE v2"}}},
                {.state = "1: DOWN",
                 .phys_state = "3: Disabled",
                 .rate = "40 Gb/sec (4X FDR10)",
                 .ethernet = true}};
  dual.net_devices = {"ens3", "ens3d1"};
  sysfs.Rdma("mlx4_0", old_card, dual);
  // Two functions of one card in a bond: one RDMA device for both.
  const std::string first = "pci0000:16/0000:16:02.0/0000:17:00.0";
  const std::string second = "pci0000:16/0000:16:02.0/0000:17:00.1";
  sysfs.Pci(first, Card(0));
  sysfs.Pci(second, Card(0));
  FakeNic bond;
  bond.guid = 0xb83fd20300cc0000;
  bond.ports[0].ethernet = true;
  bond.net_devices = {"ens5f0np0"};
  sysfs.Rdma("mlx5_bond_0", first, bond);
  sysfs.NetDevice("ens5f1np1", second);
  sysfs.Bond("bond0", {"ens5f0np0", "ens5f1np1"});
  // A virtual function of the first one.
  const std::string virtual_one = "pci0000:16/0000:16:02.0/0000:17:00.2";
  FakePci function = Card(0);
  function.physfn = first;
  sysfs.Pci(virtual_one, function);
  sysfs.Rdma("mlx5_4", virtual_one, Infiniband(0xb83fd20300dd0000));
  // One in software, on a network device.
  FakeNic soft;
  soft.guid = 0x505400fffe123456;
  soft.kind = "";
  soft.ports[0].ethernet = true;
  sysfs.Rdma("rxe0", "", soft);
  sysfs.Write("devices/virtual/infiniband/rxe0/parent", "veth0");
}

}  // namespace asterism::testing
