// File: agent/probe/measurement_merge.h
//
// Makes one measurement of what the probes found: GPUs of all drivers in one list, distances
// between them and to the network cards by the PCI tree, NUMA nodes normalised.
//
//   const v1::NodeMeasurement measured = MergeMeasurement({{"nvml", &nvml}, {"pci", &pci}, ...});
//
// Sysfs says which NUMA node a device is on; where it says -1, a matrix of the driver that prints
// NODE or SYS proves nothing, and the distance is unknown. A part that no probe has told is left
// out, and so are GPUs while one of the drivers has not been heard. Generation, `full` and the
// outcomes are for others to fill in.
//
// Thread-safety: pure. Cost: GPUs x cards.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "agent/probe/probe.h"
#include "google/protobuf/message.h"

namespace asterism::agent {

// In the order of the probes; results that are null or failed are skipped.
v1::NodeMeasurement MergeMeasurement(
    const std::vector<std::pair<std::string_view, const ProbeResult*>>& results);

// Texts of firmware, switches and tools may hold any bytes, and the wire takes UTF-8 only: what is
// no printable ASCII becomes '?', and a text of more than 1 KiB is cut.
void MakePrintable(google::protobuf::Message& message);

}  // namespace asterism::agent
