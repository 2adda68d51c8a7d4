#include "agent/probe/probe_set.h"

#include <algorithm>

#include "absl/status/status.h"
#include "agent/probe/ascend_probe.h"
#include "agent/probe/kfd_probe.h"
#include "agent/probe/lldp_probe.h"
#include "agent/probe/nvml_probe.h"
#include "agent/probe/pci_overlay.h"
#include "agent/probe/pci_probe.h"
#include "agent/probe/rdma_probe.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

// A port that goes down is to be known soon.
constexpr absl::Duration kRdmaPeriod = absl::Seconds(5);
constexpr absl::Duration kKfdPeriod = absl::Seconds(60);
constexpr absl::Duration kAscendPeriod = absl::Seconds(60);

}  // namespace

std::vector<std::unique_ptr<Probe>> MakeProbes(const ProbeSetOptions& options) {
  std::vector<std::unique_ptr<Probe>> probes;
  probes.push_back(std::make_unique<NvmlProbe>(
      options.roots, options.nvml_libraries.empty() ? NvmlCandidates() : options.nvml_libraries,
      options.period));
  probes.push_back(std::make_unique<KfdProbe>(options.roots, std::max(kKfdPeriod, options.period)));
  probes.push_back(std::make_unique<PciProbe>(options.roots, options.period));
  probes.push_back(
      std::make_unique<RdmaProbe>(options.roots, std::min(kRdmaPeriod, options.period)));
  if (!options.overlay_file.empty()) {
    probes.push_back(std::make_unique<PciOverlayProbe>(options.overlay_file, options.period));
  }
  if (!options.lldp.empty()) {
    probes.push_back(std::make_unique<LldpProbe>(options.lldp, options.period));
  }
  if (!options.npu_topology.empty()) {
    probes.push_back(std::make_unique<AscendProbe>(options.roots, options.npu_topology,
                                                   std::max(kAscendPeriod, options.period)));
  }
  for (const Cloud cloud : options.clouds) {
    probes.push_back(std::make_unique<CloudProbe>(CloudOptions{.cloud = cloud}));
  }
  return probes;
}

absl::StatusOr<Cloud> CloudNamed(std::string_view name) {
  if (name == "aws") {
    return Cloud::kAws;
  }
  if (name == "gcp") {
    return Cloud::kGcp;
  }
  if (name == "oci") {
    return Cloud::kOci;
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no cloud that is known here: aws, gcp or oci", name));
}

}  // namespace asterism::agent
