// File: agent/device_report.h
//
// What kubelet says about the devices of the node, as the controller is told.
//
//   link.Tell(DeviceReportOf(memory.Complete(devices, now)));
//
// Every device stands once, and once more for each further pod that is said to hold it, as far as
// the controller takes so many (kToldDevicesMax; more would end the stream).
//
// Thread-safety: pure. Cost: O(devices).
#pragma once

#include <cstddef>
#include <vector>

#include "agent/pod_resources.h"
#include "asterism/v1/agent.pb.h"

namespace asterism::agent {

inline constexpr size_t kToldDevicesMax = 4096;

v1::DeviceReport DeviceReportOf(const std::vector<HeldDevice>& devices);

}  // namespace asterism::agent
