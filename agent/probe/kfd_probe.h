// File: agent/probe/kfd_probe.h
//
// AMD GPUs as the kernel's KFD tells them: /sys/class/kfd/kfd/topology/nodes.
//
//   KfdProbe probe({.sysfs = "/host/sys"});
//
// Several KFD nodes may be partitions of one card (CPX of MI300X): they share its unique id and are
// told as one GPU that is split. Links of type 11 are xGMI. The key is the card's unique id,
// "GPU-" and 16 hexadecimal digits; a card without one has none and is told by its PCI address.
//
// Thread-safety: as Probe. Cost: one file for each node and link: 1 ms for 8 cards, 20 ms for 64
// partitions.
#pragma once

#include <string>

#include "agent/probe/probe.h"

namespace asterism::agent {

inline constexpr size_t kKfdNodesMax = 1024;

class KfdProbe final : public Probe {
 public:
  explicit KfdProbe(ProbeRoots roots, absl::Duration period = absl::Seconds(60));
  ProbeResult Run() override;

 private:
  const ProbeRoots roots_;
};

}  // namespace asterism::agent
