// File: controller/ledger_message.h
//
// The ledger as a message: GPUs by level and domain, and the gangs that hold them.
//
//   RETURN_IF_ERROR(FillLedger(*view, gpu_resources, request, visible, response));
//
// Thread-safety: pure. Cost: O((nodes + blocks) x levels), about 1 ms at 1,280 nodes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/visible_namespaces.h"
#include "scheduler/ledger.h"

namespace asterism::v1 {
class GetLedgerRequest;
class GetLedgerResponse;
}  // namespace asterism::v1

namespace asterism::controller {

// Names only gangs of visible namespaces; the others count. kInvalidArgument: a level that the
// cluster has not.
absl::Status FillLedger(const scheduler::LedgerView& view,
                        const std::vector<std::string>& gpu_resources,
                        const v1::GetLedgerRequest& request, const VisibleNamespaces& visible,
                        v1::GetLedgerResponse& response);

// Of "namespace/name".
std::string_view NamespaceOf(std::string_view gang_name);

}  // namespace asterism::controller
