// A device plug-in for nodes without GPUs: offers what a file says. Only for tests; the GPUs of a
// real node are offered by their vendor's plug-in.
//
//   asterism-test-device-plugin --fixture gpus.json --kubelet-root /var/lib/kubelet
//
// The file: {"gpus": [{"uuid": "GPU-...", "numa": 0, "health": "Healthy" | "Unhealthy"}]}, and all
// that the fake NVML reads in it; see test/rig/gpu_fixture/gpu_fixture.h. It is read again whenever
// it changes, so that a test can break a GPU: one that is lost is unhealthy. A container gets
// NVIDIA_VISIBLE_DEVICES, as from NVIDIA's plug-in.
#include <signal.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "agent/device_plugin.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "test/rig/gpu_fixture/gpu_fixture.h"

ABSL_FLAG(std::string, fixture, "", "file that says which GPUs there are");
ABSL_FLAG(std::string, kubelet_root, "/var/lib/kubelet", "kubelet's --root-dir");
ABSL_FLAG(std::string, resource, "nvidia.com/gpu", "the extended resource");

namespace asterism {
namespace {

absl::StatusOr<std::vector<agent::PluginDevice>> ReadFixture(const std::string& path) {
  ASSIGN_OR_RETURN(const testing::GpuFixture fixture, testing::ReadGpuFixture(path));
  std::vector<agent::PluginDevice> devices;
  for (size_t i = 0; i < fixture.gpus.size(); ++i) {
    const testing::FixtureGpu& gpu = fixture.gpus[i];
    devices.push_back({.id = gpu.uuid,
                       .healthy = gpu.healthy && !fixture.faults.lost.contains(i),
                       .numa_node = gpu.numa});
  }
  return devices;
}

absl::Status Run() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const std::string path = absl::GetFlag(FLAGS_fixture);
  ASSIGN_OR_RETURN(std::vector<agent::PluginDevice> devices, ReadFixture(path));
  ASSIGN_OR_RETURN(const auto plugin,
                   agent::DevicePlugin::Start(
                       {.resource = absl::GetFlag(FLAGS_resource),
                        .folder = absl::GetFlag(FLAGS_kubelet_root) + "/device-plugins",
                        .socket = "asterism-test-gpu.sock"},
                       [](const std::vector<std::string>& ids) {
                         return agent::Grant{
                             .environment = {{"NVIDIA_VISIBLE_DEVICES", absl::StrJoin(ids, ",")}}};
                       }));
  plugin->SetDevices(std::move(devices));
  std::filesystem::file_time_type read{};
  const timespec period{.tv_nsec = 200'000'000};
  while (sigtimedwait(&signals, nullptr, &period) < 0) {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(path, error);
    if (error || written == std::exchange(read, written)) {
      continue;
    }
    absl::StatusOr<std::vector<agent::PluginDevice>> next = ReadFixture(path);
    if (next.ok()) {
      plugin->SetDevices(*std::move(next));
    } else {
      base::LogWarning("fixture_not_read", {{"error", std::string(next.status().message())}});
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace asterism

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  if (const absl::Status status = asterism::Run(); !status.ok()) {
    std::cerr << "asterism-test-device-plugin: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
