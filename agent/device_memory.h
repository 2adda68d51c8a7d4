// File: agent/device_memory.h
//
// Devices that this node once offered: kubelet keeps silent about those that are unhealthy, so what
// is missing has to be remembered. Kept in a file, with what was offered last, for as long as the
// node is not booted anew.
//
//   DeviceMemory memory("/var/lib/asterism/devices.json", boot_id);
//   devices = memory.Complete(devices, now);   // adds those that are missing, as not offered
//
// While kubelet starts anew, it offers no device of a resource until the plug-in has come back: for
// kSilence the last answer about the resource holds, then all of its devices are unhealthy. For an
// agent that started anew the last answer is that of the file.
//
// A node whose devices were changed without a reboot keeps the old ones as unhealthy until then.
//
// Thread-safety: none. Cost: writes the file when the set or what is offered of it has changed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/pod_resources.h"
#include "base/clock.h"

namespace asterism::agent {

inline constexpr absl::Duration kSilence = absl::Seconds(60);

class DeviceMemory {
 public:
  // A file that cannot be read, or is of another boot, is an empty memory. An empty path: nothing
  // is kept.
  DeviceMemory(std::string path, std::string boot_id);

  std::vector<HeldDevice> Complete(const std::vector<HeldDevice>& devices, base::SteadyTime now);

 private:
  // Whether a device that is known is offered, by id.
  using Known = std::map<std::string, bool>;

  void Read();
  void Write() const;

  const std::string path_;
  const std::string boot_id_;
  std::map<std::string, Known> known_;  // by resource
  struct Answer {
    std::vector<HeldDevice> devices;
    std::optional<base::SteadyTime> when;  // empty: of the file
  };
  std::map<std::string, Answer> last_;  // that offered at least one device, by resource
};

}  // namespace asterism::agent
