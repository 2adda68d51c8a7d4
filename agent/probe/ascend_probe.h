// File: agent/probe/ascend_probe.h
//
// Ascend NPUs as `npu-smi info -t topo` prints them, either from a file that somebody else writes,
// or by running the program.
//
//   AscendProbe probe({.sysfs = "/host/sys"}, {.file = "/run/asterism/npu-topology.txt"});
//
// The text has no ids and no addresses: the key of a device is its number, "NPU-0". Each peer over
// HCCS is one link, without its rate. Two dies of one board (SIO) are as near as can be. A matrix
// with fewer devices than the PCI bus has NPUs comes from inside a container with a part of them,
// and is refused.
//
// Thread-safety: ParseNpuTopology is pure; the probe as Probe. Cost: O(devices^2), and a process
// each period where a command is given.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "agent/probe/probe.h"
#include "agent/probe/text_source.h"

namespace asterism::agent {

inline constexpr size_t kNpuTopologyBytesMax = size_t{256} << 10;

// kInvalidArgument: no matrix, one that is cut, or one of other devices.
absl::StatusOr<v1::MeasuredGpus> ParseNpuTopology(std::string_view text);

class AscendProbe final : public Probe {
 public:
  AscendProbe(ProbeRoots roots, TextSource source, absl::Duration period = absl::Seconds(60));
  ProbeResult Run() override;

 private:
  const ProbeRoots roots_;
  const TextSource source_;
};

}  // namespace asterism::agent
