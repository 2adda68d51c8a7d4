// What kubelet tells about devices, and what the agent remembers of them.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/device_memory.h"
#include "agent/device_report.h"
#include "agent/pod_resources.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/agent/fake_kubelet.h"

namespace asterism::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kGpu[] = "nvidia.com/gpu";

::v1::AllocatableResourcesResponse Offered(const std::vector<std::string>& ids) {
  ::v1::AllocatableResourcesResponse offered;
  for (const std::string& id : ids) {
    ::v1::ContainerDevices& devices = *offered.add_devices();
    devices.set_resource_name(kGpu);
    devices.add_device_ids(id);
    devices.mutable_topology()->add_nodes()->set_id(1);
  }
  offered.add_devices()->set_resource_name("other.com/nic");
  offered.mutable_devices(static_cast<int>(ids.size()))->add_device_ids("nic");
  return offered;
}

::v1::ListPodResourcesResponse Held(const std::string& id) {
  ::v1::ListPodResourcesResponse pods;
  ::v1::PodResources& pod = *pods.add_pod_resources();
  pod.set_namespace_("research");
  pod.set_name("llama-0");
  ::v1::ContainerResources& container = *pod.add_containers();
  container.set_name("trainer");
  ::v1::ContainerDevices& devices = *container.add_devices();
  devices.set_resource_name(kGpu);
  devices.add_device_ids(id);
  return pods;
}

std::vector<std::string> Unhealthy(const std::vector<HeldDevice>& devices) {
  std::vector<std::string> ids;
  for (const HeldDevice& device : devices) {
    if (!device.offered) {
      ids.push_back(device.id);
    }
  }
  return ids;
}

TEST(PodResources, JoinsWhatIsOfferedAndWhatIsHeld) {
  const std::string root = ::testing::TempDir() + "resources-" + std::to_string(getpid());
  FakeKubelet kubelet(root);
  PodResources source(root + "/pod-resources/kubelet.sock", {kGpu});
  EXPECT_THAT(std::string(source.Read().status().message()), HasSubstr("kubelet running?"));
  kubelet.SetPods(Held("GPU-1"), Offered({"GPU-0", "GPU-1"}));
  kubelet.Start();
  const auto devices = source.Read();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(
      *devices,
      ElementsAre(HeldDevice{.resource = kGpu, .id = "GPU-0", .offered = true, .numa_node = 1},
                  HeldDevice{.resource = kGpu,
                             .id = "GPU-1",
                             .offered = true,
                             .numa_node = 1,
                             .holders = {{"research", "llama-0", "trainer"}}}));
  // After a restart of kubelet the next look may fail, the one after it finds the new socket.
  kubelet.Stop();
  EXPECT_FALSE(source.Read().ok());
  kubelet.Start();
  EXPECT_TRUE(source.Read().ok());
  std::filesystem::remove_all(root);
}

// kubelets before Kubernetes 1.34 list pods that have ended with what they had, beside the pod that
// has it now, in any order.
TEST(PodResources, TellsAllPodsThatAreSaidToHoldADevice) {
  const std::string root = ::testing::TempDir() + "old-kubelet-" + std::to_string(getpid());
  FakeKubelet kubelet(root);
  const auto pod = [](const std::string& name) {
    ::v1::PodResources held = Held("GPU-0").pod_resources(0);
    held.set_name(name);
    return held;
  };
  ::v1::ListPodResourcesResponse pods;
  *pods.add_pod_resources() = pod("running");
  *pods.add_pod_resources() = pod("ended");
  kubelet.SetPods(pods, Offered({"GPU-0"}));
  kubelet.Start();
  PodResources source(root + "/pod-resources/kubelet.sock", {kGpu});
  const auto devices = source.Read();
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_THAT(*devices, SizeIs(1));
  EXPECT_THAT((*devices)[0].holders, ElementsAre(DeviceHolder{"research", "running", "trainer"},
                                                 DeviceHolder{"research", "ended", "trainer"}));
  // However many there are.
  for (int i = 0; i < 500; ++i) {
    *pods.add_pod_resources() = pod("ended-" + std::to_string(i));
  }
  kubelet.SetPods(pods, Offered({"GPU-0"}));
  EXPECT_THAT(source.Read()->at(0).holders, SizeIs(64));
  kubelet.Stop();
  std::filesystem::remove_all(root);
}

TEST(DeviceReport, TellsADeviceOnceForEachPodThatIsSaidToHoldIt) {
  const v1::DeviceReport report = DeviceReportOf(
      {{.resource = kGpu, .id = "a", .offered = true, .numa_node = 1},
       {.resource = kGpu, .id = "b", .holders = {{"research", "one", "x"}, {"team", "two", "y"}}}});
  ASSERT_EQ(report.devices_size(), 3);
  EXPECT_EQ(report.devices(0).id() + report.devices(0).pod_name(), "a");
  EXPECT_FALSE(report.devices(0).unhealthy());
  EXPECT_EQ(report.devices(0).numa_node(), 1);
  EXPECT_EQ(report.devices(1).id() + report.devices(1).pod_name(), "bone");
  EXPECT_EQ(report.devices(2).id() + report.devices(2).pod_name(), "btwo");
  EXPECT_EQ(report.devices(2).pod_namespace() + report.devices(2).container(), "teamy");
  EXPECT_TRUE(report.devices(1).unhealthy() && report.devices(2).unhealthy());
}

TEST(DeviceReport, TellsNoMoreThanTheControllerTakes) {
  std::vector<HeldDevice> devices;
  for (int i = 0; i < 1000; ++i) {
    devices.push_back({.resource = kGpu, .id = std::to_string(i)});
    devices.back().holders.assign(64, {"research", "one", "x"});
  }
  const v1::DeviceReport report = DeviceReportOf(devices);
  EXPECT_EQ(static_cast<size_t>(report.devices_size()), kToldDevicesMax);
  EXPECT_EQ(report.devices(report.devices_size() - 1).id(), "999") << "each stands once";
}

class DeviceMemoryTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<HeldDevice> Devices(const std::vector<std::string>& ids,
                                         const std::string& held = "none") {
    return JoinPodResources(Held(held), Offered(ids), {kGpu});
  }
  static base::SteadyTime At(int seconds) { return base::SteadyTime{} + absl::Seconds(seconds); }

  const std::string folder_ = ::testing::TempDir() + "memory-" + std::to_string(getpid());
  const std::string path_ = folder_ + "/devices.json";
};

TEST_F(DeviceMemoryTest, MissesADeviceThatIsNoLongerOffered) {
  DeviceMemory memory(path_, "boot");
  EXPECT_THAT(Unhealthy(memory.Complete(Devices({"a", "b"}, "a"), At(0))), ElementsAre());
  EXPECT_THAT(Unhealthy(memory.Complete(Devices({"a"}, "a"), At(10))), ElementsAre("b"));
  // Held, but no longer offered.
  EXPECT_THAT(Unhealthy(memory.Complete(Devices({"b"}, "a"), At(20))), ElementsAre("a"));
  EXPECT_THAT(Unhealthy(memory.Complete(Devices({"a", "b"}, "a"), At(30))), ElementsAre());
}

TEST_F(DeviceMemoryTest, RemembersOverARestartButNotOverABoot) {
  DeviceMemory(path_, "boot").Complete(Devices({"a", "b"}, "a"), At(0));
  EXPECT_THAT(Unhealthy(DeviceMemory(path_, "boot").Complete(Devices({"a"}, "a"), At(0))),
              ElementsAre("b"));
  EXPECT_THAT(Unhealthy(DeviceMemory(path_, "next").Complete(Devices({"a"}, "a"), At(0))),
              ElementsAre());
}

TEST_F(DeviceMemoryTest, BelievesASilentPluginForAMinute) {
  DeviceMemory memory("", "boot");
  EXPECT_THAT(memory.Complete(Devices({"a", "b"}, "a"), At(0)), SizeIs(2));
  const auto silent = [&](int seconds) {
    return Unhealthy(
        memory.Complete(JoinPodResources(Held("a"), Offered({}), {kGpu}), At(seconds)));
  };
  EXPECT_THAT(silent(59), ElementsAre());
  EXPECT_THAT(silent(60), ElementsAre("a", "b"));
}

TEST_F(DeviceMemoryTest, BelievesASilentPluginForAMinuteAfterARestart) {
  DeviceMemory before(path_, "boot");
  before.Complete(Devices({"a", "b", "c"}, "a"), At(0));
  before.Complete(Devices({"a", "b"}, "a"), At(10));
  DeviceMemory memory(path_, "boot");
  const auto silent = [&](int seconds) {
    return memory.Complete(JoinPodResources(Held("a"), Offered({}), {kGpu}), At(seconds));
  };
  // What was unhealthy stays so, who holds what is told.
  const std::vector<HeldDevice> first = silent(1000);
  EXPECT_THAT(Unhealthy(first), ElementsAre("c"));
  EXPECT_TRUE(std::ranges::any_of(
      first, [](const HeldDevice& device) { return device.id == "a" && !device.holders.empty(); }));
  EXPECT_THAT(Unhealthy(silent(1059)), ElementsAre("c"));
  EXPECT_THAT(Unhealthy(silent(1060)), ElementsAre("a", "b", "c"));
}

TEST_F(DeviceMemoryTest, SurvivesNonsenseInItsFile) {
  std::filesystem::create_directories(folder_);
  for (const char* text :
       {"", "{", "[]", "{\"bootId\": 7}", "{\"bootId\": \"boot\"}",
        "{\"bootId\": \"boot\", \"offered\": 7}", "{\"bootId\": \"boot\", \"notOffered\": [[]]}",
        "{\"bootId\": \"boot\", \"offered\": {\"x\": 7, \"y\": [7]}}"}) {
    std::ofstream(path_) << text;
    EXPECT_THAT(DeviceMemory(path_, "boot").Complete(Devices({"a"}, "a"), At(0)), SizeIs(1))
        << text;
  }
}

}  // namespace
}  // namespace asterism::agent
