// File: agent/probe/nvml_probe.h
//
// NVIDIA GPUs as the driver tells them: identity, memory, MIG, NVLinks, peer-to-peer access, the
// NVLink domain and the place in the rack.
//
//   NvmlProbe probe(roots, NvmlCandidates());
//
// NVML stays initialised between runs (each initialisation would wake the GPUs up); it is
// initialised anew when the driver went away, and when the GPUs on the PCI bus are no longer those
// that it shows. A GPU that is lost keeps what was known of it. The probe refuses to tell a part of
// the GPUs as all of them: a container may be shown one of four.
//
// Without an NVIDIA GPU on the PCI bus nothing is loaded, and nothing is wrong.
//
// Thread-safety: as Probe; all calls into NVML come from that thread. Cost: some 20 calls a GPU,
// one for each link that is up and two for each pair: 1 to 5 ms for 8 GPUs, without the first
// initialisation, which may take seconds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/probe/nvml_fabric.h"
#include "agent/probe/nvml_library.h"
#include "agent/probe/probe.h"

namespace asterism::agent {

class NvmlProbe final : public Probe {
 public:
  NvmlProbe(ProbeRoots roots, std::vector<std::string> libraries,
            absl::Duration period = absl::Seconds(30));
  // Leaves NVML initialised: a call that hangs may still be in it.
  ~NvmlProbe() override = default;

  ProbeResult Run() override;

 private:
  struct KnownGpu {
    v1::MeasuredGpu gpu;
    nvml::Device device = nullptr;
  };

  absl::Status Open();
  void Close();
  absl::StatusOr<std::vector<KnownGpu>> ReadGpus(const PciTree& tree, ProbeResult& result);
  absl::StatusOr<KnownGpu> ReadGpu(uint32_t index, ProbeResult& result);
  absl::StatusOr<KnownGpu> LostGpu(uint32_t index, const std::vector<KnownGpu>& found,
                                   const std::vector<std::string>& on_bus) const;
  void ReadLinks(const KnownGpu& known, v1::MeasuredGpu& gpu, ProbeResult& result) const;
  void ReadPairs(const std::vector<KnownGpu>& gpus, v1::MeasuredGpus& told) const;
  FabricFacts ReadFabric(const KnownGpu& known, ProbeResult& result) const;
  void ReadPlace(const std::vector<KnownGpu>& gpus, ProbeResult& result) const;

  const ProbeRoots roots_;
  const std::vector<std::string> libraries_;
  std::unique_ptr<NvmlLibrary> nvml_;
  bool open_ = false;
  std::vector<std::string> shown_on_bus_;      // when NVML was initialised
  std::map<uint32_t, v1::MeasuredGpu> known_;  // by index, since NVML was initialised
};

}  // namespace asterism::agent
