#include "agent/device_plugin.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/agent/fake_kubelet.h"

namespace asterism::agent {
namespace {

constexpr char kThing[] = "example.com/thing";

class DevicePluginTest : public ::testing::Test {
 protected:
  void SetUp() override { kubelet_.Start(); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::unique_ptr<DevicePlugin> Begin() {
    auto plugin =
        DevicePlugin::Start({.resource = kThing,
                             .folder = root_ + "/device-plugins",
                             .socket = "thing.sock",
                             .look_period = absl::Milliseconds(50)},
                            [](const std::vector<std::string>& ids) {
                              return Grant{.environment = {{"THINGS", ids.empty() ? "" : ids[0]}},
                                           .mounts = {{.host_path = "/a", .container_path = "/b"}}};
                            });
    EXPECT_TRUE(plugin.ok()) << plugin.status();
    return *std::move(plugin);
  }

  const std::string root_ = ::testing::TempDir() + "plugin-" + std::to_string(getpid());
  FakeKubelet kubelet_{root_};
};

TEST_F(DevicePluginTest, TellsItsDevicesAndEachChange) {
  const auto plugin = Begin();
  plugin->SetDevices({{.id = "a", .numa_node = 1}, {.id = "b"}});
  ASSERT_TRUE(kubelet_.AwaitRegistrations(kThing, 1));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  const auto stub = kubelet_.Plugin(kThing);
  const auto stream = stub->ListAndWatch(&context, v1beta1::Empty());
  v1beta1::ListAndWatchResponse list;
  ASSERT_TRUE(stream->Read(&list));
  ASSERT_EQ(list.devices_size(), 2);
  EXPECT_EQ(list.devices(0).topology().nodes(0).id(), 1);
  EXPECT_FALSE(list.devices(1).has_topology());
  plugin->SetDevices({{.id = "a", .numa_node = 1}, {.id = "b", .healthy = false}});
  ASSERT_TRUE(stream->Read(&list));
  EXPECT_EQ(list.devices(0).health(), "Healthy");
  EXPECT_EQ(list.devices(1).health(), "Unhealthy");
  context.TryCancel();
}

TEST_F(DevicePluginTest, GivesEachContainerItsGrant) {
  const auto plugin = Begin();
  ASSERT_TRUE(kubelet_.AwaitRegistrations(kThing, 1));
  grpc::ClientContext context;
  v1beta1::AllocateRequest request;
  request.add_container_requests()->add_devices_ids("a");
  request.add_container_requests()->add_devices_ids("b");
  v1beta1::AllocateResponse response;
  ASSERT_TRUE(kubelet_.Plugin(kThing)->Allocate(&context, request, &response).ok());
  ASSERT_EQ(response.container_responses_size(), 2);
  EXPECT_EQ(response.container_responses(1).envs().at("THINGS"), "b");
  EXPECT_EQ(response.container_responses(0).mounts(0).container_path(), "/b");
  EXPECT_TRUE(response.container_responses(0).mounts(0).read_only());
}

TEST_F(DevicePluginTest, RegistersAgainWithAKubeletThatStartedAnew) {
  const auto plugin = Begin();
  ASSERT_TRUE(kubelet_.AwaitRegistrations(kThing, 1));
  kubelet_.Stop();
  kubelet_.Start();  // removes the plug-in's socket, makes its own anew
  ASSERT_TRUE(kubelet_.AwaitRegistrations(kThing, 2));
  grpc::ClientContext context;
  v1beta1::DevicePluginOptions options;
  EXPECT_TRUE(
      kubelet_.Plugin(kThing)->GetDevicePluginOptions(&context, v1beta1::Empty(), &options).ok());
}

TEST_F(DevicePluginTest, WaitsForAKubeletThatIsAway) {
  kubelet_.Stop();
  const auto plugin = Begin();
  absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(200));
  EXPECT_FALSE(plugin->registered());
  kubelet_.Start();
  EXPECT_TRUE(kubelet_.AwaitRegistrations(kThing, 1));
}

TEST_F(DevicePluginTest, OffersAgainAfterItsFolderWasAway) {
  const auto plugin = Begin();
  ASSERT_TRUE(kubelet_.AwaitRegistrations(kThing, 1));
  const std::string folder = root_ + "/device-plugins";
  std::filesystem::rename(folder, root_ + "/away");
  // Several tries fail.
  absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(300));
  EXPECT_FALSE(plugin->registered());
  std::filesystem::remove(root_ + "/away/thing.sock");
  std::filesystem::rename(root_ + "/away", folder);
  ASSERT_TRUE(kubelet_.AwaitRegistrations(kThing, 2));
  EXPECT_TRUE(std::filesystem::exists(folder + "/thing.sock"));
}

TEST_F(DevicePluginTest, LeavesNoSocketBehind) {
  Begin().reset();
  EXPECT_FALSE(std::filesystem::exists(root_ + "/device-plugins/thing.sock"));
}

TEST_F(DevicePluginTest, RemovesOnlySockets) {
  const std::string path = root_ + "/device-plugins/thing.sock";
  std::ofstream(path) << "a file of somebody";
  const auto plugin = DevicePlugin::Start(
      {.resource = kThing, .folder = root_ + "/device-plugins", .socket = "thing.sock"},
      [](const std::vector<std::string>&) { return Grant(); });
  EXPECT_THAT(std::string(plugin.status().message()), ::testing::HasSubstr("cannot listen"));
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace asterism::agent
