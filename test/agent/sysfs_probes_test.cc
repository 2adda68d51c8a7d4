// PCI chains, RDMA devices and AMD's GPUs, from trees as the kernel makes them.
#include "agent/probe/kfd_probe.h"
#include "agent/probe/measurement_merge.h"
#include "agent/probe/pci_overlay.h"
#include "agent/probe/pci_probe.h"
#include "agent/probe/rdma_probe.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/agent/fake_sysfs.h"

namespace asterism::agent {
namespace {

using ::asterism::testing::FakeSysfs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FakeSysfs EmptyMachine() {
  return FakeSysfs(::testing::UnitTest::GetInstance()->current_test_info()->name());
}

ProbeRoots RootsOf(const FakeSysfs& sysfs) {
  return {.sysfs = sysfs.root(), .proc = sysfs.root() + "/no-proc"};
}

v1::NodeMeasurement Measure(const FakeSysfs& sysfs, const ProbeResult* gpus = nullptr,
                            const ProbeResult* overlay = nullptr) {
  const ProbeResult pci = PciProbe(RootsOf(sysfs)).Run();
  const ProbeResult rdma = RdmaProbe(RootsOf(sysfs)).Run();
  EXPECT_EQ(pci.problem + rdma.problem, "");
  return MergeMeasurement({{"gpus", gpus}, {"pci", &pci}, {"rdma", &rdma}, {"overlay", overlay}});
}

// GPUs of which only the address is known.
ProbeResult GpusAt(const std::vector<std::string>& addresses) {
  ProbeResult result;
  for (const std::string& address : addresses) {
    result.parts.mutable_gpus()->add_gpus()->set_pci_address(address);
  }
  return result;
}

const v1::MeasuredNic& NicNamed(const v1::NodeMeasurement& measured, const std::string& name) {
  for (const v1::MeasuredNic& nic : measured.nics().nics()) {
    if (nic.device() == name) {
      return nic;
    }
  }
  ADD_FAILURE() << "no card " << name;
  return v1::MeasuredNic::default_instance();
}

TEST(PciAddress, HasOneForm) {
  EXPECT_EQ(NormalPciAddress("00000000:1B:00.0"), "0000:1b:00.0");
  EXPECT_EQ(NormalPciAddress("0000:1b:00.0"), "0000:1b:00.0");
  EXPECT_EQ(NormalPciAddress("10000:E1:00.0"), "10000:e1:00.0");
  EXPECT_EQ(NormalPciAddress("1b:00.0"), "0000:1b:00.0");
  EXPECT_EQ(NormalPciAddress("ffff:ff:01.0"), "ffff:ff:01.0");
  for (const char* text :
       {"", ":", ".", ":.", "pci0000:00", "0000:1b:00", "0000:1b:00.", "net", "0000:1b:00.0.0",
        "00000000000:1b:00.0", "mlx5_core.sf.2", "a:b:c:d.e"}) {
    EXPECT_FALSE(NormalPciAddress(text).has_value()) << text;
  }
}

TEST(PciTree, CountsDistancesAsNcclDoes) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeDgxA100(sysfs);
  const absl::StatusOr<PciTree> tree = ReadPciTree(sysfs.root());
  ASSERT_TRUE(tree.ok());
  // Two GPUs and two cards below one root port, the GPUs behind another switch.
  EXPECT_EQ(tree->Distance("0000:16:00.0", "0000:17:00.0"), v1::PCI_PIX);
  EXPECT_EQ(tree->Distance("0000:16:00.0", "0000:1a:00.0"), v1::PCI_PXB);
  EXPECT_EQ(tree->Distance("0000:1a:00.0", "0000:1b:00.0"), v1::PCI_PIX);
  EXPECT_EQ(tree->Distance("0000:16:00.0", "0000:36:00.0"), v1::PCI_SYS);
  EXPECT_EQ(tree->Distance("0000:16:00.0", "0000:99:00.0"), v1::PCI_UNKNOWN);
}

TEST(PciTree, OneHostBridgeIsPhb) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeFlatGuest(sysfs);
  const absl::StatusOr<PciTree> tree = ReadPciTree(sysfs.root());
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->Distance("0000:00:05.0", "0000:00:06.0"), v1::PCI_PHB);
  // On another one only NUMA nodes could tell, and they are -1.
  EXPECT_EQ(tree->Distance("0000:00:05.0", "0001:00:07.0"), v1::PCI_UNKNOWN);
}

TEST(PciTree, TakesTheNumaNodeOfABridgeOrOfNearCpus) {
  const FakeSysfs sysfs = EmptyMachine();
  sysfs.Numa(0, "0-15");
  sysfs.Numa(1, "16-31");
  sysfs.Pci("pci0000:00/0000:00:01.0/0000:01:00.0", {.numa = -1});
  sysfs.Write("devices/pci0000:00/0000:00:01.0/numa_node", "1");
  sysfs.Pci("pci0000:40/0000:40:01.0/0000:41:00.0", {.numa = -1, .local_cpulist = "0-15"});
  sysfs.Pci("pci0000:80/0000:80:01.0/0000:81:00.0", {.numa = -1, .local_cpulist = "0-31"});
  const absl::StatusOr<PciTree> tree = ReadPciTree(sysfs.root());
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->Find("0000:01:00.0")->numa, 1);
  EXPECT_EQ(tree->Find("0000:41:00.0")->numa, 0);
  EXPECT_EQ(tree->Find("0000:81:00.0")->numa, -1);
  EXPECT_EQ(tree->Distance("0000:01:00.0", "0000:41:00.0"), v1::PCI_SYS);
  EXPECT_EQ(tree->Distance("0000:01:00.0", "0000:81:00.0"), v1::PCI_UNKNOWN);
}

TEST(PciTree, DomainsMayBeWiderThan16Bits) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeWideDomains(sysfs);
  const ProbeResult gpus = GpusAt({"10000:e3:00.0"});
  const v1::NodeMeasurement measured = Measure(sysfs, &gpus);
  EXPECT_EQ(NicNamed(measured, "mlx5_0").pci_address(), "10000:e4:00.0");
  EXPECT_THAT(NicNamed(measured, "mlx5_0").gpu_distances(), ElementsAre(v1::PCI_PIX));
  EXPECT_EQ(measured.gpus().gpus(0).numa_node(), 1);
}

TEST(PciProbe, KnowsAGuest) {
  const FakeSysfs sysfs = EmptyMachine();
  EXPECT_EQ(MachineKind(RootsOf(sysfs)), "");
  sysfs.Write("class/dmi/id/sys_vendor", "Amazon EC2");
  sysfs.Write("class/dmi/id/product_name", "p5.48xlarge");
  // A bare machine of a cloud has such names too; the CPU knows.
  EXPECT_EQ(MachineKind(RootsOf(sysfs)), "");
  sysfs.Write("no-proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm");
  EXPECT_EQ(MachineKind(RootsOf(sysfs)), "guest: Amazon EC2 p5.48xlarge");
}

TEST(RdmaProbe, TellsPortsOfAnHgxH100AndTheirDistances) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeHgxH100(sysfs);
  std::vector<std::string> addresses;
  for (const char* address : {"0000:1b:00.0", "0000:33:00.0", "0000:c3:00.0"}) {
    addresses.emplace_back(address);
  }
  const ProbeResult gpus = GpusAt(addresses);
  const v1::NodeMeasurement measured = Measure(sysfs, &gpus);
  ASSERT_EQ(measured.nics().nics_size(), 10);
  EXPECT_EQ(measured.nics().source(), v1::MeasuredNics::SYSFS);
  const v1::MeasuredNic& nic = NicNamed(measured, "mlx5_1");
  EXPECT_EQ(nic.node_guid(), 0xb83fd20300770100U);
  EXPECT_EQ(nic.kind(), "MT4129");
  EXPECT_EQ(nic.numa_node(), 0);
  EXPECT_FALSE(nic.virtual_function());
  ASSERT_EQ(nic.ports_size(), 1);
  EXPECT_EQ(nic.ports(0).guid(), 0xb83fd20300770108U);
  EXPECT_TRUE(nic.ports(0).active());
  EXPECT_EQ(nic.ports(0).state(), "ACTIVE");
  EXPECT_EQ(nic.ports(0).physical_state(), "LinkUp");
  EXPECT_FALSE(nic.ports(0).ethernet());
  EXPECT_EQ(nic.ports(0).bits_per_second(), 400'000'000'000U);
  EXPECT_EQ(nic.ports(0).lid(), 0x1aU);
  EXPECT_THAT(nic.gpu_distances(), ElementsAre(v1::PCI_NODE, v1::PCI_PIX, v1::PCI_SYS));
  // A storage card is near no GPU.
  EXPECT_THAT(NicNamed(measured, "mlx5_8").gpu_distances(),
              ElementsAre(v1::PCI_NODE, v1::PCI_NODE, v1::PCI_SYS));
}

TEST(RdmaProbe, TellsTwoPortsABondAVirtualFunctionAndASoftDevice) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeDualPorts(sysfs);
  const v1::NodeMeasurement measured = Measure(sysfs);
  const v1::MeasuredNic& dual = NicNamed(measured, "mlx4_0");
  ASSERT_EQ(dual.ports_size(), 2);
  EXPECT_TRUE(dual.ports(0).active());
  EXPECT_FALSE(dual.ports(1).active());
  EXPECT_EQ(dual.ports(1).state(), "DOWN");
  EXPECT_THAT(dual.ports(0).net_devices(), ElementsAre("ens3"));
  EXPECT_THAT(dual.ports(1).net_devices(), ElementsAre("ens3d1"));
  const v1::MeasuredNic& bond = NicNamed(measured, "mlx5_bond_0");
  EXPECT_THAT(bond.ports(0).net_devices(), ElementsAre("ens5f0np0", "ens5f1np1"));
  EXPECT_TRUE(NicNamed(measured, "mlx5_4").virtual_function());
  EXPECT_FALSE(bond.virtual_function());
  const v1::MeasuredNic& soft = NicNamed(measured, "rxe0");
  EXPECT_EQ(soft.pci_address(), "");
  EXPECT_EQ(soft.numa_node(), -1);
  EXPECT_THAT(soft.ports(0).net_devices(), ElementsAre("veth0"));
}

TEST(RdmaProbe, PrefersAGidThatCanBeRouted) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeFlatGuest(sysfs);
  const v1::MeasuredPort port = NicNamed(Measure(sysfs), "mlx5_0").ports(0);
  EXPECT_TRUE(port.ethernet());
  EXPECT_EQ(port.gid(), "0000:0000:0000:0000:0000:ffff:0a00:0001");
  EXPECT_EQ(port.guid(), 0U);
  EXPECT_THAT(port.net_devices(), ElementsAre("eth1"));
}

TEST(RdmaProbe, AMachineWithoutCardsHasNone) {
  const FakeSysfs sysfs = EmptyMachine();
  const ProbeResult result = RdmaProbe(RootsOf(sysfs)).Run();
  EXPECT_EQ(result.problem, "");
  EXPECT_TRUE(result.parts.has_nics());
  EXPECT_EQ(result.parts.nics().nics_size(), 0);
}

TEST(RdmaProbe, ReadsGuidsAndRates) {
  EXPECT_EQ(RdmaGuid("b83f:d203:005f:27a0"), 0xb83fd203005f27a0U);
  EXPECT_EQ(RdmaGuid("0xb83fd203005f27a0"), 0xb83fd203005f27a0U);
  EXPECT_FALSE(RdmaGuid("").has_value());
  EXPECT_FALSE(RdmaGuid("b83f:d203:005f:27a0:0001").has_value());
  EXPECT_EQ(RdmaRate("2.5 Gb/sec (1X SDR)"), 2'500'000'000U);
  EXPECT_EQ(RdmaRate("800 Gb/sec (4X XDR)"), 800'000'000'000U);
  EXPECT_EQ(RdmaRate("fast"), 0U);
  EXPECT_EQ(RdmaRate("-1 Gb/sec"), 0U);
}

TEST(KfdProbe, TellsMi300xAndTheirLinks) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeMi300x(sysfs, /*partitioned=*/false);
  const ProbeResult kfd = KfdProbe(RootsOf(sysfs)).Run();
  ASSERT_EQ(kfd.problem, "");
  const v1::NodeMeasurement measured = Measure(sysfs, &kfd);
  ASSERT_EQ(measured.gpus().gpus_size(), 8);
  const v1::MeasuredGpu& gpu = measured.gpus().gpus(4);
  EXPECT_EQ(gpu.uuid(), "GPU-112210f47de98119");
  EXPECT_EQ(gpu.pci_address(), "0000:65:00.0");
  EXPECT_EQ(gpu.architecture(), "gfx942");
  EXPECT_EQ(gpu.memory_bytes(), 206141652992U);
  EXPECT_EQ(gpu.numa_node(), 1);
  EXPECT_FALSE(gpu.mig());
  ASSERT_EQ(gpu.links_size(), 7);
  EXPECT_EQ(gpu.links(0).bytes_per_second(), 64'000'000'000U);
  EXPECT_EQ(measured.gpus().pairs_size(), 28);
  EXPECT_EQ(measured.gpus().pairs(0).distance(), v1::PCI_NODE);
}

TEST(KfdProbe, PartitionsAreOneCard) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeMi300x(sysfs, /*partitioned=*/true);
  const ProbeResult kfd = KfdProbe(RootsOf(sysfs)).Run();
  ASSERT_EQ(kfd.problem, "");
  ASSERT_EQ(kfd.parts.gpus().gpus_size(), 8);
  EXPECT_TRUE(kfd.parts.gpus().gpus(0).mig());
  EXPECT_EQ(kfd.parts.gpus().gpus(0).links_size(), 7);
  EXPECT_EQ(kfd.parts.gpus().gpus(0).memory_bytes(), 0U);
}

TEST(KfdProbe, GpusThatTheKernelHidesAreARefusal) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeMi300x(sysfs, /*partitioned=*/false);
  sysfs.Write("class/kfd/kfd/topology/nodes/5/properties", "");
  EXPECT_THAT(KfdProbe(RootsOf(sysfs)).Run().problem, HasSubstr("hides 1 of the GPUs"));
}

constexpr char kOverlay[] = R"(<!-- two GPUs and a card below one switch -->
<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:00:05.0" class="0x030200"/>
      <pci busid="0001:00:11.0" class="0x020700"><nic/></pci>
    </pci>
  </cpu>
  <cpu numaid="1"><pci busid="0001:00:08.0" class="0x030200"/></cpu>
</system>)";

TEST(PciOverlay, MovesDevicesOfAGuestToWhereTheyAre) {
  const FakeSysfs sysfs = EmptyMachine();
  testing::MakeFlatGuest(sysfs);
  ProbeResult overlay;
  const absl::StatusOr<PciOverlay> read = ParsePciOverlay(kOverlay);
  ASSERT_TRUE(read.ok()) << read.status();
  overlay.overlay = *read;
  const ProbeResult gpus = GpusAt({"0000:00:05.0", "0000:00:06.0", "0001:00:08.0"});
  const v1::NodeMeasurement measured = Measure(sysfs, &gpus, &overlay);
  EXPECT_EQ(measured.nics().source(), v1::MeasuredNics::OVERLAY);
  EXPECT_THAT(NicNamed(measured, "mlx5_1").gpu_distances(),
              ElementsAre(v1::PCI_PIX, v1::PCI_UNKNOWN, v1::PCI_SYS));
  EXPECT_EQ(measured.gpus().gpus(0).numa_node(), 0);
  EXPECT_EQ(measured.gpus().gpus(1).numa_node(), -1);
  EXPECT_EQ(measured.gpus().gpus(2).numa_node(), 1);
}

TEST(PciOverlay, NamesWhatIsWrong) {
  EXPECT_THAT(std::string(ParsePciOverlay("<graphs/>").status().message()),
              HasSubstr("begins with <system>"));
  EXPECT_THAT(
      std::string(ParsePciOverlay("<system><cpu numaid=\"0\">\n<pci busid=\"x\"/></cpu></system>")
                      .status()
                      .message()),
      HasSubstr("line 2"));
  EXPECT_FALSE(ParsePciOverlay("<system/>").ok());
  EXPECT_FALSE(ParsePciOverlay("").ok());
}

}  // namespace
}  // namespace asterism::agent
