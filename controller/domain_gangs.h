// File: controller/domain_gangs.h
//
// Which gangs have a block in each domain, from a view of the ledger: for the page of the topology
// and for GetLedger.
//
//   const DomainGangs gangs = FindDomainGangs(*view, 10, [](const GangView&) { return true; });
//   gangs[level][domain].names, gangs[level][domain].count
//
// Thread-safety: pure. Cost: O(gangs log gangs + blocks x levels).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "scheduler/ledger.h"

namespace asterism::controller {

struct GangsOfDomain {
  std::vector<std::string_view> names;  // "namespace/name", of the view; the first that may be told
  int64_t count = 0;                    // all of them
};

// By level, inner to outer, and by domain in topology order; empty without a cluster.
using DomainGangs = std::vector<std::vector<GangsOfDomain>>;

// At most `names_max` a domain, of those that `may_tell` lets pass.
DomainGangs FindDomainGangs(const scheduler::LedgerView& view, size_t names_max,
                            absl::FunctionRef<bool(const scheduler::GangView&)> may_tell);

// Sorted by name, then uid.
std::vector<const scheduler::GangView*> GangsByName(const scheduler::LedgerView& view);

}  // namespace asterism::controller
