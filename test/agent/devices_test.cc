// What kubelet tells about devices, and what the agent remembers of them.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/device_memory.h"
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
                             .pod_namespace = "research",
                             .pod_name = "llama-0",
                             .container = "trainer"}));
  // After a restart of kubelet the next look may fail, the one after it finds the new socket.
  kubelet.Stop();
  EXPECT_FALSE(source.Read().ok());
  kubelet.Start();
  EXPECT_TRUE(source.Read().ok());
  std::filesystem::remove_all(root);
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
  EXPECT_TRUE(std::ranges::any_of(first, [](const HeldDevice& device) {
    return device.id == "a" && !device.pod_name.empty();
  }));
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
