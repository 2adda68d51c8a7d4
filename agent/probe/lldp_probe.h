// File: agent/probe/lldp_probe.h
//
// Switches that stand next to the node, as lldpd heard them: its `lldpctl -f json0`, either from a
// file that somebody else writes, or by running the program.
//
//   LldpProbe probe({.file = "/run/asterism/lldp.json"});
//   LldpProbe probe({.command = {"lldpctl", "-f", "json0"}});
//
// No neighbour is no fact: firmware of a card may eat the frames.
//
// Thread-safety: ParseLldp is pure; the probe as Probe. Cost: one pass of the text; with a command
// one process each period, ended after two seconds.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "agent/probe/probe.h"
#include "agent/probe/text_source.h"

namespace asterism::agent {

inline constexpr size_t kLldpBytesMax = size_t{1} << 20;
inline constexpr size_t kNeighborsMax = 1024;

// Takes lldpd's json0 (every value in a list) and its json (lists of one as plain values).
absl::StatusOr<v1::MeasuredNeighbors> ParseLldp(std::string_view text);

class LldpProbe final : public Probe {
 public:
  explicit LldpProbe(TextSource source, absl::Duration period = absl::Seconds(30));
  ProbeResult Run() override;

 private:
  const TextSource source_;
};

}  // namespace asterism::agent
