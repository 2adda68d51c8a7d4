// Texts of tools and clouds, what is told of a measurement and when, and who runs the probes.
#include <fstream>
#include <map>
#include <utility>

#include "agent/probe/ascend_probe.h"
#include "agent/probe/child_output.h"
#include "agent/probe/cloud_probe.h"
#include "agent/probe/lldp_probe.h"
#include "agent/probe/measurement_feed.h"
#include "agent/probe/measurement_merge.h"
#include "agent/probe/node_measurer.h"
#include "agent/probe/probe_set.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/agent/fake_sysfs.h"

namespace asterism::agent {
namespace {

using asterism::testing::FakeSysfs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kJson0[] = R"({"lldp": [{"interface": [
  {"name": "ens5f1np1", "via": "LLDP", "rid": "2", "age": "0 day, 01:02:03",
   "chassis": [{"id": [{"type": "mac", "value": "d4:9d:c0:11:22:34"}],
                "name": [{"value": "leaf-2"}], "descr": [{"value": "a switch"}]}],
   "port": [{"id": [{"type": "ifname", "value": "swp8"}], "ttl": [{"value": "120"}]}]},
  {"name": "ens5f0np0", "via": "LLDP",
   "chassis": [{"id": [{"type": "mac", "value": "d4:9d:c0:11:22:33"}], "name": [{"value": "leaf-1"}]}],
   "port": [{"id": [{"type": "ifname", "value": "swp7"}]}]},
  {"name": "ens9", "via": "LLDP"}]}]})";

constexpr char kJson[] = R"({"lldp": {"interface": {"ens5f0np0": {"via": "LLDP",
  "chassis": {"leaf-1": {"id": {"type": "mac", "value": "d4:9d:c0:11:22:33"}}},
  "port": {"id": {"type": "ifname", "value": "swp7"}}}}}})";

TEST(Lldp, ReadsBothFormsOfJson) {
  const absl::StatusOr<v1::MeasuredNeighbors> read = ParseLldp(kJson0);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->neighbors_size(), 2);  // ens9 heard nobody
  EXPECT_EQ(read->neighbors(0).net_device(), "ens5f0np0");
  EXPECT_EQ(read->neighbors(0).chassis_id(), "d4:9d:c0:11:22:33");
  EXPECT_EQ(read->neighbors(0).port_id(), "swp7");
  EXPECT_EQ(read->neighbors(0).system_name(), "leaf-1");
  const absl::StatusOr<v1::MeasuredNeighbors> other = ParseLldp(kJson);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->neighbors(0).SerializeAsString(), read->neighbors(0).SerializeAsString());
}

TEST(Lldp, SurvivesEveryPrefixAndRefusesOtherTexts) {
  const std::string text = kJson0;
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ParseLldp(text.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseLldp("[]").ok());
  EXPECT_FALSE(ParseLldp("{\"lldp\": " + std::string(100'000, '[')).ok());
  EXPECT_EQ(ParseLldp("{\"lldp\": {}}")->neighbors_size(), 0);
}

TEST(LldpProbe, ReadsAFileOrAProgram) {
  const std::string path = ::testing::TempDir() + "lldp.json";
  std::ofstream(path) << kJson0;
  EXPECT_EQ(LldpProbe({.file = path}).Run().parts.neighbors().neighbors_size(), 2);
  EXPECT_EQ(LldpProbe({.command = {"cat", path}}).Run().parts.neighbors().neighbors_size(), 2);
  EXPECT_THAT(LldpProbe({.file = path + ".none"}).Run().problem, HasSubstr(".none"));
  EXPECT_THAT(LldpProbe({.command = {"false"}}).Run().problem, HasSubstr("failed with code 1"));
  EXPECT_THAT(LldpProbe({.command = {"echo"}}).Run().problem, HasSubstr("lldpctl -f json0"));
}

constexpr char kNpus[] =
    "\t   NPU0  NPU1  NPU2  NPU3  CPU Affinity\n"
    "NPU0  X     SIO   HCCS  PHB   0-23\n"
    "NPU1  SIO   X     HCCS  SYS   0-23\n"
    "NPU2  HCCS  HCCS  X     NA    24-47\n"
    "NPU3  PHB   SYS   NA    X     24-47\n"
    "\nLegend:\n\n  X    = Self\n  HCCS = Connection traversing HCCS\n";

TEST(Ascend, TellsLinksAndDistancesOfTheMatrix) {
  const absl::StatusOr<v1::MeasuredGpus> npus = ParseNpuTopology(kNpus);
  ASSERT_TRUE(npus.ok()) << npus.status();
  ASSERT_EQ(npus->gpus_size(), 4);
  EXPECT_EQ(npus->gpus(2).uuid(), "NPU-2");
  EXPECT_EQ(npus->gpus(2).links_size(), 2);
  EXPECT_EQ(npus->gpus(3).links_size(), 0);
  std::map<std::pair<uint32_t, uint32_t>, v1::PciDistance> distances;
  for (const v1::GpuPair& pair : npus->pairs()) {
    distances[{pair.first(), pair.second()}] = pair.distance();
  }
  EXPECT_EQ((distances[{0, 1}]), v1::PCI_SAME_BOARD);
  EXPECT_EQ((distances[{0, 3}]), v1::PCI_PHB);
  EXPECT_EQ((distances[{1, 3}]), v1::PCI_SYS);
  EXPECT_EQ(distances.count({2, 3}), 0U);  // unknown is not far
}

TEST(Ascend, RefusesWhatIsNoMatrixOfNpus) {
  const std::string text = kNpus;
  const size_t complete = text.find("X     24-47\n\nLegend") + 1;
  for (size_t size = 0; size < complete - 1; ++size) {
    EXPECT_FALSE(ParseNpuTopology(text.substr(0, size)).ok()) << size;
  }
  EXPECT_THAT(ParseNpuTopology("      GPU0  GPU1\nGPU0  X  NV4\nGPU1  NV4  X\n").status().message(),
              HasSubstr("GPU0 is no NPU"));
  EXPECT_FALSE(ParseNpuTopology(std::string(kNpuTopologyBytesMax + 1, ' ')).ok());
}

TEST(AscendProbe, APartOfTheDevicesIsNotAll) {
  FakeSysfs sysfs("npus");
  for (int device = 0; device < 5; ++device) {
    sysfs.Pci(fmt::format("pci0000:00/0000:{:02x}:00.0", device),
              {.kind = 0x120000, .vendor = 0x19e5});
    if (device == 3) {
      EXPECT_EQ(AscendProbe({.sysfs = sysfs.root()}, {.command = {"echo", kNpus}}).Run().problem,
                "");
    }
  }
  EXPECT_THAT(AscendProbe({.sysfs = sysfs.root()}, {.command = {"echo", kNpus}}).Run().problem,
              HasSubstr("echo shows 4 of the 5 NPUs"));
  EXPECT_THAT(AscendProbe({.sysfs = sysfs.root()}, {.command = {"true"}}).Run().problem,
              HasSubstr("npu-smi info -t topo"));
}

TEST(ChildOutput, EndsWhatIsTooSlowOrTooLoud) {
  EXPECT_EQ(*ChildOutput({"echo", "well"}, absl::Seconds(10), 100), "well\n");
  EXPECT_EQ(ChildOutput({"sleep", "60"}, absl::Milliseconds(50), 100).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ChildOutput({"yes"}, absl::Seconds(10), 1000).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ChildOutput({"no-such-program-anywhere"}, absl::Seconds(10), 100).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Cloud, TellsPlacesAndNothingElse) {
  EXPECT_THAT(*ParseGcpHostTopology(R"({"cluster": "c", "block": "b", "subblock": "", "host": 7})"),
              ElementsAre(Pair("cluster", "c"), Pair("block", "b")));
  EXPECT_THAT(*ParseGcpPhysicalHost("/c1/b2/h3\n"),
              ElementsAre(Pair("cluster", "c1"), Pair("block", "b2"), Pair("host", "h3")));
  for (const char* text : {"", "c/b/h", "/c/b", "/c/b/h/x", "/c//h", "/c/b h/x"}) {
    EXPECT_FALSE(ParseGcpPhysicalHost(text).ok()) << text;
  }
  EXPECT_THAT(*ParseOciTopology(R"({"customerHPCIslandId": 123, "customerNetworkBlock": "n",
                                    "customerLocalBlock": "l", "customerGpuMemoryFabric": null})"),
              ElementsAre(Pair("network-block", "n"), Pair("local-block", "l")));
  EXPECT_FALSE(ParseOciTopology("<html>").ok());
  EXPECT_TRUE(CloudNamed("oci").ok());
  EXPECT_THAT(std::string(CloudNamed("azure").status().message()), HasSubstr("aws, gcp or oci"));
}

v1::NodeMeasurement Measured(const std::string& uuid, uint64_t took = 1) {
  v1::NodeMeasurement measured;
  measured.mutable_gpus()->add_gpus()->set_uuid(uuid);
  measured.mutable_nics();
  v1::ProbeOutcome& outcome = *measured.add_probes();
  outcome.set_name("nvml");
  outcome.set_duration_nanoseconds(took);
  return measured;
}

TEST(MeasurementFeed, TellsAllThenOnlyWhatHasChanged) {
  MeasurementFeed feed(1000);
  EXPECT_FALSE(feed.Take().has_value());
  feed.WantFull();
  EXPECT_FALSE(feed.Take().has_value());  // nothing was measured yet
  feed.Set(Measured("GPU-a"));
  std::optional<v1::NodeMeasurement> next = feed.Take();
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(next->full());
  EXPECT_EQ(next->generation(), 1001U);
  EXPECT_TRUE(next->has_nics());
  // The same again, after another time.
  feed.Set(Measured("GPU-a", 77));
  EXPECT_FALSE(feed.Take().has_value());
  feed.Set(Measured("GPU-b"));
  next = feed.Take();
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(next->full());
  EXPECT_EQ(next->generation(), 1002U);
  EXPECT_TRUE(next->has_gpus());
  EXPECT_FALSE(next->has_nics());
  EXPECT_EQ(next->probes_size(), 1);
  // Asked for again, without a change: the same generation.
  feed.WantFull();
  next = feed.Take();
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(next->full());
  EXPECT_EQ(next->generation(), 1002U);
  EXPECT_TRUE(next->has_nics());
}

TEST(MeasurementFeed, AProbeThatFailsTakesNothingAway) {
  MeasurementFeed feed(0);
  feed.WantFull();
  feed.Set(Measured("GPU-a"));
  feed.Take();
  v1::NodeMeasurement failed;
  failed.add_probes()->set_problem("no answer");
  feed.Set(failed);
  std::optional<v1::NodeMeasurement> next = feed.Take();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->probes(0).problem(), "no answer");
  EXPECT_FALSE(next->has_gpus());
  feed.WantFull();
  EXPECT_EQ(feed.Take()->gpus().gpus(0).uuid(), "GPU-a");
}

TEST(Merge, MakesTextsThatTheWireTakes) {
  v1::NodeMeasurement measured = Measured("GPU-\xff\x01\xc3");
  measured.mutable_probes(0)->add_gaps(std::string(2000, 'x'));
  MakePrintable(measured);
  EXPECT_EQ(measured.gpus().gpus(0).uuid(), "GPU-???");
  EXPECT_EQ(measured.probes(0).gaps(0).size(), 1024U);
  EXPECT_TRUE(v1::NodeMeasurement().ParseFromString(measured.SerializeAsString()));
}

TEST(Merge, GpusOfOneDriverAreNotAllWhileAnotherIsSilent) {
  ProbeResult kfd;
  kfd.parts.mutable_gpus();  // it knows none
  EXPECT_FALSE(MergeMeasurement({{"nvml", nullptr}, {"kfd", &kfd}}).has_gpus());
  const ProbeResult failed = ProbeResult::Failed("hidden");
  EXPECT_FALSE(MergeMeasurement({{"nvml", &failed}, {"kfd", &kfd}}).has_gpus());
  EXPECT_TRUE(MergeMeasurement({{"kfd", &kfd}, {"rdma", nullptr}}).has_gpus());
}

TEST(Merge, ACloudsStepsAreOutsideOfTheRack) {
  ProbeResult rack;
  rack.parts.mutable_place()->add_steps()->set_name("chassis");
  ProbeResult cloud;
  cloud.parts.mutable_place()->add_steps()->set_name("block");
  ProbeResult pci;
  pci.parts.mutable_place()->set_machine("guest: KVM");
  const v1::MeasuredPlace place =
      MergeMeasurement({{"nvml", &rack}, {"pci", &pci}, {"cloud-gcp", &cloud}}).place();
  ASSERT_EQ(place.steps_size(), 2);
  EXPECT_EQ(place.steps(0).name(), "block");
  EXPECT_EQ(place.steps(1).name(), "chassis");
  EXPECT_EQ(place.machine(), "guest: KVM");
}

TEST(ProbeSet, HasWhatIsAskedFor) {
  std::vector<std::string> names;
  for (const std::unique_ptr<Probe>& probe : MakeProbes({.overlay_file = "x",
                                             .lldp = {.file = "y"},
                                             .npu_topology = {.file = "z"},
                                             .clouds = {Cloud::kAws}})) {
    names.push_back(probe->name());
  }
  EXPECT_THAT(names,
              ElementsAre("nvml", "kfd", "pci", "rdma", "overlay", "lldp", "ascend", "cloud-aws"));
  EXPECT_EQ(MakeProbes({}).size(), 4U);
}

// Answers at once, after as many failures as asked for.
class ScriptedProbe final : public Probe {
 public:
  ScriptedProbe(std::string name, int failures)
      : Probe(std::move(name), absl::Milliseconds(5)), failures_(failures) {}
  ProbeResult Run() override {
    if (failures_-- > 0) {
      return ProbeResult::Failed("not yet");
    }
    ProbeResult result;
    result.parts.mutable_gpus()->add_gpus()->set_uuid("GPU-" + name());
    result.gaps.assign(100, "a gap");
    return result;
  }

 private:
  int failures_;
};

TEST(NodeMeasurer, TellsWhenAllHaveAnsweredAndJoinsThem) {
  base::ThreadExecutor executor("core");
  absl::Mutex mutex;
  absl::CondVar changed;
  std::vector<v1::NodeMeasurement> told;
  std::vector<std::unique_ptr<Probe>> probes;
  probes.push_back(std::make_unique<ScriptedProbe>("a", 0));
  probes.push_back(std::make_unique<ScriptedProbe>("b", 3));
  NodeMeasurer measurer(executor, std::move(probes), {}, [&](v1::NodeMeasurement measured) {
    const absl::MutexLock lock(&mutex);
    told.push_back(std::move(measured));
    changed.SignalAll();
  });
  executor.Post([&] { measurer.Start(); });
  {
    const absl::MutexLock lock(&mutex);
    while (told.empty() || told.back().gpus().gpus_size() < 2) {
      ASSERT_FALSE(changed.WaitWithTimeout(&mutex, absl::Seconds(60)));
    }
    EXPECT_EQ(told.front().gpus().gpus_size(), 1);
    EXPECT_EQ(told.front().probes_size(), 2);
    EXPECT_EQ(told.front().probes(1).problem(), "not yet");
    EXPECT_EQ(told.back().probes(1).problem(), "");
    EXPECT_EQ(told.back().probes(1).gaps_size(), static_cast<int>(kProbeGapsMax));
  }
  executor.Stop();
}

}  // namespace
}  // namespace asterism::agent
