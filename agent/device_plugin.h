// File: agent/device_plugin.h
//
// A device plug-in of kubelet (v1beta1): offers devices of one extended resource, and says what a
// container gets with them.
//
//   ASSIGN_OR_RETURN(auto plugin, DevicePlugin::Start({.resource = "asterism.dev/port",
//                    .folder = "/var/lib/kubelet/device-plugins", .socket = "asterism-port.sock"},
//                    [](const std::vector<std::string>& ids) { return Grant{...}; }));
//   plugin->SetDevices({{.id = "port-0"}, ...});
//
// Registers with kubelet, and again whenever kubelet has started anew: it then has removed the
// plug-in's socket, or made a new one of its own. While kubelet is away, it tries each second.
//
// Thread-safety: any thread. Cost: a thread, and those of gRPC.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace asterism::agent {

struct PluginDevice {
  std::string id;  // at most 63 characters
  bool healthy = true;
  int numa_node = -1;  // -1: not known

  bool operator==(const PluginDevice&) const = default;
};

// What the container gets.
struct Grant {
  struct Mount {
    std::string host_path;
    std::string container_path;
    bool read_only = true;
  };
  std::map<std::string, std::string> environment;
  std::vector<Mount> mounts;
};

struct DevicePluginOptions {
  std::string resource;
  std::string folder = "/var/lib/kubelet/device-plugins";
  std::string socket;  // name of the file in the folder
  absl::Duration look_period = absl::Seconds(1);
};

class DevicePlugin {
 public:
  using Allocate = std::function<Grant(const std::vector<std::string>& ids)>;

  static absl::StatusOr<std::unique_ptr<DevicePlugin>> Start(DevicePluginOptions options,
                                                             Allocate allocate);
  ~DevicePlugin();
  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;

  // Told to kubelet at once.
  void SetDevices(std::vector<PluginDevice> devices);
  // kubelet has accepted the present registration.
  bool registered() const;

 private:
  class Server;
  explicit DevicePlugin(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace asterism::agent
