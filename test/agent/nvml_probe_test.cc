// What the agent learns from the driver, from a library that looks like the driver's.
#include "agent/probe/nvml_probe.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/probe/measurement_merge.h"
#include "agent/probe/node_measurer.h"
#include "agent/probe/pci_probe.h"
#include "base/small_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/agent/fake_sysfs.h"
#include "test/source_tree.h"

namespace asterism::agent {
namespace {

using ::asterism::testing::FakeSysfs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

const std::string kGolden = asterism::test_paths::SourceTree() + "/test/golden/gpus/";

// A machine with a driver that a test can change.
class NvmlProbeTest : public ::testing::Test {
 protected:
  void UseMachine(void (*make)(const FakeSysfs&), const std::string& gpus) {
    sysfs_.emplace(::testing::UnitTest::GetInstance()->current_test_info()->name());
    folder_ = sysfs_->root() + "/beside";
    std::filesystem::create_directories(folder_);
    make(*sysfs_);
    const absl::StatusOr<std::string> text = base::ReadSmallFile(kGolden + gpus + ".json");
    ASSERT_TRUE(text.ok()) << text.status();
    fixture_ = Json::parse(*text);
    Save();
    setenv("ASTERISM_FAKE_NVML", (folder_ + "/gpus.json").c_str(), 1);
  }
  // A file of its own takes the place, so that no reader sees half of it.
  void Save() {
    std::ofstream(folder_ + "/gpus.json.new") << fixture_.dump();
    std::filesystem::rename(folder_ + "/gpus.json.new", folder_ + "/gpus.json");
  }
  ProbeRoots Roots() const { return {.sysfs = sysfs_->root(), .proc = folder_ + "/proc"}; }
  static std::string Library(const std::string& variant) {
    return asterism::test_paths::BuildTree() + "/test/agent/fake_nvml/" + variant +
           "/libnvidia-ml.so.1";
  }
  NvmlProbe Driver(const std::string& variant = "all") const {
    return {Roots(), {Library(variant)}};
  }
  v1::NodeMeasurement Merged(const ProbeResult& nvml) const {
    const ProbeResult pci = PciProbe(Roots()).Run();
    return MergeMeasurement({{"nvml", &nvml}, {"pci", &pci}});
  }

  std::optional<FakeSysfs> sysfs_;
  std::string folder_;
  Json fixture_;
};

TEST_F(NvmlProbeTest, TellsAnHgxH100) {
  UseMachine(testing::MakeHgxH100, "hgx-h100");
  NvmlProbe probe = Driver();
  const ProbeResult result = probe.Run();
  ASSERT_EQ(result.problem, "");
  EXPECT_THAT(result.gaps, IsEmpty());
  const v1::NodeMeasurement measured = Merged(result);
  ASSERT_EQ(measured.gpus().gpus_size(), 8);
  const v1::MeasuredGpu& gpu = measured.gpus().gpus(5);
  EXPECT_EQ(gpu.uuid(), "GPU-b1000001-0005-4000-8000-000000000006");
  EXPECT_EQ(gpu.pci_address(), "0000:93:00.0");
  EXPECT_EQ(gpu.product(), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.architecture(), "sm_90");
  EXPECT_EQ(gpu.memory_bytes(), 85520809984U);
  EXPECT_EQ(gpu.minor(), 2);
  EXPECT_EQ(gpu.numa_node(), 1);
  EXPECT_FALSE(gpu.mig());
  EXPECT_FALSE(gpu.lost());
  ASSERT_EQ(gpu.links_size(), 18);
  EXPECT_TRUE(gpu.links(17).up());
  EXPECT_EQ(gpu.links(17).remote(), v1::MeasuredLink::REMOTE_SWITCH);
  EXPECT_EQ(gpu.links(17).remote_pci_address(), "0000:06:00.0");
  EXPECT_EQ(gpu.links(17).bytes_per_second(), 26'562'000'000U);
  ASSERT_EQ(measured.gpus().pairs_size(), 28);
  EXPECT_EQ(measured.gpus().pairs(0).distance(), v1::PCI_NODE);
  EXPECT_EQ(measured.gpus().pairs(6).distance(), v1::PCI_SYS);
  EXPECT_FALSE(measured.gpus().pairs(6).peer_refused());
  // A UUID of zeros is no domain, even when registration has completed.
  EXPECT_EQ(measured.nvlink_domain().state(), v1::MeasuredNvlinkDomain::NONE);
}

TEST_F(NvmlProbeTest, TellsTheDomainAndThePlaceOfAGb200Tray) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  const ProbeResult result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  const v1::MeasuredNvlinkDomain& domain = result.parts.nvlink_domain();
  EXPECT_EQ(domain.state(), v1::MeasuredNvlinkDomain::MEMBER);
  EXPECT_EQ(domain.cluster_uuid(), "9d1c8a3e-0b7f-4c55-8e21-5a6677889900");
  EXPECT_EQ(domain.clique_id(), 32766U);
  EXPECT_EQ(domain.health(), v1::MeasuredNvlinkDomain::HEALTHY);
  EXPECT_THAT(domain.faults(), IsEmpty());
  ASSERT_EQ(result.parts.place().steps_size(), 4);
  EXPECT_EQ(result.parts.place().steps(0).name(), "chassis");
  EXPECT_EQ(result.parts.place().steps(0).value(), "1820325191277");
  EXPECT_EQ(result.parts.place().steps(1).value(), "21");
  EXPECT_EQ(result.parts.place().steps(2).value(), "11");
  // Only nodes with CPUs; the GPUs' memory is none.
  const v1::NodeMeasurement measured = Merged(result);
  EXPECT_EQ(measured.numa().nodes_size(), 2);
  EXPECT_EQ(measured.gpus().gpus(3).architecture(), "sm_100");
}

TEST_F(NvmlProbeTest, TellsADgxA100) {
  UseMachine(testing::MakeDgxA100, "dgx-a100");
  const ProbeResult result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  const v1::NodeMeasurement measured = Merged(result);
  std::vector<int> numa;
  for (const v1::MeasuredGpu& gpu : measured.gpus().gpus()) {
    numa.push_back(gpu.numa_node());
  }
  EXPECT_THAT(numa, ElementsAre(3, 3, 1, 1, 7, 7, 5, 5));
  EXPECT_EQ(measured.gpus().pairs(0).distance(), v1::PCI_PIX);
  EXPECT_EQ(measured.nvlink_domain().state(), v1::MeasuredNvlinkDomain::NONE);
}

TEST_F(NvmlProbeTest, TellsWhichLinksAreDownAndWhoRefusesPeers) {
  UseMachine(testing::MakeHgxH100, "hgx-h100-half-nvlink");
  const ProbeResult result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  int down = 0;
  for (const v1::MeasuredLink& link : result.parts.gpus().gpus(5).links()) {
    down += link.up() ? 0 : 1;
    EXPECT_TRUE(link.up() || link.bytes_per_second() == 0);
  }
  EXPECT_EQ(down, 9);
  int refused = 0;
  for (const v1::GpuPair& pair : result.parts.gpus().pairs()) {
    refused += pair.peer_refused() ? 1 : 0;
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(NvmlProbeTest, TellsWhichGpusAreSplit) {
  UseMachine(testing::MakeHgxH100, "hgx-h100-mig");
  const ProbeResult result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  EXPECT_TRUE(result.parts.gpus().gpus(0).mig());
  EXPECT_TRUE(result.parts.gpus().gpus(1).mig());
  EXPECT_FALSE(result.parts.gpus().gpus(2).mig());
}

TEST_F(NvmlProbeTest, WithoutTheLibraryItSaysWhatIsMissing) {
  UseMachine(testing::MakeHgxH100, "hgx-h100");
  NvmlProbe probe(Roots(), {folder_ + "/nowhere/libnvidia-ml.so.1", folder_ + "/lib*/none.so.1"});
  const ProbeResult result = probe.Run();
  EXPECT_THAT(result.problem, HasSubstr("8 NVIDIA GPUs are there"));
  EXPECT_THAT(result.problem, HasSubstr("libnvidia-ml.so.1"));
  EXPECT_FALSE(result.parts.has_gpus());
}

TEST_F(NvmlProbeTest, WithoutAGpuNothingIsMissing) {
  UseMachine(testing::MakeDualPorts, "hgx-h100");
  NvmlProbe probe(Roots(), {folder_ + "/nowhere/libnvidia-ml.so.1"});
  const ProbeResult result = probe.Run();
  EXPECT_EQ(result.problem, "");
  EXPECT_TRUE(result.parts.has_gpus());
  EXPECT_EQ(result.parts.gpus().gpus_size(), 0);
  EXPECT_EQ(result.parts.nvlink_domain().state(), v1::MeasuredNvlinkDomain::NONE);
}

TEST_F(NvmlProbeTest, AnOldDriverTellsLessAndSaysSo) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  const ProbeResult result = Driver("old").Run();
  ASSERT_EQ(result.problem, "");
  ASSERT_EQ(result.parts.gpus().gpus_size(), 4);
  // Links one by one, without their rates.
  ASSERT_EQ(result.parts.gpus().gpus(0).links_size(), 18);
  EXPECT_TRUE(result.parts.gpus().gpus(0).links(0).up());
  EXPECT_EQ(result.parts.gpus().gpus(0).links(0).bytes_per_second(), 0U);
  EXPECT_EQ(result.parts.gpus().gpus(0).memory_bytes(), 197568495616U);
  // Never "no domain".
  EXPECT_EQ(result.parts.nvlink_domain().state(), v1::MeasuredNvlinkDomain::UNKNOWN);
  EXPECT_THAT(result.gaps, Contains("the NVLink domain"));
  EXPECT_THAT(result.gaps, Contains(HasSubstr("nvmlDeviceGetGpuFabricInfoV")));
  EXPECT_FALSE(result.parts.has_place());
}

TEST_F(NvmlProbeTest, ALibraryThatCannotTellGpusApartIsRefused) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  const ProbeResult result = Driver("bare").Run();
  EXPECT_THAT(result.problem, HasSubstr("nvmlDeviceGetUUID"));
  EXPECT_FALSE(result.parts.has_gpus());
}

TEST_F(NvmlProbeTest, TriesOlderStructures) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  fixture_["faults"] = {{"fabric_version", 2}, {"memory_version", 1}, {"platform_version", 1}};
  // Bandwidth is degraded, and there is no summary to say so.
  fixture_["fabric"]["health_mask"] = 0x11a9;
  Save();
  ProbeResult result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  EXPECT_EQ(result.parts.nvlink_domain().state(), v1::MeasuredNvlinkDomain::MEMBER);
  EXPECT_EQ(result.parts.nvlink_domain().health(), v1::MeasuredNvlinkDomain::LIMITED);
  EXPECT_THAT(result.parts.nvlink_domain().faults(), ElementsAre("degraded bandwidth"));
  EXPECT_EQ(result.parts.gpus().gpus(0).memory_bytes(), 197568495616U);
  EXPECT_THAT(result.gaps, Contains("the place in the rack"));
  EXPECT_FALSE(result.parts.has_place());

  fixture_["faults"]["fabric_version"] = 1;
  Save();
  result = Driver().Run();
  EXPECT_EQ(result.parts.nvlink_domain().clique_id(), 32766U);
  EXPECT_EQ(result.parts.nvlink_domain().health(), v1::MeasuredNvlinkDomain::HEALTH_UNKNOWN);
  EXPECT_THAT(result.gaps, Contains("the health of the NVLink domain"));
}

TEST_F(NvmlProbeTest, RefusesToTellOneOfFourGpusAsAll) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  fixture_["faults"]["visible"] = Json::array({0});
  Save();
  NvmlProbe probe = Driver();
  ProbeResult result = probe.Run();
  EXPECT_THAT(result.problem, HasSubstr("1 of the 4 GPUs"));
  EXPECT_FALSE(result.parts.has_gpus());
  // The node's devices are given to the agent.
  fixture_.erase("faults");
  Save();
  result = probe.Run();
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.parts.gpus().gpus_size(), 4);
}

TEST_F(NvmlProbeTest, AGpuThatIsLostKeepsItsName) {
  UseMachine(testing::MakeHgxH100, "hgx-h100");
  NvmlProbe probe = Driver();
  ASSERT_EQ(probe.Run().problem, "");
  fixture_["faults"]["lost"] = Json::array({3});
  Save();
  const ProbeResult result = probe.Run();
  ASSERT_EQ(result.problem, "");
  ASSERT_EQ(result.parts.gpus().gpus_size(), 8);
  const v1::MeasuredGpu& gpu = result.parts.gpus().gpus(7);
  EXPECT_EQ(gpu.uuid(), "GPU-b1000001-0003-4000-8000-000000000004");
  EXPECT_TRUE(gpu.lost());
  EXPECT_EQ(result.parts.gpus().pairs_size(), 21);
}

TEST_F(NvmlProbeTest, AGpuThatWasLostBeforeIsNamedByTheDriverOrRefused) {
  UseMachine(testing::MakeHgxH100, "hgx-h100");
  fixture_["faults"]["lost"] = Json::array({3});
  Save();
  ProbeResult result = Driver().Run();
  EXPECT_THAT(result.problem, HasSubstr("has lost GPU 3 and cannot tell which one it is"));
  EXPECT_FALSE(result.parts.has_gpus());

  const std::string folder = folder_ + "/proc/driver/nvidia/gpus/0000:63:00.0";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/information")
      << "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-" << std::string(36, '?') << "\n";
  EXPECT_THAT(Driver().Run().problem, HasSubstr("has lost GPU 3"));
  std::ofstream(folder + "/information") << "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t "
                                            "GPU-b1000001-0003-4000-8000-000000000004\n";
  result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  EXPECT_EQ(result.parts.gpus().gpus(7).uuid(), "GPU-b1000001-0003-4000-8000-000000000004");
  EXPECT_EQ(result.parts.gpus().gpus(7).pci_address(), "0000:63:00.0");
  EXPECT_TRUE(result.parts.gpus().gpus(7).lost());
}

TEST_F(NvmlProbeTest, ADomainInProgressIsUnknownAndAskedAgainSoon) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  fixture_["faults"]["in_progress_calls"] = 5;  // four GPUs, and one of the next run
  Save();
  NvmlProbe probe = Driver();
  for (int run = 0; run < 2; ++run) {
    const ProbeResult result = probe.Run();
    ASSERT_EQ(result.problem, "");
    EXPECT_EQ(result.parts.nvlink_domain().state(), v1::MeasuredNvlinkDomain::UNKNOWN);
    EXPECT_THAT(result.parts.nvlink_domain().faults(), Contains(HasSubstr("in progress")));
    EXPECT_EQ(result.again, absl::Seconds(2));
  }
  const ProbeResult result = probe.Run();
  EXPECT_EQ(result.parts.nvlink_domain().state(), v1::MeasuredNvlinkDomain::MEMBER);
  EXPECT_EQ(result.again, absl::ZeroDuration());
}

TEST_F(NvmlProbeTest, AFailedRegistrationIsUnknown) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  fixture_["fabric"]["status"] = 999;
  Save();
  EXPECT_EQ(Driver().Run().parts.nvlink_domain().state(), v1::MeasuredNvlinkDomain::UNKNOWN);
}

TEST_F(NvmlProbeTest, GpusThatDisagreeHaveNoDomainToTell) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  fixture_["gpus"][2]["fabric"] = fixture_["fabric"];
  fixture_["gpus"][2]["fabric"]["clique_id"] = 1;
  Save();
  const v1::MeasuredNvlinkDomain domain = Driver().Run().parts.nvlink_domain();
  EXPECT_EQ(domain.state(), v1::MeasuredNvlinkDomain::UNKNOWN);
  EXPECT_THAT(domain.faults(), Contains(HasSubstr("disagree")));
}

TEST_F(NvmlProbeTest, TheWorstGpuIsTheHealthOfTheNode) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  fixture_["gpus"][1]["fabric"] = fixture_["fabric"];
  fixture_["gpus"][1]["fabric"]["health_summary"] = 2;
  fixture_["gpus"][1]["fabric"]["health_mask"] = 0x15aa;
  Save();
  const v1::MeasuredNvlinkDomain domain = Driver().Run().parts.nvlink_domain();
  EXPECT_EQ(domain.health(), v1::MeasuredNvlinkDomain::UNHEALTHY);
  EXPECT_THAT(domain.faults(), ElementsAre("insufficient NVLinks"));
}

TEST_F(NvmlProbeTest, WhatIsNotSupportedIsNotTold) {
  UseMachine(testing::MakeHgxH100, "hgx-h100");
  fixture_["faults"]["not_supported"] =
      Json::array({"nvmlDeviceGetMinorNumber", "nvmlDeviceGetMemoryInfo",
                   "nvmlDeviceGetFieldValues", "nvmlDeviceGetMigMode",
                   "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetGpuFabricInfoV"});
  Save();
  const ProbeResult result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  const v1::MeasuredGpu& gpu = result.parts.gpus().gpus(0);
  EXPECT_EQ(gpu.minor(), -1);
  EXPECT_EQ(gpu.memory_bytes(), 0U);
  EXPECT_THAT(result.gaps, Contains("the size of the GPUs' memory"));
  EXPECT_EQ(gpu.links_size(), 18);
  EXPECT_EQ(result.parts.nvlink_domain().state(), v1::MeasuredNvlinkDomain::NONE);
  // The bus tells distances where the driver does not.
  EXPECT_EQ(result.parts.gpus().pairs(0).distance(), v1::PCI_UNKNOWN);
  EXPECT_EQ(Merged(result).gpus().pairs(0).distance(), v1::PCI_NODE);
}

TEST_F(NvmlProbeTest, ADriverThatDoesNotStartIsAProblem) {
  UseMachine(testing::MakeHgxH100, "hgx-h100");
  fixture_["faults"]["start"] = 9;
  Save();
  NvmlProbe probe = Driver();
  EXPECT_THAT(probe.Run().problem, HasSubstr("Driver Not Loaded"));
  fixture_.erase("faults");
  Save();
  EXPECT_EQ(probe.Run().problem, "");
}

TEST_F(NvmlProbeTest, AGpuThatIsHandedThroughIsNotTheNodes) {
  UseMachine(testing::MakeHgxH100, "hgx-h100");
  NvmlProbe probe = Driver();
  ASSERT_EQ(probe.Run().parts.gpus().gpus_size(), 8);
  // Unbound at run time, and NVML started anew sees seven.
  std::filesystem::path driver =
      std::filesystem::canonical(sysfs_->root() + "/bus/pci/devices/0000:1b:00.0");
  std::filesystem::remove(driver / "driver");
  fixture_["faults"]["visible"] = Json::array({1, 2, 3, 4, 5, 6, 7});
  Save();
  const ProbeResult result = probe.Run();
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.parts.gpus().gpus_size(), 7);
  EXPECT_THAT(result.gaps, Contains("the GPU 0000:1b:00.0 has no driver"));
}

TEST_F(NvmlProbeTest, WithoutNumaNodesADistanceIsUnknown) {
  UseMachine(testing::MakeFlatGuest, "flat-guest");
  const ProbeResult result = Driver().Run();
  ASSERT_EQ(result.problem, "");
  // The driver prints NODE for all.
  EXPECT_EQ(result.parts.gpus().pairs(0).distance(), v1::PCI_NODE);
  const v1::NodeMeasurement measured = Merged(result);
  for (const v1::GpuPair& pair : measured.gpus().pairs()) {
    EXPECT_EQ(pair.distance(), v1::PCI_UNKNOWN);
    EXPECT_TRUE(pair.peer_refused());
  }
  EXPECT_EQ(measured.gpus().gpus(0).numa_node(), -1);
  EXPECT_THAT(measured.place().machine(), HasSubstr("guest: QEMU"));
}

// The whole of it: a call that hangs costs a warning and a thread, and the facts stay.
TEST_F(NvmlProbeTest, ACallThatHangsMakesFactsStaleAndNothingElse) {
  UseMachine(testing::MakeGb200Tray, "gb200-tray");
  std::vector<std::unique_ptr<Probe>> probes;
  probes.push_back(
      std::make_unique<NvmlProbe>(Roots(), std::vector{Library("all")}, absl::Milliseconds(20)));
  probes.push_back(std::make_unique<PciProbe>(Roots(), absl::Milliseconds(20)));
  base::ThreadExecutor executor("core");
  absl::Mutex mutex;
  absl::CondVar changed;
  v1::NodeMeasurement last;
  int told = 0;
  auto measurer = std::make_unique<NodeMeasurer>(
      executor, std::move(probes), NodeMeasurerOptions{.deadline = absl::Milliseconds(200)},
      [&](v1::NodeMeasurement measured) {
        const absl::MutexLock lock(&mutex);
        last = std::move(measured);
        ++told;
        changed.SignalAll();
      });
  executor.Post([&] { measurer->Start(); });
  const auto await = [&](auto&& seen) {
    const absl::MutexLock lock(&mutex);
    for (int i = 0; i < 1000 && !seen(); ++i) {
      changed.WaitWithTimeout(&mutex, absl::Milliseconds(20));
    }
    return seen();
  };
  ASSERT_TRUE(await([&] { return last.gpus().gpus_size() == 4 && last.probes_size() == 2; }));
  fixture_["faults"]["hang"] = Json::array({"nvmlDeviceGetName"});
  Save();
  ASSERT_TRUE(await(
      [&] { return last.probes(0).problem().find("no answer within") != std::string::npos; }));
  int before = 0;
  {
    const absl::MutexLock lock(&mutex);
    before = told;
  }
  // The other probe goes on, and the facts are still there.
  ASSERT_TRUE(await([&] {
    return told > before + 3 && last.gpus().gpus_size() == 4 && last.probes(1).problem().empty();
  }));
  fixture_.erase("faults");
  Save();
  EXPECT_TRUE(await([&] { return last.probes(0).problem().empty(); }));

  // One that never comes back does not hold the agent's end.
  fixture_["faults"]["hang"] = Json::array({"nvmlDeviceGetName"});
  Save();
  ASSERT_TRUE(await([&] { return !last.probes(0).problem().empty(); }));
  executor.Stop();
  measurer.reset();
  fixture_.erase("faults");
  Save();
}

}  // namespace
}  // namespace asterism::agent
