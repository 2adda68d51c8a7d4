// File: scheduler/extender/gang_check.h
//
// Whether a gang's pod may go to the node that it is pinned to: only when the ledger says that this
// rank block lives there, since the epoch that the pod carries, and nobody else holds what it
// needs.
//
//   GangAnswer answer = CheckGangPod(view, table, pod, gpu_resources);
//   if (answer.refusal == GangRefusal::kNone) -> answer.node
//
// A later epoch of the job alone is no reason to refuse: it may have moved other ranks only.
//
// Thread-safety: pure. Cost: two hash look-ups and a binary search.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "scheduler/extender/node_table.h"
#include "scheduler/extender/pod_question.h"
#include "scheduler/ledger.h"

namespace asterism::scheduler::extender {

enum class GangRefusal { kNone, kNotPlaced, kMoved, kOtherNode, kForeignHolder };
inline constexpr size_t kGangRefusals = 5;
// For metrics: "not_placed".
std::string_view GangRefusalName(GangRefusal refusal);

struct GangAnswer {
  GangRefusal refusal = GangRefusal::kNone;
  std::string message;      // why not; names job and remedy or state
  uint32_t node = kNoNode;  // where the ledger has the rank block; the only good answer
  int64_t first_rank = -1;
};

GangAnswer CheckGangPod(const LedgerView& view, const NodeTable& table, const PodQuestion& pod,
                        std::span<const std::string> gpu_resources);

// Why any other node is refused.
std::string OtherNodeMessage(const LedgerView& view, const PodQuestion& pod,
                             const GangAnswer& answer);

}  // namespace asterism::scheduler::extender
