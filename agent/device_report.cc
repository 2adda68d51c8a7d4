#include "agent/device_report.h"

#include <algorithm>

namespace asterism::agent {
namespace {

v1::Device& AddDevice(const HeldDevice& device, v1::DeviceReport& report) {
  v1::Device& told = *report.add_devices();
  told.set_resource(device.resource);
  told.set_id(device.id);
  told.set_unhealthy(!device.offered);
  told.set_numa_node(device.numa_node);
  return told;
}

void SetHolder(const DeviceHolder& holder, v1::Device& told) {
  told.set_pod_namespace(holder.pod_namespace);
  told.set_pod_name(holder.pod_name);
  told.set_container(holder.container);
}

}  // namespace

v1::DeviceReport DeviceReportOf(const std::vector<HeldDevice>& devices) {
  v1::DeviceReport report;
  size_t room = kToldDevicesMax - std::min(devices.size(), kToldDevicesMax);
  for (const HeldDevice& device : devices) {
    v1::Device& first = AddDevice(device, report);
    if (!device.holders.empty()) {
      SetHolder(device.holders.front(), first);
    }
    for (size_t i = 1; i < device.holders.size() && room > 0; ++i, --room) {
      SetHolder(device.holders[i], AddDevice(device, report));
    }
  }
  return report;
}

}  // namespace asterism::agent
