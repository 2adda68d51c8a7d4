// File: agent/probe/probe_set.h
//
// Which probes run on this node, and where they look.
//
//   ProbeSetOptions options;
//   options.roots.sysfs = "/host/sys";
//   std::vector<std::unique_ptr<Probe>> probes = MakeProbes(options);
//
// Thread-safety: pure. Cost: none until they run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/probe/cloud_probe.h"
#include "agent/probe/probe.h"
#include "agent/probe/text_source.h"

namespace asterism::agent {

struct ProbeSetOptions {
  ProbeRoots roots;
  absl::Duration period = absl::Seconds(30);  // of what changes rarely
  // Empty: those of NvmlCandidates().
  std::vector<std::string> nvml_libraries;
  std::string overlay_file;  // empty: none
  TextSource lldp;           // empty: none
  TextSource npu_topology;   // empty: none
  std::vector<Cloud> clouds;
};

std::vector<std::unique_ptr<Probe>> MakeProbes(const ProbeSetOptions& options);

// "aws", "gcp" or "oci"; the error names the three.
absl::StatusOr<Cloud> CloudNamed(std::string_view name);

}  // namespace asterism::agent
