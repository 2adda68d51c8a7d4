// File: controller/ledger_page.h
//
// The ledger as JSON for people and for checks that compare it with the API server (/ledgerz).
//
//   response.body = LedgerPage(*view, plane.device_holders(), leading);
//
// {"version":7,"leading":true,
//  "nodes":[{"name":"..","allocatable":{"nvidia.com/gpu":8,..},"used":{..},"usable":true}],
//  "gangs":[{"uid":"..","name":"ns/job","queue":"..","epoch":1,"gpusPerBlock":8,
//            "blocks":[{"firstRank":0,"node":"..","epoch":1,"state":"bound","pod":"<uid>"}]}]}
// cpu is in thousandths of a core. Nodes are in topology order, gangs sorted by uid.
//
// Thread-safety: pure. Cost: some milliseconds at 1,280 nodes; it is a page for diagnosis.
#pragma once

#include <string>

#include "controller/agent_registry.h"
#include "scheduler/ledger.h"

namespace asterism::controller {

// `holders`: which device which pod holds, as far as agents have told.
std::string LedgerPage(const scheduler::LedgerView& view, const DeviceHolders& holders,
                       bool leading);

}  // namespace asterism::controller
