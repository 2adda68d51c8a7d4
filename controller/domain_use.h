// File: controller/domain_use.h
//
// How many GPUs of each domain are free, held, spare and faulty, from a view of the ledger: what
// the page of the topology and the metrics of the cluster show.
//
//   const DomainUses uses = MeasureDomains(*view, {"nvidia.com/gpu"});
//   uses[level][domain].gpus.free
//
// A GPU counts once: total = free + held + spare + faulty. Free ones may be placed on; faulty ones
// are not held and lie on a node that is not usable (cordoned, not Ready, tainted for everybody);
// held ones have a holder, whatever state their node is in; spare ones are kept for a gang that may
// lose a pod.
//
// Thread-safety: pure. Cost: O(nodes x levels + gangs + spares).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/ledger.h"

namespace asterism::controller {

struct DomainGpus {
  int64_t total = 0;
  int64_t free = 0;
  int64_t held = 0;
  int64_t spare = 0;
  int64_t faulty = 0;

  void Add(const DomainGpus& other);
};

struct DomainUse {
  DomainGpus gpus;
  int64_t nodes = 0;
  int64_t unusable_nodes = 0;
};

// By level, inner to outer, and by domain in topology order; empty without a cluster.
using DomainUses = std::vector<std::vector<DomainUse>>;

// `gpu_resources`: extended resources that count GPUs.
DomainUses MeasureDomains(const scheduler::LedgerView& view,
                          const std::vector<std::string>& gpu_resources);

}  // namespace asterism::controller
