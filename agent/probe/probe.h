// File: agent/probe/probe.h
//
// One way to learn something about the node: the driver's library, a tree of sysfs, a text of a
// tool. A probe only reads. It says what it found, what it could not tell, and what it can never
// tell here; it never guesses.
//
//   class RdmaProbe final : public Probe {
//     ProbeResult Run() override;   // waits as long as the kernel or a library lets it wait
//   };
//   NodeMeasurer measurer(executor, std::move(probes), {}, tell);   // runs all of them
//
// Unknown is never the same as absent: what a probe could not ask is a problem or a gap, not a
// zero.
//
// Thread-safety: Run is called from one thread, never twice at once, and may hang: whoever runs it
// has a deadline and keeps what was known. Cost: each probe says its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "agent/probe/pci_tree.h"
#include "asterism/v1/node_measurement.pb.h"

namespace asterism::agent {

inline constexpr size_t kProbeGapsMax = 16;

// Where the probes look: the machine's own trees, or those that a test has made.
struct ProbeRoots {
  std::string sysfs = "/sys";
  std::string proc = "/proc";
};

struct ProbeResult {
  // Empty: it answered. Else the parts say nothing, and what was known before is stale.
  std::string problem;
  // What it can never tell here, by name; at most kProbeGapsMax count.
  std::vector<std::string> gaps;
  // Only parts; who merges them fills the rest.
  v1::NodeMeasurement parts;
  // What the merge needs beside the message.
  std::optional<PciTree> pci;
  std::optional<PciOverlay> overlay;
  // Something is about to change: ask again so soon. Zero: after the period.
  absl::Duration again;

  static ProbeResult Failed(std::string why) {
    ProbeResult result;
    result.problem = std::move(why);
    return result;
  }
};

class Probe {
 public:
  Probe(std::string name, absl::Duration period) : name_(std::move(name)), period_(period) {}
  virtual ~Probe() = default;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  const std::string& name() const { return name_; }  // "rdma"
  absl::Duration period() const { return period_; }
  virtual ProbeResult Run() = 0;

 private:
  const std::string name_;
  const absl::Duration period_;
};

}  // namespace asterism::agent
